// SpaceCounts: asks the space again and again how many tasks it has, and what has happened to them.
// For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "acan/manager/manager_events.h"
#include "acan/manager/run_context.h"
#include "tuplespace/messages.h"

namespace acan {

// What a full space lacks for the requests that wait, of whatever client.
struct LackOfRoom {
  bool payloads = false, tuples = false;
};

class SpaceCounts {
 public:
  struct Notify {
    std::function<void(ManagerEvent)> event;  // for the core
    // Tasks that were put again, and results that came twice, since the answer before this one.
    std::function<void(std::int64_t reissued, std::int64_t duplicated)> more;
  };
  // The context must outlive it.
  SpaceCounts(RunContext& context, Notify notify) : context_(context), notify_(std::move(notify)) {}

  // Queries the space if it is time; the answers arrive while the client polls. `tasks_done` are
  // those of the run so far.
  void LookIfDue(std::int64_t now_us, std::int64_t tasks_done);
  // Queries its counters. looking() says whether the answer is missing.
  void Look();
  bool looking() const { return counting_; }
  // As far as the last answers show.
  LackOfRoom LackOfRoomAt(std::int64_t now_us) const;

 private:
  void CountTasksIfNoneIsDone(std::int64_t now_us, std::int64_t tasks_done);
  void OnCounters(const tuplespace::Counters& now);

  RunContext& context_;
  const Notify notify_;
  std::int64_t next_count_us_ = 0, next_tasks_us_ = 0;
  bool counting_ = false, counting_tasks_ = false;
  std::int64_t done_when_counted_ = 0;            // tasks
  std::optional<tuplespace::Counters> counters_;  // the last ones
  // When the space last refused a request for want of room.
  std::optional<std::int64_t> no_payload_room_us_, no_tuple_room_us_;
};

}  // namespace acan
