// A weight's gradient over groups of rows on acan's own device, as gpu_bench measures it: in one
// call, and as the calls that it replaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/device.h"
#include "gpu_sizes.h"
#include "gpu_ways.h"
#include "random_matrix.h"

namespace acan::cuda {

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

}  // namespace acan::cuda
