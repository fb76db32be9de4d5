// What gpu_bench expects of a GPU. Pure functions from figures to findings. All expectations are
// relative to what the same run measured in another way on the same GPU, so they apply to GPUs of
// any size.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acan::bench {

// For each resource, the share in [0, 1] that a way gets of what its design asks for. If the way is
// slow, the smallest share is the likeliest reason. Names: see docs/devices.md.
using Counters = std::map<std::string, double>;

// One way of doing something, and the way of doing the same that limits it.
struct Figure {
  std::string name;       // "forward 4096 4096 4096 exact", as --only of gpu_bench takes it
  double rate = 0;        // in any unit
  std::string limit;      // "cublas_fp32"
  double limit_rate = 0;  // in the same unit, positive
  double expected = 0;    // the least expected share of limit_rate
  Counters counters;
};

struct Slower {
  Figure figure;
  double share = 0;
  std::string counter;  // empty: no counter is low, so a profiler must find the reason
};

// The figures that reach less than expected, the largest shortfall first.
std::vector<Slower> SlowerThanExpected(const std::vector<Figure>& figures);

// "forward 4096 4096 4096 exact: 0.41 of cublas_fp32, expected 0.70; counter waves: 0.52".
std::string SentenceOf(const Slower& slower);

// The least share of `limit` that is expected of `way`. For ways that are not listed, nothing is
// expected.
struct Expected {
  std::string_view way, limit;
  double share = 0;        // for large products
  double small_share = 0;  // for products where a launch takes as long as the work
};
const std::vector<Expected>& ExpectedOfProducts();
constexpr double kLargeProductFlops = 1e10;

// The expected share of the fastest plain kernel's bytes per second, for the kernel of this name.
std::optional<double> ExpectedOfKernel(std::string_view kernel);

// The expected share of a bare copy's rate, for copying so many bytes by `way`.
std::optional<double> ExpectedOfCopy(std::string_view way, double bytes);

// The share of the multiprocessors' time in which tiles have work, if each multiprocessor holds
// `at_once` tiles and all tiles take equally long.
double ShareOfWaves(double tiles, double multiprocessors, double at_once);

}  // namespace acan::bench
