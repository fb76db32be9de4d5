// The parts of a Space, and how it handles an event. It handles one event at a time. A part changes
// the state and queues what became possible (Reads::NoteFresh, ReadyQueue). Settle then wakes
// readers and gives ready tuples to waiting Gets, so that a batch counts as one change.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lifecycle.h"
#include "matching.h"
#include "reading.h"
#include "space_state.h"
#include "tuplespace/space.h"

namespace tuplespace {

class Space::Impl {
 public:
  Impl(SpaceLimits limits, std::uint64_t first_fence, std::uint64_t key_secret)
      : state_(limits, key_secret),
        reading_(state_),
        matching_(state_, reading_.residency, first_fence),
        lifecycle_(state_, reading_, matching_) {}

  std::span<Outgoing> Step(Event&& event, std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  Stats GetStatistics() const;
  std::optional<ClientId> HolderOf(const Pattern& pattern) const;
  std::uint64_t places_changed() const { return places_changed_; }
  std::uint64_t ExaminedByReads() const { return reading_.reads.examined(); }
  std::uint64_t ExaminedByScans() const {
    return reading_.scans.examined() + lifecycle_.removal.examined();
  }
  std::optional<std::string> FindContradiction() const;

 private:
  using ClientState = internal::ClientState;
  struct Dispatch;  // passes each kind of request to its part

  void OnEvent(ClientJoined&& event);
  void OnEvent(ClientLost&& event);
  void OnEvent(ClientListens&& event);
  void OnEvent(ClientSends&& event);
  void OnEvent(ResultsDamaged&& event);
  void OnEvent(GrantsUnsent&& event);
  void OnEvent(KeyEnded&& event) { lifecycle_.removal.RemoveTasksOf(event.principal); }
  void OnEvent(Incoming&& event);
  void OnEvent(Tick&&) { reading_.scans.Continue(); }
  void ExpireDue();
  bool IsKept(internal::Record* record);
  void Settle();
  void CancelRequest(ClientState& client, RequestId id, RequestId request);
  void ForgetOpenRequests(ClientState& client);

  // Each part uses the parts before it.
  internal::SpaceState state_;
  internal::Reading reading_;
  internal::Matching matching_;
  internal::Lifecycle lifecycle_;
  std::uint64_t places_changed_ = 0;  // by the last Step
};

}  // namespace tuplespace
