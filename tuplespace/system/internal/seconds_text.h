// SecondsText: a duration as text for people.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace tuplespace {

// "10 s", "0.5 s".
inline std::string SecondsText(std::int64_t us) {
  return fmt::format("{:g} s", static_cast<double>(us) / 1e6);
}

}  // namespace tuplespace
