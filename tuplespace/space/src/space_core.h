// The parts of a Space, and how an event goes through them. One event at a time: a part changes the
// state and queues what became possible (Reads::NoteFresh, ReadyQueue); Settle then wakes the
// readers and gives ready tuples to waiting Gets, so that a batch counts as one change.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "completions.h"
#include "gets.h"
#include "scans.h"
#include "tuplespace/space.h"

namespace tuplespace {

class Space::Impl {
 public:
  Impl(SpaceLimits limits, std::uint64_t first_fence)
      : state_(limits), leases_(state_, trust_, first_fence) {}

  std::span<Outgoing> Step(Event&& event, std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  Stats GetStatistics() const;
  const SpaceLimits& limits() const { return state_.limits; }
  std::optional<std::string> FindContradiction() const;

 private:
  using ClientState = internal::ClientState;
  struct Dispatch;  // gives each kind of request to its part

  void OnEvent(ClientJoined&& event);
  void OnEvent(ClientLost&& event);
  void OnEvent(ClientListens&& event);
  void OnEvent(Incoming&& event);
  void OnEvent(Tick&&) { scans_.Continue(); }
  void ExpireDue();
  void Settle();
  void CancelRequest(ClientState& client, RequestId id, RequestId request);
  void ForgetOpenRequests(ClientState& client);

  // Each uses those before it.
  internal::SpaceState state_;
  internal::Residency residency_{state_};
  internal::Reads reads_{state_, residency_};
  internal::Scans scans_{state_};
  internal::GetGroups groups_{state_};
  internal::ReadyQueue ready_{state_, groups_};
  internal::Holders holders_{state_, ready_};
  internal::Benches benches_{state_, groups_};
  internal::Trust trust_{state_, groups_, benches_};
  internal::LeaseTable leases_;
  internal::Matcher matcher_{state_,   groups_, ready_,     leases_,
                             benches_, trust_,  residency_, holders_};
  internal::Gets gets_{state_, groups_, ready_, benches_, matcher_};
  internal::Watermarks watermarks_{state_};
  internal::Removal removal_{state_, groups_, leases_, holders_, residency_, watermarks_};
  internal::PutChecks checks_{state_, watermarks_};
  internal::Puts puts_{state_,   leases_,    checks_,     reads_,  ready_,
                       holders_, residency_, watermarks_, removal_};
  internal::LeaseEnds lease_ends_{state_, leases_, ready_, benches_, trust_, removal_};
  internal::Completions completions_{state_,  leases_, trust_,     removal_,
                                     checks_, puts_,   lease_ends_};
};

}  // namespace tuplespace
