// The flags that define a handler: those of `acan handler`, and of `acan check`, which checks them
// in advance.
#pragma once

#include <cstdint>
#include <string>

#include "acan/core/error.h"
#include "acan/core/memory_budget.h"
#include "acan/handler/handler.h"
#include "device_list.h"
#include "flags.h"
#include "setting.h"

namespace acan::cli {

struct HandlerFlags {
  Setting connect;
  Setting device;
  Setting memory;
  Setting keys;
  Setting fast_math;
  Setting throttle;
  Setting direct;
  std::string inject;
};
void AddHandlerFlags(Command& app, HandlerFlags& flags);

struct HandlerDevice {
  DeviceSpec spec;  // never "auto"
  std::uint64_t memory_bytes = 0;
  FastMath fast_math = FastMath::kFp32;
};
// The device, with defaults filled in. Throws Error (usage), which names the flag or its variable.
HandlerDevice DeviceOf(const HandlerFlags& flags);

// Why a device with `memory_bytes` cannot run the conformance battery, which every handler runs
// first. `error` is the device's.
Error TooSmall(const DeviceSpec& spec, std::uint64_t memory_bytes, const OutOfMemory& error);

// Applies --throttle, --direct and --inject to `options`; `has_key`: the handler joins with a key.
// Throws as DeviceOf does.
void ApplyHandlerFlags(const HandlerFlags& flags, bool has_key, HandlerOptions& options);

}  // namespace acan::cli
