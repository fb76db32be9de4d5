#include "space_counts.h"

#include <utility>
#include <variant>

#include "acan/manager/tuple_names.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

using tuplespace::ReplyBody;

constexpr std::int64_t kCountEveryUs = 250'000;
constexpr std::int64_t kCountTasksEveryUs = 1'000'000;  // the space examines all tuples of the run
constexpr std::int64_t kLacksRoomUs = 5'000'000;        // a client repeats its request each second

}  // namespace

void SpaceCounts::LookIfDue(std::int64_t now_us, std::int64_t tasks_done) {
  if (now_us >= next_count_us_ && !counting_) Look();
  if (now_us >= next_tasks_us_ && !counting_tasks_) CountTasksIfNoneIsDone(now_us, tasks_done);
}

// Finds the number of tasks that the space has ready, and its counters.
void SpaceCounts::Look() {
  next_count_us_ = tuplespace::MonotonicUs() + kCountEveryUs;
  counting_ = true;
  context_.client.Submit(tuplespace::GetStats{}, [this](ReplyBody&& reply) {
    counting_ = false;
    const auto* stats = std::get_if<tuplespace::Stats>(&reply);
    if (stats == nullptr) return;
    notify_.event(SpaceSeen{stats->tasks_ready, stats->open_gets});
    OnCounters(stats->counters);
  });
}

// The space's own gauges would count the tasks of other runs as well, which hide that this run has
// none that could be done.
void SpaceCounts::CountTasksIfNoneIsDone(std::int64_t now_us, std::int64_t tasks_done) {
  next_tasks_us_ = now_us + kCountTasksEveryUs;
  if (std::exchange(done_when_counted_, tasks_done) != tasks_done) return;
  counting_tasks_ = true;
  const tuplespace::Count count{TasksOf(context_.run, tuplespace::FieldPattern::Any())};
  context_.client.Submit(count, [this](ReplyBody&& reply) {
    counting_tasks_ = false;
    const auto* counted = std::get_if<tuplespace::CountReply>(&reply);
    if (counted == nullptr || !counted->tasks) return;
    notify_.event(RunTasksSeen{counted->tasks->ready, counted->tasks->leased, counted->count});
  });
}

void SpaceCounts::OnCounters(const tuplespace::Counters& now) {
  const auto reissued = [](const tuplespace::Counters& counters) {
    return counters.leases_expired + counters.leases_returned + counters.failed;
  };
  const tuplespace::Counters last = std::exchange(counters_, now).value_or(now);
  const std::int64_t now_us = tuplespace::MonotonicUs();
  if (now.no_payload_room > last.no_payload_room) no_payload_room_us_ = now_us;
  if (now.no_tuple_room > last.no_tuple_room) no_tuple_room_us_ = now_us;
  // A restarted broker counts from zero.
  if (now.puts < last.puts || reissued(now) < reissued(last) || now.duplicates < last.duplicates)
    return;
  notify_.more(static_cast<std::int64_t>(reissued(now) - reissued(last)),
               static_cast<std::int64_t>(now.duplicates - last.duplicates));
}

LackOfRoom SpaceCounts::LackOfRoomAt(std::int64_t now_us) const {
  const auto lacks = [now_us](const std::optional<std::int64_t>& last_us) {
    return last_us && now_us - *last_us < kLacksRoomUs;
  };
  return {lacks(no_payload_room_us_), lacks(no_tuple_room_us_)};
}

}  // namespace acan
