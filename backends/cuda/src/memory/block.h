// Block: memory of a GPU, and the last work on it that may still be running.
#pragma once

#include <cstdint>
#include <optional>

#include "handles.h"

namespace acan::cuda {

enum class Lane : std::uint8_t { kCompute, kUpload };  // the streams that write to buffers

struct Block {
  DeviceBytes memory;
  std::uint64_t bytes = 0;  // as rounded up by the driver
  Event event;              // recorded after that work; meanwhile its owner may use it
  std::optional<Lane> busy_on;
};

}  // namespace acan::cuda
