// Trust: a client that takes tasks and does not do them, while others could, gets none for a while,
// each time twice as long. It keeps what it holds and may complete that.
//
// A new id must be worth no more than an old one. So the offences of a key's clients are remembered
// for a while, and those of its clients that have not completed a task yet share one record: they
// are on probation. Clients that have, which may be honest ones with the same key, are not touched.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

namespace {
constexpr std::uint32_t kMostDoublings = 20;
// One host that was stopped for a while must not make a hundred new handlers wait for each other.
constexpr std::uint32_t kOffencesOfTrials = 2;
}  // namespace

// ---- keys --------------------------------------------------------------------------------------

void Space::Impl::JoinKey(Client& client, const std::string& name) {
  const auto added = keys_.try_emplace(name);
  KeyTrust& own = added.first->second;
  if (added.second) {
    std::erase_if(keys_, [&](const auto& entry) {
      const KeyTrust& key = entry.second;
      const bool is_old = now_us_ - key.in_vain_us >= limits_.key_forgiven_us;
      return &key != &own && key.clients == 0 && is_old && OffencesOf(key) == 0;
    });
  }
  client.key = &own;
  client.untried_of = client.key;
  ++client.key->clients;
  client.key->untried.push_back(&client);
}

void Space::Impl::LeaveKey(Client& client) {
  if (client.untried_of != nullptr) std::erase(client.untried_of->untried, &client);
  if (client.key != nullptr) --client.key->clients;
}

std::uint32_t Space::Impl::OffencesOf(const KeyTrust& key) const {
  if (key.offences == 0 || IsPlanted(Planted::kNewIdsAreTrusted)) return 0;
  const std::int64_t forgiven = (now_us_ - key.offence_us) / limits_.key_forgiven_us;
  return forgiven >= key.offences ? 0 : key.offences - static_cast<std::uint32_t>(forgiven);
}

// `client` was given `task`: if its key has offended more than once, the other untried clients of
// the key wait for what it does with it.
void Space::Impl::BeginTrial(Client& client, const Record& task, std::int64_t lease_us) {
  KeyTrust& key = *client.untried_of;
  if (OffencesOf(key) < kOffencesOfTrials || !OthersThanUntriedCouldTake(task, key)) return;
  key.trial_until_us = After(lease_us);
  BenchUntried(key);
}

// `client` has completed its first task. What its key did it takes along, until good work makes up
// for it: else each id that did one task would be as good as a new key.
void Space::Impl::EndTrial(Client& client) {
  KeyTrust& key = *std::exchange(client.untried_of, nullptr);
  std::erase(key.untried, &client);
  client.trust.times_benched = std::max(client.trust.times_benched, OffencesOf(key));
  EndGetsOf(client);
  if (now_us_ >= key.trial_until_us) return;
  key.trial_until_us = now_us_;
  for (Client* other : key.untried) EndGetsOf(*other);
}

void Space::Impl::BenchUntried(const KeyTrust& key) {
  for (Client* client : key.untried) {
    for (auto& [id, waiter] : client->gets) {
      if (waiter.benched || !waiter.taker.got.grants.empty()) continue;
      LeaveGroup(waiter);
      PutOnBench(waiter);
    }
  }
}

// Of those that wait on the bench: their client asks again.
void Space::Impl::EndGetsOf(Client& client) {
  std::vector<GetWaiter*> ended;
  for (auto& [id, waiter] : client.gets) {
    if (waiter.benched) ended.push_back(&waiter);
  }
  for (GetWaiter* waiter : ended) EndGet(waiter);
}

void Space::Impl::NoteOffence(Client& client, const Record& task, std::int64_t bench_us) {
  if (client.key == nullptr) return;
  KeyTrust& key = *client.key;
  const bool is_untried = client.untried_of != nullptr;
  if (is_untried && now_us_ < key.benched_until_us) return;  // of one fault many may suffer
  key.offences = OffencesOf(key) + 1;
  key.offence_us = now_us_;
  if (!is_untried || !OthersThanUntriedCouldTake(task, key)) return;
  key.benched_until_us = After(bench_us);
  BenchUntried(key);
}

// ---- clients -----------------------------------------------------------------------------------

void Space::Impl::NoteCompleted(Client& client) {
  if (client.untried_of != nullptr) EndTrial(client);
  internal::Trust& trust = client.trust;
  trust.in_vain = 0;
  if (trust.times_benched == 0 || ++trust.completed < limits_.forgiven_after) return;
  trust.completed = 0;
  --trust.times_benched;
}

// `weight` is that of so many failed tasks.
void Space::Impl::NoteInVain(Client& client, Record* task, std::uint32_t weight,
                             const std::string& what, std::int64_t least_us) {
  if (now_us_ < client.trust.benched_until_us) return;  // of one fault many tasks may suffer
  std::uint32_t* in_vain = &client.trust.in_vain;
  if (KeyTrust* key = client.untried_of; key != nullptr && OffencesOf(*key) > 0) {
    weight = limits_.tasks_in_vain;
  } else if (key != nullptr) {
    in_vain = &key->in_vain;
    if (now_us_ - key->in_vain_us >= limits_.key_forgiven_us) *in_vain = 0;
    key->in_vain_us = now_us_;
  }
  *in_vain += weight;
  if (*in_vain < limits_.tasks_in_vain || !AnotherCouldTake(*task, &client)) return;
  *in_vain = 0;
  Bench(client, *task, what, least_us);
}

std::int64_t Space::Impl::BenchUs(std::uint32_t times, std::int64_t least_us) const {
  const std::uint32_t doublings = std::min(times, kMostDoublings);
  const bool most = limits_.first_bench_us > limits_.most_bench_us >> doublings;
  return most ? limits_.most_bench_us
              : std::clamp(least_us, limits_.first_bench_us << doublings, limits_.most_bench_us);
}

// For `least_us` at least, if that is not more than the most.
void Space::Impl::Bench(Client& client, const Record& task, const std::string& what,
                        std::int64_t least_us) {
  internal::Trust& trust = client.trust;
  if (client.untried_of != nullptr) {
    trust.times_benched = std::max(trust.times_benched, OffencesOf(*client.untried_of));
  }
  const std::int64_t bench_us = BenchUs(trust.times_benched++, least_us);
  trust.completed = 0;
  trust.benched_until_us = IsPlanted(Planted::kBenchNeverEnds) ? kForeverUs : After(bench_us);
  ++counters_.benched;
  for (auto& [id, waiter] : client.gets) {
    LeaveGroup(waiter);
    PutOnBench(waiter);
  }
  NoteOffence(client, task, bench_us);
  Notify(task.put_by, Notice{Notice::Kind::kMistrusted, task.key, *client.id,
                             "client \"" + *client.id + "\" " + what + ": it gets no tasks for " +
                                 std::to_string(bench_us / 1000) + " ms"});
}

// It is answered as timed out when the bench ends, and its client asks again.
void Space::Impl::PutOnBench(GetWaiter& waiter) {
  assert(!waiter.benched && IsBenched(*waiter.taker.client));
  waiter.benched = true;
  ++waiter.taker.group->benched;
  const std::int64_t end_us = BenchEndUs(*waiter.taker.client);
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
    if (KeyTrust* key = client->untried_of) key->benched_until_us = key->trial_until_us = now_us_;
  }
  for (Client* client : benched) EndGetsOf(*client);
}

}  // namespace tuplespace
