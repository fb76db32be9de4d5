// The probes that `acan bench backends` times on one device, in groups that share a limit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "layer_shape.h"

namespace acan::bench {

struct MatrixShape {
  std::int64_t rows, cols;
};

struct ProbeSizes {
  std::vector<std::int64_t> batches;
  std::vector<LayerShape> layers;
  MatrixShape weights, activations;  // of kernels
  std::vector<std::int64_t> transfer_bytes;
};

struct Probe {
  nlohmann::json facts;  // identify the probe in its row of the result; null: no row, only a limit
  double work = 0;       // flops or bytes of one run; 0: only the time is reported
  bool limit = false;    // the fastest limit in a group is what the others are compared with
  std::function<void(int runs)> run;  // runs it this many times, and waits for the last run
  std::function<void()> launch = {};  // of kernels: runs once and does not wait
};

struct Group {
  const char* section;  // of the result: "products", "kernels", "transfers", "overhead"
  std::vector<Probe> probes;
};

// Matrices on one device that probes share. Only the device's thread uses them.
class WorkArea {
 public:
  static constexpr std::size_t kWide = 5;

  // Has room for the matrices of all `sizes`, filled with values in [0.01, 1).
  WorkArea(Device& device, const ProbeSizes& sizes);

  Device& device() { return device_; }
  Matrix Wide(std::size_t index, MatrixShape shape) const;    // REQUIRES: index < kWide
  Matrix Row(std::size_t index, std::int64_t cols) const;     // [1, cols]; index < 3
  Matrix Column(std::size_t index, std::int64_t rows) const;  // [rows, 1]; the first holds zeros

 private:
  Device& device_;
  std::int64_t most_rows_;
  std::vector<BufferPtr> wide_, rows_;
  BufferPtr columns_;
};

// The same groups in the same order for every device. `library`, which may be null, is on another
// device with the same hardware. The speed of its fast products and plain kernels is a limit of
// `area`'s device, too. `own_library`: see HasOwnLibrary.
std::vector<Group> MakeGroups(const std::shared_ptr<WorkArea>& area,
                              const std::shared_ptr<WorkArea>& library, bool own_library,
                              const ProbeSizes& sizes);

// Whether fast products differ from the exact ones. A device without a vendor's library may compute
// exact products in both precisions, which the bits show.
bool HasOwnLibrary(WorkArea& area);

// Whether uploads and downloads of whole buffers copy nothing, because the device's memory is the
// host's.
bool SharesHostMemory(Device& device);

}  // namespace acan::bench
