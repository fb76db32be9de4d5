// Names the flags of `acan broker` that set the limits which a broker's errors name.
#pragma once

#include <string>

namespace acan {

// An error's text as a broker wrote it, such as "limits.tuples: 2 more with 9 there, at most 10",
// with the flag if the limit has one.
std::string WithBrokerFlag(const std::string& text);

}  // namespace acan
