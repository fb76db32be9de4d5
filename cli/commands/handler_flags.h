// The flags that say what a handler is: those of `acan handler`, and of `acan check`, which looks
// at them before.
#pragma once

#include <cstdint>
#include <string>

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
// With defaults filled in. Throws Error (usage) that names the flag or its variable.
HandlerDevice DeviceOf(const HandlerFlags& flags);

// --throttle, --direct and --inject, as their fields in `options`; `has_key`: it joins with a key.
// Throws as DeviceOf.
void ApplyHandlerFlags(const HandlerFlags& flags, bool has_key, HandlerOptions& options);

}  // namespace acan::cli
