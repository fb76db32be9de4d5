// Reads: the Reads that wait for tuples. A waiting Read watches one pattern that has no match yet,
// or all its patterns if any match will do, so a put wakes only the Reads that it concerns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "read_room.h"
#include "residency.h"
#include "space_pattern_index.h"
#include "space_state.h"

namespace tuplespace::internal {

class Reads {
 public:
  Reads(SpaceState& state, Residency& residency)
      : state_(state), residency_(residency), room_(state) {}

  void Handle(ClientState& client, RequestId id, Read&& read);
  // `record` became readable in this event. WakeAll checks whether a Read waits for it.
  void NoteFresh(Record* record);
  bool settled() const { return fresh_.empty(); }
  void WakeAll();
  void End(ReadWaiter* waiter, bool timed_out);  // answers and destroys it
  void ForgetAllOf(ClientState& client);         // sends no answers
  // How many patterns, and tuples for patterns that are not whole keys, were examined so far. Some
  // inputs of tasks count as one.
  std::uint64_t examined() const { return examined_ + examined_links_ / kLinksAsOne; }

 private:
  static constexpr std::uint64_t kLinksAsOne = 16;

  // Null: there is no match, or no readable one; in the latter case a client is asked for the
  // payload of one match. Subtracts the number of examined tuples from `budget`; if that reaches
  // 0, the search did not finish.
  Record* FindFirst(const WantedPattern& wanted, const ReadWaiter& waiter, std::uint64_t* budget);
  void Ask(Record* record, const ClientState& reader);  // the client that has its payload
  // Whether the client holds a task with this input.
  bool HasTaskWith(const ClientState& reader, const Record& input);
  void StartWaiting(std::unique_ptr<ReadWaiter> waiter, std::int64_t wait_us);
  void RefuseBroad(const ReadWaiter& waiter);
  void RefuseRestless(const ReadWaiter& waiter);
  bool IsSatisfied(ReadWaiter& waiter);  // all: moves the cursor to a pattern without a match
  bool IsSatisfiedBy(ReadWaiter& waiter, std::span<const ReadWatch* const> of_fresh);
  Found Collect(const ReadWaiter& waiter);
  bool Readable(const Record& record, const ReadWaiter& waiter) const;
  bool IsPlaced(const Record& record, const ReadWaiter& waiter) const;
  std::vector<const ReadWatch*> WatchesOfFresh() const;
  void Wake(ReadWaiter* waiter, std::span<const ReadWatch* const> of_fresh);
  void Watch(ReadWaiter& waiter);
  void Unwatch(ReadWaiter& waiter);
  void Forget(ReadWaiter* waiter);  // destroys it

  SpaceState& state_;
  Residency& residency_;
  ReadRoom room_;
  PatternIndex<ReadGroup> read_groups_{state_.key_hash};
  std::vector<Record*> fresh_;  // made readable by this event; pinned
  std::uint64_t examined_ = 0;
  std::uint64_t examined_links_ = 0;  // inputs of tasks
};

}  // namespace tuplespace::internal
