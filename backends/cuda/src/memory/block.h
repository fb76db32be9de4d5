// Block: memory of a GPU, and the last work on it that may still be under way.
#pragma once

#include <cstdint>
#include <optional>

#include "handles.h"

namespace acan::cuda {

enum class Lane : std::uint8_t { kCompute, kUpload };  // the streams that write to buffers

struct Block {
  DeviceBytes memory;
  std::uint64_t bytes = 0;  // rounded up, as the driver does
  Event event;              // recorded behind that work; for its owner to use in the meantime
  std::optional<Lane> busy_on;
};

}  // namespace acan::cuda
