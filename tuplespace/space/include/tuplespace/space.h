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
  // Leases are numbered from `first_fence`. Who may meet leases of another space, before or after
  // this one, gives each numbers of its own.
  explicit Space(SpaceLimits limits = {}, std::uint64_t first_fence = 1);
  ~Space();
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  // What is to be sent is the caller's to move from, until the next Step.
  // REQUIRES: `now_us` never goes back. Never throws on client input: bad requests are answered.
  std::span<Outgoing> Step(Event&& event, std::int64_t now_us);

  // When the next Tick is due (lease ends, deadlines, steals, the next slice of a List or Count:
  // now); kForeverUs if nothing is pending.
  std::int64_t NextDeadlineUs() const;

  Stats GetStatistics() const;
  // How many places of ready tuples the event of the last Step has changed, as others may take them
  // first now. One request can do that to many tuples that it does not name.
  std::uint64_t places_changed() const;
  // How much was ever looked at for Reads, to answer them and while they wait: who serves many
  // clients tells from it whose requests take more than they seem to.
  std::uint64_t LookedAtByReads() const;

  // What contradicts what inside, or nullopt. For tests: walks over everything.
  std::optional<std::string> FindContradiction() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tuplespace
