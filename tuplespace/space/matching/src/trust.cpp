#include "trust.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>
#include <vector>

#include "tuplespace/planted.h"

namespace tuplespace::internal {

namespace {
// If a host stops for a while, a hundred new handlers must not have to wait for each other.
constexpr std::uint32_t kOffencesOfTrials = 2;
constexpr std::uint32_t kMaxTrustHalvings = 20;
}  // namespace

void Trust::JoinKey(ClientState& client, const std::string& name) {
  const auto added = keys_.try_emplace(name);
  KeyTrust& own = added.first->second;
  if (added.second) {
    const std::int64_t old_us = state_.now_us - state_.limits.key_forgiven_us;
    const auto is_old = [&](const TrustRecord& record) {
      return std::max(record.in_vain_us, record.left_us) <= old_us &&
             OffencesOf(state_, record) == 0;
    };
    std::erase_if(keys_, [&](const auto& entry) {
      const KeyTrust& key = entry.second;
      const auto& apart = key.trust.apart;
      return &key != &own && key.clients == 0 && is_old(key.trust.general) &&
             std::all_of(apart.begin(), apart.end(),
                         [&](const auto& item) { return is_old(item.second); });
    });
  }
  client.key = &own;
  client.untried_of = client.key;
  ++client.key->clients;
  client.key->untried.push_back(&client);
}

void Trust::LeaveKey(ClientState& client) {
  if (client.untried_of != nullptr) std::erase(client.untried_of->untried, &client);
  if (client.key != nullptr) --client.key->clients;
}

bool Trust::IsOnProbation(const ClientState& client, std::string_view judge) const {
  if (client.untried_of == nullptr) return false;
  const TrustRecord* of_key = client.untried_of->trust.Find(judge);
  return of_key != nullptr && OffencesOf(state_, *of_key) > 0;
}

std::int64_t Trust::ExtensionsOf(const ClientState& client, const Record& task) const {
  const SpaceLimits& limits = state_.limits;
  if (IsPlanted(Planted::kClingersExtendAsLong)) return limits.lease_extensions;
  std::int64_t most = limits.lease_extensions;
  if (client.untried_of != nullptr) most = std::min(most, limits.untried_extensions);
  const std::uint32_t times = BenchesThatCount(state_, client, NameOf(task.judge()));
  return std::max<std::int64_t>(1, most >> std::min(times, kMaxTrustHalvings));
}

// `client` was given `task`. If its key has offended more than once, the other untried clients of
// the key wait until this client has finished with it.
void Trust::BeginTrial(ClientState& client, const Record& task, std::int64_t lease_us) {
  KeyTrust& key = *client.untried_of;
  if (OffencesOf(state_, key.trust.general) < kOffencesOfTrials ||
      !benches_.OthersThanUntriedCouldTake(task, key))
    return;
  key.trial_until_us = state_.After(lease_us);
  key.trial_fence = task.lease->fence;
  for (ClientState* untried : key.untried) benches_.BeginBench(*untried, {});
}

// The lease is over, or is about to be, without a result: the trial has ended.
void Trust::EndTrialOn(const Lease& lease) {
  KeyTrust* key = lease.client->untried_of;
  if (key == nullptr || key->trial_fence != lease.fence || state_.now_us >= key->trial_until_us) {
    return;
  }
  key->trial_until_us = state_.now_us;
  for (ClientState* client : key->untried) benches_.EndBench(*client, {});
}

// `client` has completed its first task. It takes over its key's offences until good work makes up
// for them. Otherwise every id that completed one task would be as good as a new key.
void Trust::EndTrial(ClientState& client) {
  KeyTrust& key = *std::exchange(client.untried_of, nullptr);
  std::erase(key.untried, &client);
  for (auto& [judge, of_key] : key.trust.apart) {
    TakeOver(client.trust.apart[judge], of_key);
    if (state_.now_us < of_key.benched_until_us) benches_.EndBench(client, judge);
  }
  TakeOver(client.trust.general, key.trust.general);
  benches_.EndBench(client, {});
  if (state_.now_us >= key.trial_until_us) return;
  key.trial_until_us = state_.now_us;
  for (ClientState* other : key.untried) benches_.EndBench(*other, {});
}

void Trust::TakeOver(TrustRecord& own, TrustRecord& of_key) const {
  of_key.given_back = 0;
  const std::uint32_t offences = OffencesOf(state_, of_key);
  if (OffencesOf(state_, own) >= offences) return;
  own.offences = offences;
  own.offence_us = state_.now_us;
}

void Trust::NoteCompleted(ClientState& client, const Record& task) {
  if (client.untried_of != nullptr) EndTrial(client);
  TrustRecord& own = client.trust.Of(NameOf(task.judge()));
  own.in_vain = own.given_back = 0;
  own.completed = std::min(own.completed + 1, state_.limits.forgiven_after);
  if (own.offences == 0 || own.completed < state_.limits.forgiven_after) return;
  own.completed = 0;
  --own.offences;
}

// `weight` counts as that many failed tasks.
void Trust::NoteInVain(ClientState& client, Record* task, std::uint32_t weight,
                       const std::string& what, std::int64_t least_us) {
  if (task->lease) EndTrialOn(*task->lease);
  const std::string_view judge = NameOf(task->judge());
  TrustRecord* counted = &client.trust.Of(judge);
  // Many tasks may suffer from one fault.
  if (state_.now_us < counted->benched_until_us) return;
  const bool on_probation = IsOnProbation(client, judge);
  if (on_probation) weight = state_.limits.tasks_in_vain;
  // On probation one failure is enough. The own record counts those of tasks without a judge then.
  if (client.untried_of != nullptr && !(on_probation && judge.empty())) {
    counted = &client.untried_of->trust.Of(judge);
    const std::int64_t since_us = state_.now_us - counted->in_vain_us;
    if (since_us >= state_.limits.key_forgiven_us) counted->in_vain = 0;
    counted->in_vain_us = state_.now_us;
  }
  counted->in_vain += weight;
  if (counted->in_vain < state_.limits.tasks_in_vain ||
      !benches_.AnotherCouldTake(*task, &client)) {
    return;
  }
  counted->in_vain = 0;
  const bool others = client.untried_of != nullptr &&
                      benches_.OthersThanUntriedCouldTake(*task, *client.untried_of);
  Bench(client, judge, {task->key, task->put_by, what, least_us, others});
}

// An honest client gives a task back now and then: the task came too late or was too large, an
// input is gone, or the client leaves. But a client that gives tasks back again and again keeps
// them from others, too. A task that it kept for a while counts as if the lease had run out.
void Trust::NoteGivenBack(ClientState& client, Record* task, std::uint64_t next_fence) {
  const Lease& lease = *task->lease;
  const std::int64_t kept_us = state_.now_us - lease.counted_from_us;
  if (kept_us > lease.lease_us / 2) {
    const std::int64_t leases = 1 + kept_us / std::max<std::int64_t>(1, lease.lease_us);
    const auto weight = std::min<std::int64_t>(leases, state_.limits.tasks_in_vain);
    return NoteInVain(client, task, static_cast<std::uint32_t>(weight),
                      "keeps tasks and gives them back", lease.extended ? kept_us : 0);
  }
  if (!GivesBackTooOften(client, *task, next_fence)) return;
  NoteInVain(client, task, 1, "gives back the tasks that it gets");
}

bool Trust::GivesBackTooOften(ClientState& client, const Record& task, std::uint64_t next_fence) {
  const std::string_view judge = NameOf(task.judge());
  TrustRecord& own = client.trust.Of(judge);
  if (task.lease->fence < own.counted_fence) return false;  // many tasks may suffer from one fault
  own.counted_fence = next_fence;
  TrustRecord& counted = client.untried_of != nullptr ? client.untried_of->trust.Of(judge) : own;
  if (++counted.given_back < state_.limits.returns_in_vain) return false;
  counted.given_back = 0;
  return true;
}

// A client could keep a task almost to the end of its lease, leave, and do the same under its next
// id. But an honest client may crash, too, at any time. So the first such leaving of a key's
// clients within a while is free, as are those of clients that had taken their tasks before the
// last one: many clients may suffer from one fault. A client that has completed as many tasks as
// make up for a bench may leave in any case.
void Trust::NoteLeft(ClientState& client, Record* task) {
  if (IsPlanted(Planted::kLeavingIsFree)) return;
  if (client.untried_of != nullptr) {
    return NoteInVain(client, task, 1, "leaves with a task that it has not done");
  }
  if (client.key == nullptr) return;
  const std::string_view judge = NameOf(task->judge());
  if (client.trust.Of(judge).completed >= state_.limits.forgiven_after) return;
  TrustRecord& of_key = client.key->trust.Of(judge);
  const std::int64_t granted_us = task->lease->granted_us;
  if (granted_us < of_key.left_us) return;
  const bool is_first = of_key.left_us <= granted_us - state_.limits.key_forgiven_us;
  of_key.left_us = state_.now_us;
  if (is_first && OffencesOf(state_, of_key) == 0) return;
  NoteInVain(client, task, state_.limits.tasks_in_vain,
             "leaves with a task whose lease it has extended");
}

// A client that waits for the payload waits in vain for longer than for most tasks, so one offence
// is enough.
void Trust::NoteNotSupplied(const Record& payload) {
  ClientState& client = *payload.residence->with;
  const std::string_view judge = NameOf(payload.residence->judge);
  const auto is_benched = [&](const ClientState& user) { return IsBenchedBy(state_, user, judge); };
  if (state_.now_us < client.trust.general.benched_until_us || is_benched(client)) return;
  const auto gets_tasks = [&](const ClientState* user) {
    return user != &client && !is_benched(*user);
  };
  if (!AnyGetsTasks(gets_tasks)) return;
  const bool others = client.untried_of != nullptr && AnyGetsTasks([&](const ClientState* user) {
                        return user->untried_of != client.untried_of && !is_benched(*user);
                      });
  Bench(client, judge,
        {payload.key, payload.residence->made_for, "does not supply a result that it holds",
         state_.limits.supply_us, others});
}

void Trust::NoteSupplied(ClientState& client) {
  if (client.untried_of != nullptr) EndTrial(client);
}

// The bench lasts at least `offence.least_us`, but no longer than limits.most_bench_us.
void Trust::Bench(ClientState& client, std::string_view judge, const Offence& offence) {
  TrustRecord& own = client.trust.Of(judge);
  own.offences = BenchesThatCount(state_, client, judge);
  const std::int64_t bench_us = benches_.BenchUs(own.offences++, offence.least_us);
  own.offence_us = state_.now_us;
  own.completed = 0;
  own.benched_until_us = IsPlanted(Planted::kBenchNeverEnds) ? kForeverUs : state_.After(bench_us);
  ++state_.counters.benched;
  benches_.BeginBench(client, judge);
  NoteOffence(client, judge, offence.others_than_untried, bench_us);
  if (offence.owner == nullptr) return;
  const std::string of_key = judge.empty() ? "" : " of key \"" + std::string(judge) + "\"";
  state_.answers.Notify(
      offence.owner,
      Notice{Notice::Kind::kMistrusted, offence.key, *client.id,
             "client \"" + *client.id + "\" " + offence.what + ": it receives no tasks" + of_key +
                 " for the next " + std::to_string(WithoutTasksUs(client, judge, bench_us) / 1000) +
                 " ms"});
}

// The key of `client` has offended, too. `others_than_untried`: others could take the tasks.
void Trust::NoteOffence(ClientState& client, std::string_view judge, bool others_than_untried,
                        std::int64_t bench_us) {
  if (client.key == nullptr) return;
  TrustRecord& of_key = client.key->trust.Of(judge);
  const bool is_untried = client.untried_of != nullptr;
  // Many clients may suffer from one fault.
  if (is_untried && state_.now_us < of_key.benched_until_us) return;
  of_key.offences = OffencesOf(state_, of_key) + 1;
  of_key.offence_us = state_.now_us;
  if (!is_untried || !others_than_untried) return;
  of_key.benched_until_us = state_.After(bench_us);
  for (ClientState* untried : client.key->untried) benches_.BeginBench(*untried, judge);
}

// How long `client`, which is now benched for `bench_us`, gets no tasks of this judge. An untried
// client also waits for its key, which may have been benched before or be on trial.
std::int64_t Trust::WithoutTasksUs(const ClientState& client, std::string_view judge,
                                   std::int64_t bench_us) const {
  std::int64_t until_us = state_.After(bench_us);
  if (const KeyTrust* key = client.untried_of) {
    const TrustRecord* of_key = key->trust.Find(judge);
    if (of_key != nullptr) until_us = std::max(until_us, of_key->benched_until_us);
    if (judge.empty()) until_us = std::max(until_us, key->trial_until_us);
  }
  return until_us - state_.now_us;
}

// Checks the clients that ever asked for tasks, without those that take their own ones at most.
template <class Accept>
bool Trust::AnyGetsTasks(Accept accept) const {
  const auto gets_tasks = [&](const ClientState* user) {
    return !user->judge && accept(user) && !benches_.IsBenched(*user);
  };
  const auto& groups = groups_.patterns();
  return std::any_of(groups.begin(), groups.end(), [&](const auto& entry) {
    const GetGroup& group = *entry.second;
    return std::any_of(group.users.begin(), group.users.end(), gets_tasks);
  });
}

// If the clients from which tasks were kept are gone, the benched ones are better than none.
void Trust::EndBenchesIfNobodyIsLeft() {
  std::set<std::string> judges;
  const auto add_all = [&](const TrustRecords& records) {
    for (const auto& [judge, record] : records.apart) {
      if (state_.now_us < record.benched_until_us) judges.insert(judge);
    }
  };
  for (const auto& [id, client] : state_.clients) {
    add_all(client->trust);
    if (client->untried_of != nullptr) add_all(client->untried_of->trust);
  }
  for (const std::string& judge : judges) EndBenchIfNobodyIsLeft(judge);
  EndBenchIfNobodyIsLeft({});
}

void Trust::EndBenchIfNobodyIsLeft(std::string_view judge) {
  const auto is_benched = [&](const ClientState& client) {
    return judge.empty() ? benches_.IsBenched(client) : IsBenchedBy(state_, client, judge);
  };
  std::vector<ClientState*> benched;
  for (const auto& [id, client] : state_.clients) {
    if (is_benched(*client)) benched.push_back(client.get());
  }
  if (benched.empty() || AnyGetsTasks([&](const ClientState* user) { return !is_benched(*user); }))
    return;
  const auto end = [&](std::int64_t* until_us) { *until_us = std::min(*until_us, state_.now_us); };
  for (ClientState* client : benched) {
    end(&client->trust.Of(judge).benched_until_us);
    KeyTrust* key = client->untried_of;
    if (key == nullptr) continue;
    end(&key->trust.Of(judge).benched_until_us);
    if (judge.empty()) end(&key->trial_until_us);
  }
  for (ClientState* client : benched) benches_.EndBench(*client, judge);
}

}  // namespace tuplespace::internal
