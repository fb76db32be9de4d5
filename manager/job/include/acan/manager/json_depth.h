// JSON that nests deeply, as nobody's but an attacker's does: to copy or to print it takes a stack
// frame for each level, so it must be refused first.
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
