// The words of enumerations in dumps and messages.
#pragma once

#include <string>
#include <string_view>

#include "acan/model/graph.h"
#include "acan/model/input_role.h"

namespace acan::model {

std::string_view Word(Rotation rotation);
std::string_view Word(AttentionMask mask);
std::string_view Word(Correction correction);
std::string_view Word(PoolingKind kind);
std::string_view Word(SliceAxis axis);
std::string_view Word(ActivationKind kind);
std::string_view Word(DropoutUnit unit);
std::string_view Word(ExponentialOrder order);
std::string_view Word(Role role);
std::string_view Word(FileLayout layout);

std::string ToText(const Initial& initial);

}  // namespace acan::model
