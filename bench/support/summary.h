// How every benchmark reports a number that it measured several times.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace acan::bench {

// {median, min, max, repeats}. REQUIRES: `values` is not empty.
inline nlohmann::json Summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"median", values[values.size() / 2]},
          {"min", values.front()},
          {"max", values.back()},
          {"repeats", values.size()}};
}

}  // namespace acan::bench
