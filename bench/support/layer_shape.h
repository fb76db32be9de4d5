// The size of a layer, as benchmarks of products take it.
#pragma once

#include <cstdint>

namespace acan::bench {

struct LayerShape {
  std::int64_t inputs;
  std::int64_t outputs;
};

}  // namespace acan::bench
