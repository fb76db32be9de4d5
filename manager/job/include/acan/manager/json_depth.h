// Protects against deeply nested JSON, which only an attacker sends. Copying or printing it takes a
// stack frame per level, so it must be refused first.
#pragma once

#include "nlohmann/json.hpp"

namespace acan {

inline constexpr int kMaxJsonDepth = 16;  // receipts and jobs have 5

inline bool IsDeeperThan(const nlohmann::json& value, int most) {
  if (!value.is_structured()) return false;
  if (most == 0) return true;
  for (const nlohmann::json& child : value) {
    if (IsDeeperThan(child, most - 1)) return true;
  }
  return false;
}

}  // namespace acan
