// LeaseExtensions: which leases of a handler's tasks are extended, and when. Pure; a part of
// HandlerCore.
//
// Leases are extended while the device makes progress: a task began or ended within the last
// kPatienceLeases times the lease. So a slow handler keeps its tasks, and one whose device hangs
// loses them even if its thread that talks to the space works. While all tasks wait for inputs, the
// device cannot make progress, and the leases are extended.
#pragma once

#include <algorithm>
#include <cstdint>

#include "acan/handler/flights.h"
#include "acan/handler/step_actions.h"
#include "tuplespace/messages.h"

namespace acan {

inline constexpr std::int64_t kPatienceLeases = 8;

class LeaseExtensions {
 public:
  // The device began or ended a task.
  void NoteProgress(std::int64_t now_us) { progress_us_ = now_us; }
  std::int64_t progress_us() const { return progress_us_; }  // the latest

  void NoteGranted(const Flight& flight) {
    if (!flight.timed) check_us_ = std::min(check_us_, flight.extend_at_us);
  }
  // The work of all flights has ended.
  void NoteNoWork() { check_us_ = tuplespace::kForeverUs; }

  std::int64_t NextUs() const { return check_us_; }
  // Does nothing before NextUs().
  void ExtendDue(Flights& flights, std::int64_t now_us, StepActions& out);

 private:
  std::int64_t progress_us_ = 0;
  std::int64_t check_us_ = tuplespace::kForeverUs;  // no lease is to be extended before
};

}  // namespace acan
