// Trust: a client that takes tasks and does not do them, while others could, gets none for a while,
// each time twice as long. It keeps what it holds and may complete that.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

namespace {
constexpr std::uint32_t kMostDoublings = 20;
}  // namespace

void Space::Impl::NoteCompleted(Client& client) const {
  internal::Trust& trust = client.trust;
  trust.in_vain = 0;
  if (trust.times_benched == 0 || ++trust.completed < limits_.forgiven_after) return;
  trust.completed = 0;
  --trust.times_benched;
}

// `weight` is that of so many failed tasks.
void Space::Impl::NoteInVain(Client& client, Record* task, std::uint32_t weight,
                             const std::string& what, std::int64_t least_us) {
  internal::Trust& trust = client.trust;
  if (IsBenched(client)) return;  // of one fault many tasks may suffer
  trust.in_vain += weight;
  if (trust.in_vain < limits_.tasks_in_vain || !AnotherCouldTake(*task, &client)) return;
  trust.in_vain = 0;
  Bench(client, *task, what, least_us);
}

// For `least_us` at least, if that is not more than the most.
void Space::Impl::Bench(Client& client, const Record& task, const std::string& what,
                        std::int64_t least_us) {
  internal::Trust& trust = client.trust;
  const std::uint32_t doublings = std::min(trust.times_benched++, kMostDoublings);
  const bool most = limits_.first_bench_us > limits_.most_bench_us >> doublings;
  const std::int64_t bench_us =
      most ? limits_.most_bench_us
           : std::clamp(least_us, limits_.first_bench_us << doublings, limits_.most_bench_us);
  trust.completed = 0;
  trust.benched_until_us = IsPlanted(Planted::kBenchNeverEnds) ? kForeverUs : After(bench_us);
  ++counters_.benched;
  for (auto& [id, waiter] : client.gets) {
    LeaveGroup(waiter);
    PutOnBench(waiter);
  }
  Notify(task.put_by, Notice{Notice::Kind::kMistrusted, task.key, *client.id,
                             "client \"" + *client.id + "\" " + what + ": it gets no tasks for " +
                                 std::to_string(bench_us / 1000) + " ms"});
}

// It is answered as timed out when the bench ends, and its client asks again.
void Space::Impl::PutOnBench(GetWaiter& waiter) {
  assert(!waiter.benched && IsBenched(*waiter.taker.client));
  waiter.benched = true;
  ++waiter.taker.group->benched;
  const std::int64_t end_us = waiter.taker.client->trust.benched_until_us;
  if (end_us == kForeverUs) return;
  if (!waiter.deadline.set() || waiter.deadline.when_us > end_us) {
    deadlines_.Set(&waiter.deadline, end_us);
  }
}

void Space::Impl::LeaveGroup(GetWaiter& waiter) {
  GetGroup& group = *waiter.taker.group;
  if (std::exchange(waiter.benched, false)) {
    --group.benched;
  } else {
    group.waiters.erase(&waiter);
  }
}

// If those whom they were kept from tasks for are gone, the benched ones are better than nobody.
void Space::Impl::EndBenchesIfNobodyIsLeft() {
  std::vector<Client*> benched;
  for (const auto& [id, client] : clients_) {
    if (IsBenched(*client)) benched.push_back(client.get());
  }
  if (benched.empty()) return;
  for (const auto& [sequence, group] : groups_by_age_) {
    const auto gets_tasks = [this](const Client* user) { return !IsBenched(*user); };
    if (std::any_of(group->users.begin(), group->users.end(), gets_tasks)) return;
  }
  for (Client* client : benched) {
    client->trust.benched_until_us = now_us_;
    std::vector<GetWaiter*> ended;
    for (auto& [id, waiter] : client->gets) ended.push_back(&waiter);
    for (GetWaiter* waiter : ended) EndGet(waiter);
  }
}

}  // namespace tuplespace
