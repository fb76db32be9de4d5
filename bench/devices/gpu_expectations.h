// What gpu_bench expects of a GPU. Pure: figures in, findings out. All expectations are shares of
// what the same run measured in another way on the same GPU, so they hold for GPUs of any size.
// They are estimates until a GPU has been measured.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acan::bench {

// What the hardware gives a way, as a share of what the design asks for, in [0, 1]. The smallest
// one is the likeliest reason if the way is slow. Names: see docs/devices.md.
using Counters = std::map<std::string, double>;

// One way of doing something, and the way of doing the same that limits it.
struct Figure {
  std::string name;       // "forward 4096 4096 4096 exact": what --only of gpu_bench takes
  double rate = 0;        // of any unit
  std::string limit;      // "cublas_fp32"
  double limit_rate = 0;  // of the same unit, positive
  double expected = 0;    // share of limit_rate that is reached at least
  Counters counters;
};

struct Slower {
  Figure figure;
  double share = 0;
  std::string counter;  // empty: no counter is low, so that a profiler must find the reason
};

// Those that reach less than is expected of them, the furthest below first.
std::vector<Slower> SlowerThanExpected(const std::vector<Figure>& figures);

// "forward 4096 4096 4096 exact: 0.41 of cublas_fp32, expected 0.70; counter waves: 0.52".
std::string SentenceOf(const Slower& slower);

// The share of `limit` that `way` of a product with so many flops reaches at least; nothing is
// expected where there is none.
struct Expected {
  std::string_view way, limit;
  double share = 0;        // of large products
  double small_share = 0;  // of those where a launch takes as long as the work
};
const std::vector<Expected>& ExpectedOfProducts();
constexpr double kLargeProductFlops = 1e10;

// The share of the fastest plain kernel's bytes a second, for the kernel of this name.
std::optional<double> ExpectedOfKernel(std::string_view kernel);

// The share of a bare copy, for `way` of copying so many bytes.
std::optional<double> ExpectedOfCopy(std::string_view way, double bytes);

// The share of the multiprocessors' time that tiles have work, if each holds `at_once` of them and
// all take as long.
double ShareOfWaves(double tiles, double multiprocessors, double at_once);

}  // namespace acan::bench
