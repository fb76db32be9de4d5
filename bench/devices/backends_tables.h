// The result of `acan bench backends` as tables, for the text and the picture: a line for each
// measured thing, a column for each device.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace acan::bench {

struct ResultTable {
  struct Line {
    std::string label;
    std::vector<const nlohmann::json*> cells;  // rows of the result by device; null: not measured
  };
  std::string title;
  std::string limit;  // what ratios are relative to; empty: no ratios are shown
  std::string unit;   // "GFLOP/s", "GB/s" or "microseconds"
  std::string key;    // the number's name in a cell
  std::vector<Line> lines;
};

// Exact products, fast products, kernels, transfers, tiny tasks; tables without lines are left out.
// The tables point into `result`.
std::vector<ResultTable> ResultTables(const nlohmann::json& result);

// A ratio as text: "0.97", "0.0042".
std::string ShareText(double ratio);

}  // namespace acan::bench
