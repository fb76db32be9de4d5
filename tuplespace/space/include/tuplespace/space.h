// Space: the tuple space as a pure state machine. No sockets, clock, threads, randomness or files:
// the same events at the same times give the same actions. The broker is a loop around it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tuplespace/messages.h"
#include "tuplespace/space_events.h"
#include "tuplespace/space_limits.h"

namespace tuplespace {

class Space {
 public:
  // Leases are numbered from `first_fence`. If clients may see leases of an earlier or later space,
  // each space must use different numbers. The hashes of keys depend on `key_secret`, and no answer
  // does. If a client may be hostile, it must be a random number: whoever knows it can make keys
  // that collide, and the space becomes slow.
  explicit Space(SpaceLimits limits = {}, std::uint64_t first_fence = 1,
                 std::uint64_t key_secret = 0);
  ~Space();
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  // The caller may move from the result until the next Step. REQUIRES: `now_us` never goes back.
  // Never throws on client input: bad requests are answered.
  std::span<Outgoing> Step(Event&& event, std::int64_t now_us);

  // When the next Tick is due: the end of a lease, a deadline, a steal, or now for the next slice
  // of a List or Count. kForeverUs if nothing is pending.
  std::int64_t NextDeadlineUs() const;

  Stats GetStatistics() const;
  // A client that has leased a tuple that matches; nullopt: no such tuple is leased.
  std::optional<ClientId> HolderOf(const Pattern& pattern) const;
  // How many placements of ready tuples the last Step changed because other clients may now take
  // them first. One request can cause this for many tuples that it does not name.
  std::uint64_t places_changed() const;
  // How much was examined for Reads so far, to answer them and while they wait. A broker learns
  // from it which clients' requests cost more than they seem to.
  std::uint64_t ExaminedByReads() const;
  // How much Lists, Counts and Retires have ever looked at as part of the step in which they came.
  // A tuple that is listed or removed counts as several looks. Slices of later steps do not count:
  // in those all clients have their turns already.
  std::uint64_t ExaminedByScans() const;

  // A violated invariant, or nullopt. For tests: visits everything.
  std::optional<std::string> FindContradiction() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tuplespace
