// The meaning of a line of metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace acan {

struct MetricsLine {
  std::int64_t step = 0;
  bool of_step = false;        // false: of an evaluation
  std::optional<double> loss;  // nullopt: it was not finite
  double learning_rate = 0;
};

// The line of a step or an evaluation, without its '\n'; nullopt if it is damaged.
std::optional<MetricsLine> ParseMetricsLine(std::string_view text);

}  // namespace acan
