// Rates of dropout and of label smoothing.
#pragma once

#include <string>

namespace acan::model {

inline bool IsRate(float value) {
  return value >= 0.0f && value < 1.0f;
}

// What a rate must be, for messages that show `number`. The nearest float of one below 1 may be 1.
inline std::string RateText(double number) {
  const std::string range = "at least 0 and below 1";
  return number < 1.0 && static_cast<float>(number) == 1.0f ? range + ", and float32 rounds it to 1"
                                                            : range;
}

}  // namespace acan::model
