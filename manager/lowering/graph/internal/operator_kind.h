// Tests for the kind of an operator.
#pragma once

#include <variant>

#include "acan/model/operator_table.h"

namespace acan {

template <class... Ops>
bool IsOneOf(const model::Operator& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}

}  // namespace acan
