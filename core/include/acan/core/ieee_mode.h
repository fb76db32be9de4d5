// IEEE arithmetic of a thread, in which all of acan's numbers are computed.
#pragma once

#if defined(__SSE2__)
#include <cstdint>
#else
#include <cfenv>
#endif

namespace acan {

// Sets IEEE arithmetic for its lifetime: round to nearest, with denormals. Another library in the
// process may have switched the thread to flushing denormals to zero: one that was linked with
// -ffast-math does so when it is loaded. A thread begins in the mode of the thread that starts it.
class IeeeMode {
 public:
  IeeeMode();
  ~IeeeMode();  // sets the thread's earlier mode
  IeeeMode(const IeeeMode&) = delete;
  IeeeMode& operator=(const IeeeMode&) = delete;

 private:
#if defined(__SSE2__)
  std::uint32_t saved_;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace acan
