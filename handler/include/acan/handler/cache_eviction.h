// CacheEviction: which entries that nothing holds leave a handler's cache, and when: those of
// earlier steps, those that were not used for long, and the coldest ones when there is no room.
// Pure; a part of HandlerCore.
#pragma once

#include <cstdint>
#include <optional>

#include "acan/handler/device_cache.h"
#include "acan/handler/step_actions.h"
#include "tuplespace/key.h"

namespace acan {

class CacheEviction {
 public:
  // Drops what earlier steps left when a task of a later step is here; `input` is that task's first
  // input.
  void DropOlder(const tuplespace::Key& input, DeviceCache& cache, StepActions& out);
  // Drops entries that were not used for long. To be called at NextCheckUs() or later.
  void DropCold(std::int64_t now_us, DeviceCache& cache, StepActions& out);
  std::int64_t NextCheckUs(const DeviceCache& cache) const;
  // Drops the coldest entries until the rest has at most this many bytes. REQUIRES: held_bytes() <=
  // most_bytes.
  static void ShrinkTo(std::uint64_t most_bytes, DeviceCache& cache, StepActions& out);

 private:
  std::optional<tuplespace::Key> step_;  // of the latest task
  std::int64_t check_us_ = 0;            // when to look for entries that were not used for long
};

}  // namespace acan
