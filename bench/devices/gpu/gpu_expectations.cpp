#include "gpu_expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace acan::bench {
namespace {

constexpr double kLowCounter = 0.8;

std::string LowestOf(const Counters& counters) {
  const auto lowest =
      std::min_element(counters.begin(), counters.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return lowest != counters.end() && lowest->second < kLowCounter ? lowest->first : "";
}

// Shares for kernels that only stream, and for kernels that sum along rows or columns.
constexpr double kStreaming = 0.7;
constexpr double kSumming = 0.4;
constexpr std::pair<std::string_view, double> kKernels[] = {
    {"kBiasActivation", kStreaming},
    {"kMultiply", kStreaming},
    {"kScale", kStreaming},
    {"kScaleColumns", kStreaming},
    {"kSgd", kStreaming},
    {"kMomentum", kStreaming},
    {"kAdamW", kStreaming},
    {"kColumnSums", kSumming},
    {"kColumnDots", kSumming},
    {"kNorm", kSumming},
    {"kNormGradient", kSumming},
    {"kNormScaleGradient", kSumming},
    {"kRowSquares", kSumming},
    {"kSoftmaxCrossEntropy", kSumming},
    {"kSquaredError", kSumming},
};

}  // namespace

std::vector<Slower> SlowerThanExpected(const std::vector<Figure>& figures) {
  std::vector<Slower> slower;
  for (const Figure& figure : figures) {
    const double share = figure.rate / figure.limit_rate;
    if (share < figure.expected) slower.push_back({figure, share, LowestOf(figure.counters)});
  }
  std::stable_sort(slower.begin(), slower.end(), [](const Slower& a, const Slower& b) {
    return a.share / a.figure.expected < b.share / b.figure.expected;
  });
  return slower;
}

std::string SentenceOf(const Slower& slower) {
  const Figure& figure = slower.figure;
  std::string out = fmt::format("{}: {:.2f} of {}, expected {:.2f}; ", figure.name, slower.share,
                                figure.limit, figure.expected);
  if (slower.counter.empty()) return out + "no counter of gpu_bench is low";
  return out +
         fmt::format("counter {}: {:.2f}", slower.counter, figure.counters.at(slower.counter));
}

const std::vector<Expected>& ExpectedOfProducts() {
  static const std::vector<Expected> kExpected = {
      {"exact", "cublas_fp32", 0.7, 0.5},
      // The chosen tile size against each fixed size.
      {"exact", "exact_128", 0.95, 0.9},
      {"exact", "exact_64", 0.95, 0.9},
      {"exact", "exact_32", 0.95, 0.9},
      {"exact", "exact_ring128", 0.95, 0.9},
      {"exact", "exact_ring64", 0.95, 0.9},
      {"exact", "exact_ring32", 0.95, 0.9},
      {"exact", "exact_uncut", 0.95, 0.9},
      // Sums over groups of rows: the chosen way against both.
      {"exact", "exact_one_call", 0.9, 0.9},
      {"exact", "exact_single_calls", 0.9, 0.9},
      {"fast_fp32", "cublas_fp32", 0.9, 0.5},
      {"fast_tf32", "cublas_tf32", 0.9, 0.5},
      {"fast_bf16", "cublas_bf16", 0.9, 0.5},
  };
  return kExpected;
}

std::optional<double> ExpectedOfKernel(std::string_view kernel) {
  for (const auto& [name, share] : kKernels) {
    if (name == kernel) return share;
  }
  return std::nullopt;
}

std::optional<double> ExpectedOfCopy(std::string_view way, double bytes) {
  constexpr double kLargeBytes = 1e6;  // below this, a call takes longer than its copy
  if (bytes < kLargeBytes) return std::nullopt;
  if (way == "upload") return 0.3;  // the host copies into pinned memory first
  if (way == "download") return 0.8;
  return std::nullopt;
}

double ShareOfWaves(double tiles, double multiprocessors, double at_once) {
  const double wave = multiprocessors * at_once;
  return tiles / (std::ceil(tiles / wave) * wave);
}

}  // namespace acan::bench
