// gpu_bench: sums over groups of rows (a weight's gradient), in one call and as the calls that it
// replaces.
#include <fmt/format.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/device.h"
#include "cublas.h"
#include "gpu_parts.h"
#include "gpu_timing.h"
#include "gpu_ways.h"
#include "random_matrix.h"

namespace acan::cuda {

using nlohmann::json;

namespace {
class GroupsOnDevice {
 public:
  GroupsOnDevice(std::unique_ptr<Device> device, const GroupsShape& shape)
      : device_(std::move(device)), shape_(shape) {
    const std::int64_t rows = shape.group_rows * shape.groups;
    dy_ = bench::RandomMatrix(*device_, rows, shape.m, 0);
    x_ = bench::RandomMatrix(*device_, rows, shape.n, 1);
    // As many sums as may be open at once.
    for (std::int64_t left = shape.groups; left > 0; left /= 2) {
      sums_.push_back(bench::RandomMatrix(*device_, shape.m, shape.n, 2));
    }
  }

  // False if the device refuses the call.
  bool RunInOneCall(Precision precision) {
    return device_->GemmGroups(precision, kBlock, shape_.group_rows, dy_.matrix, x_.matrix,
                               sums_.front().matrix);
  }
  // After each group, as many sums are added as its number has trailing one bits.
  void RunOneByOne(Precision precision) {
    std::size_t open = 0;
    for (std::int64_t group = 0; group < shape_.groups; ++group) {
      device_->Gemm(GemmForm::kGradient, precision, kBlock, RowsOf(dy_, group), RowsOf(x_, group),
                    sums_[open++].matrix);
      for (std::int64_t left = group; left % 2 == 1; left /= 2) AddLast(open);
    }
    while (open > 1) AddLast(open);
  }

  // In one call if the device takes it.
  Way AsChosen(const std::string& name, Precision precision) {
    return {name,
            [this, precision] {
              if (!RunInOneCall(precision)) RunOneByOne(precision);
            },
            [this] { device_->Synchronize(); }};
  }
  Way AsSingleCalls(const std::string& name) {
    return {name, [this] { RunOneByOne(Precision::kExact); }, [this] { device_->Synchronize(); }};
  }

 private:
  static constexpr std::int64_t kBlock = 64;

  Matrix RowsOf(const bench::Operand& of, std::int64_t group) const {
    Matrix rows = of.matrix;
    rows.offset += group * shape_.group_rows * rows.stride;
    rows.rows = shape_.group_rows;
    return rows;
  }
  void AddLast(std::size_t& open) {
    --open;
    const Matrix& left = sums_[open - 1].matrix;
    KernelArgs args;
    args.m = {left, left, sums_[open].matrix};
    device_->Launch(Kernel::kAdd, args);
  }

  std::unique_ptr<Device> device_;
  GroupsShape shape_;
  bench::Operand dy_, x_;
  std::vector<bench::Operand> sums_;
};

std::string NameOf(const GroupsShape& s) {
  return fmt::format("groups {} {} {} {}", s.m, s.n, s.group_rows, s.groups);
}

// The ways to compute a sum over groups of rows, and their devices, the chosen way's first.
struct GroupsWays {
  std::vector<std::unique_ptr<GroupsOnDevice>> devices;
  std::vector<Way> ways;
};
GroupsWays WaysOf(const Sizes& sizes, const GroupsShape& s) {
  GroupsWays out;
  out.devices.push_back(std::make_unique<GroupsOnDevice>(Make(sizes), s));
  GroupsOnDevice& own = *out.devices.front();
  out.ways = {own.AsChosen("exact", Precision::kExact), own.AsSingleCalls("exact_single_calls")};
  if (CublasProblem().empty()) out.ways.push_back(own.AsChosen("fast_fp32", Precision::kFast));
  const GemmWay parts{std::nullopt, true};
  auto in_one = std::make_unique<GroupsOnDevice>(Make(sizes, FastMath::kFp32, parts), s);
  if (in_one->RunInOneCall(Precision::kExact)) {
    out.ways.push_back(in_one->AsChosen("exact_one_call", Precision::kExact));
    out.devices.push_back(std::move(in_one));
  }
  return out;
}
}  // namespace

json Groups(const Sizes& sizes, const GroupsShape& s, std::vector<bench::Figure>& figures) {
  const GroupsWays of = WaysOf(sizes, s);
  const bool in_one = of.devices.front()->RunInOneCall(Precision::kExact);
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) *
                       static_cast<double>(s.group_rows * s.groups);
  Rates rates;
  Settle(sizes, of.ways.front());
  json tflops = Compare(sizes, of.ways, 1e-12 * flops, rates);
  json us;
  for (const auto& [way, rate] : rates) us[way] = 1e-6 * flops / rate;
  AddFigures(NameOf(s), flops, rates, {}, figures);
  json out = {{"m", s.m},
              {"n", s.n},
              {"group_rows", s.group_rows},
              {"groups", s.groups},
              {"chosen", in_one ? "one call" : "single calls"},
              {"tflops", std::move(tflops)},
              {"us", std::move(us)}};
  return out;
}

bool ProfileGroups(const Sizes& sizes, const std::string& name, const Profile& profile) {
  for (const GroupsShape& s : sizes.groups) {
    if (!name.starts_with(NameOf(s) + " ")) continue;
    const GroupsWays of = WaysOf(sizes, s);
    for (const Way& way : of.ways) {
      if (NameOf(s) + " " + way.name != name) continue;
      profile([&] { way.Run(); });
      return true;
    }
  }
  return false;
}

}  // namespace acan::cuda
