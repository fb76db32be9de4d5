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
    std::erase_if(keys_, [&](const auto& entry) {
      const KeyTrust& key = entry.second;
      const std::int64_t old_us = state_.now_us - state_.limits.key_forgiven_us;
      const bool is_old = std::max(key.in_vain_us, key.left_us) <= old_us;
      const bool is_old_apart =
          std::all_of(key.apart.begin(), key.apart.end(), [&](const auto& item) {
            const ApartTrust& apart = item.second;
            return std::max(apart.in_vain_us, apart.left_us) <= old_us &&
                   OffencesOf(state_, apart) == 0;
          });
      return &key != &own && key.clients == 0 && is_old && is_old_apart &&
             OffencesOf(state_, key) == 0;
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

std::int64_t Trust::ExtensionsOf(const ClientState& client, const Record& task) const {
  const SpaceLimits& limits = state_.limits;
  if (IsPlanted(Planted::kClingersExtendAsLong)) return limits.lease_extensions;
  std::int64_t most = limits.lease_extensions;
  if (client.untried_of != nullptr) most = std::min(most, limits.untried_extensions);
  const std::uint32_t times = BenchesThatCount(state_, client, task.judge());
  return std::max<std::int64_t>(1, most >> std::min(times, kMaxTrustHalvings));
}

// `client` was given `task`. If its key has offended more than once, the other untried clients of
// the key wait until this client has finished with it.
void Trust::BeginTrial(ClientState& client, const Record& task, std::int64_t lease_us) {
  KeyTrust& key = *client.untried_of;
  if (OffencesOf(state_, key) < kOffencesOfTrials ||
      !benches_.OthersThanUntriedCouldTake(task, key))
    return;
  key.trial_until_us = state_.After(lease_us);
  key.trial_fence = task.lease->fence;
  benches_.BenchUntried(key);
}

// The lease is over, or is about to be, without a result: the trial has ended.
void Trust::EndTrialOn(const Lease& lease) {
  KeyTrust* key = lease.client->untried_of;
  if (key == nullptr || key->trial_fence != lease.fence || state_.now_us >= key->trial_until_us) {
    return;
  }
  key->trial_until_us = state_.now_us;
  for (ClientState* client : key->untried) benches_.EndGetsOf(*client);
}

// `client` has completed its first task. It takes over its key's offences until good work makes up
// for them. Otherwise every id that completed one task would be as good as a new key.
void Trust::EndTrial(ClientState& client) {
  KeyTrust& key = *std::exchange(client.untried_of, nullptr);
  std::erase(key.untried, &client);
  key.given_back = 0;
  client.trust.times_benched = std::max(client.trust.times_benched, OffencesOf(state_, key));
  TakeOverApart(client, key);
  benches_.EndGetsOf(client);
  if (state_.now_us >= key.trial_until_us) return;
  key.trial_until_us = state_.now_us;
  for (ClientState* other : key.untried) benches_.EndGetsOf(*other);
}

void Trust::NoteOffence(ClientState& client, bool others_than_untried, std::int64_t bench_us) {
  if (client.key == nullptr) return;
  KeyTrust& key = *client.key;
  const bool is_untried = client.untried_of != nullptr;
  // Many clients may suffer from one fault.
  if (is_untried && state_.now_us < key.benched_until_us) return;
  key.offences = OffencesOf(state_, key) + 1;
  key.offence_us = state_.now_us;
  if (!is_untried || !others_than_untried) return;
  key.benched_until_us = state_.After(bench_us);
  benches_.BenchUntried(key);
}

void Trust::NoteCompleted(ClientState& client, const Record& task) {
  if (client.untried_of != nullptr) EndTrial(client);
  if (task.judge()) return NoteCompletedApart(client, task.judge());
  ClientTrust& trust = client.trust;
  trust.in_vain = trust.given_back = 0;
  trust.completed = std::min(trust.completed + 1, state_.limits.forgiven_after);
  if (trust.times_benched == 0 || trust.completed < state_.limits.forgiven_after) return;
  trust.completed = 0;
  --trust.times_benched;
}

// `weight` counts as that many failed tasks.
void Trust::NoteInVain(ClientState& client, Record* task, std::uint32_t weight,
                       const std::string& what, std::int64_t least_us) {
  if (task->lease) EndTrialOn(*task->lease);
  if (task->judge()) return NoteInVainApart(client, task, weight, what, least_us);
  // Many tasks may suffer from one fault.
  if (state_.now_us < client.trust.benched_until_us) return;
  std::uint32_t* in_vain = &client.trust.in_vain;
  if (KeyTrust* key = client.untried_of; key != nullptr && OffencesOf(state_, *key) > 0) {
    weight = state_.limits.tasks_in_vain;
  } else if (key != nullptr) {
    in_vain = &key->in_vain;
    if (state_.now_us - key->in_vain_us >= state_.limits.key_forgiven_us) *in_vain = 0;
    key->in_vain_us = state_.now_us;
  }
  *in_vain += weight;
  if (*in_vain < state_.limits.tasks_in_vain || !benches_.AnotherCouldTake(*task, &client)) return;
  *in_vain = 0;
  const bool others = client.untried_of != nullptr &&
                      benches_.OthersThanUntriedCouldTake(*task, *client.untried_of);
  Bench(client, {task->key, task->put_by, what, least_us, others});
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
  KeyTrust* const untried_of = client.untried_of;
  const Judge& judge = task.judge();
  ApartTrust* const own = judge ? &client.apart[*judge] : nullptr;
  std::uint64_t& counted_fence = own != nullptr ? own->counted_fence : client.trust.counted_fence;
  if (task.lease->fence < counted_fence) return false;  // many tasks may suffer from one fault
  counted_fence = next_fence;
  std::uint32_t* given_back = own != nullptr ? &own->given_back : &client.trust.given_back;
  if (untried_of != nullptr) {
    given_back = own != nullptr ? &untried_of->apart[*judge].given_back : &untried_of->given_back;
  }
  if (++*given_back < state_.limits.returns_in_vain) return false;
  *given_back = 0;
  return true;
}

// A client could keep a task almost to the end of its lease, leave, and do the same under its next
// id. But an honest client may crash, too, at any time. So the first such leaving of a key's
// clients within a while is free, as are those of clients that had taken their tasks before the
// last one: many clients may suffer from one fault. A client that has completed as many tasks as
// make up for a bench may leave in any case.
void Trust::NoteLeft(ClientState& client, Record* task) {
  if (client.untried_of != nullptr) {
    return NoteInVain(client, task, 1, "leaves with a task that it has not done");
  }
  if (client.key == nullptr) return;
  if (task->judge()) return NoteLeftApart(client, task);
  if (client.trust.completed >= state_.limits.forgiven_after) return;
  KeyTrust& key = *client.key;
  const std::int64_t granted_us = task->lease->granted_us;
  if (granted_us < key.left_us) return;
  const bool is_first = key.left_us <= granted_us - state_.limits.key_forgiven_us;
  key.left_us = state_.now_us;
  if (is_first && OffencesOf(state_, key) == 0) return;
  NoteInVain(client, task, state_.limits.tasks_in_vain,
             "leaves with a task whose lease it has extended");
}

// A client that waits for the payload waits in vain for longer than for most tasks, so one offence
// is enough.
void Trust::NoteNotSupplied(const Record& payload) {
  ClientState& client = *payload.residence->with;
  const Judge& judge = payload.residence->judge;
  const auto is_benched = [&](const ClientState& user) {
    return judge && IsBenchedBy(state_, user, *judge);
  };
  if (state_.now_us < client.trust.benched_until_us || is_benched(client)) return;
  const auto gets_tasks = [&](const ClientState* user) {
    return user != &client && !is_benched(*user);
  };
  if (!AnyGetsTasks(gets_tasks)) return;
  const bool others = client.untried_of != nullptr && AnyGetsTasks([&](const ClientState* user) {
                        return user->untried_of != client.untried_of && !is_benched(*user);
                      });
  const Offence offence{payload.key, payload.residence->made_for,
                        "does not supply a result that it holds", state_.limits.supply_us, others};
  judge ? BenchApart(client, judge, offence) : Bench(client, offence);
}

void Trust::NoteSupplied(ClientState& client) {
  if (client.untried_of != nullptr) EndTrial(client);
}

// The bench lasts at least `offence.least_us`, but no longer than limits.most_bench_us.
void Trust::Bench(ClientState& client, const Offence& offence) {
  ClientTrust& trust = client.trust;
  trust.times_benched = BenchesThatCount(state_, client);
  const std::int64_t bench_us = benches_.BenchUs(trust.times_benched++, offence.least_us);
  trust.completed = 0;
  trust.benched_until_us =
      IsPlanted(Planted::kBenchNeverEnds) ? kForeverUs : state_.After(bench_us);
  ++state_.counters.benched;
  for (auto& [id, waiter] : client.gets) {
    GetGroups::Leave(waiter);
    benches_.PutOnBench(waiter);
  }
  NoteOffence(client, offence.others_than_untried, bench_us);
  if (offence.owner == nullptr) return;
  state_.answers.Notify(
      offence.owner, Notice{Notice::Kind::kMistrusted, offence.key, *client.id,
                            "client \"" + *client.id + "\" " + offence.what +
                                ": it receives no tasks for the next " +
                                std::to_string(WithoutTasksUs(client, bench_us) / 1000) + " ms"});
}

// How long `client`, which is now benched for `bench_us`, gets no tasks. An untried client also
// waits for its key, which may have been benched before or be on trial.
std::int64_t Trust::WithoutTasksUs(const ClientState& client, std::int64_t bench_us) const {
  const KeyTrust* key = client.untried_of;
  if (key == nullptr) return bench_us;
  return std::max({state_.After(bench_us), key->benched_until_us, key->trial_until_us}) -
         state_.now_us;
}

// Checks the clients that ever asked for tasks, without those that take their own ones at most.
template <class Accept>
bool Trust::AnyGetsTasks(Accept accept) const {
  const auto gets_tasks = [&](const ClientState* user) {
    return !user->judge && accept(user) && !benches_.IsBenched(*user);
  };
  return std::any_of(groups_.by_age().begin(), groups_.by_age().end(), [&](const auto& entry) {
    const GetGroup& group = *entry.second;
    return std::any_of(group.users.begin(), group.users.end(), gets_tasks);
  });
}

// ---- tasks that are judged apart

bool Trust::IsOnProbationFor(const ClientState& client, const Record& record) const {
  const Judge& judge = record.judge();
  if (!judge || client.untried_of == nullptr) return false;
  const auto at = client.untried_of->apart.find(*judge);
  return at != client.untried_of->apart.end() && OffencesOf(state_, at->second) > 0;
}

void Trust::NoteCompletedApart(ClientState& client, const Judge& judge) const {
  ApartTrust& own = client.apart[*judge];
  own.in_vain = own.given_back = 0;
  own.completed = std::min(own.completed + 1, state_.limits.forgiven_after);
  if (own.offences == 0 || own.completed < state_.limits.forgiven_after) return;
  own.completed = 0;
  --own.offences;
}

void Trust::NoteInVainApart(ClientState& client, Record* task, std::uint32_t weight,
                            const std::string& what, std::int64_t least_us) {
  const Judge& judge = task->judge();
  ApartTrust& own = client.apart[*judge];
  if (state_.now_us < own.benched_until_us) return;
  ApartTrust* counted = &own;
  if (client.untried_of != nullptr) {
    counted = &client.untried_of->apart[*judge];
    if (OffencesOf(state_, *counted) > 0) weight = state_.limits.tasks_in_vain;
    if (state_.now_us - counted->in_vain_us >= state_.limits.key_forgiven_us) counted->in_vain = 0;
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
  BenchApart(client, judge, {task->key, task->put_by, what, least_us, others});
}

void Trust::NoteLeftApart(ClientState& client, Record* task) {
  const Judge& judge = task->judge();
  if (client.apart[*judge].completed >= state_.limits.forgiven_after) return;
  ApartTrust& of_key = client.key->apart[*judge];
  const std::int64_t granted_us = task->lease->granted_us;
  if (granted_us < of_key.left_us) return;
  const bool is_first = of_key.left_us <= granted_us - state_.limits.key_forgiven_us;
  of_key.left_us = state_.now_us;
  if (is_first && OffencesOf(state_, of_key) == 0) return;
  NoteInVainApart(client, task, state_.limits.tasks_in_vain,
                  "leaves with a task whose lease it has extended", 0);
}

void Trust::BenchApart(ClientState& client, const Judge& judge, const Offence& offence) {
  ApartTrust& own = client.apart[*judge];
  own.offences = BenchesThatCount(state_, client, judge);
  const std::int64_t bench_us = benches_.BenchUs(own.offences++, offence.least_us);
  own.offence_us = state_.now_us;
  own.completed = 0;
  own.benched_until_us = state_.After(bench_us);
  ++state_.counters.benched;
  benches_.ShortenWaits(client);
  std::int64_t until_us = own.benched_until_us;
  if (client.key != nullptr) {
    ApartTrust& of_key = client.key->apart[*judge];
    const bool is_untried = client.untried_of != nullptr;
    // Many clients may suffer from one fault.
    if (!is_untried || state_.now_us >= of_key.benched_until_us) {
      of_key.offences = OffencesOf(state_, of_key) + 1;
      of_key.offence_us = state_.now_us;
      if (is_untried && offence.others_than_untried) {
        of_key.benched_until_us = own.benched_until_us;
        for (ClientState* other : client.key->untried) benches_.ShortenWaits(*other);
      }
    }
    if (is_untried) until_us = std::max(until_us, of_key.benched_until_us);
  }
  if (offence.owner == nullptr) return;
  state_.answers.Notify(
      offence.owner, Notice{Notice::Kind::kMistrusted, offence.key, *client.id,
                            "client \"" + *client.id + "\" " + offence.what +
                                ": it receives no tasks of key \"" + *judge + "\" for the next " +
                                std::to_string((until_us - state_.now_us) / 1000) + " ms"});
}

// `client` has completed its first task: see EndTrial.
void Trust::TakeOverApart(ClientState& client, KeyTrust& key) const {
  bool was_benched = false;
  for (auto& [judge, of_key] : key.apart) {
    of_key.given_back = 0;
    was_benched = was_benched || state_.now_us < of_key.benched_until_us;
    const std::uint32_t offences = OffencesOf(state_, of_key);
    if (offences == 0) continue;
    ApartTrust& own = client.apart[judge];
    if (OffencesOf(state_, own) >= offences) continue;
    own.offences = offences;
    own.offence_us = state_.now_us;
  }
  if (was_benched) benches_.EndWaits(client);
}

void Trust::EndApartBenchesIfNobodyIsLeft() {
  std::set<std::string> judges;
  const auto add_all = [&](const ApartTrusts& apart) {
    for (const auto& [judge, trust] : apart) {
      if (state_.now_us < trust.benched_until_us) judges.insert(judge);
    }
  };
  for (const auto& [id, client] : state_.clients) {
    add_all(client->apart);
    if (client->untried_of != nullptr) add_all(client->untried_of->apart);
  }
  const auto end = [this](ApartTrusts& apart, const std::string& judge) {
    const auto at = apart.find(judge);
    if (at == apart.end()) return;
    at->second.benched_until_us = std::min(at->second.benched_until_us, state_.now_us);
  };
  for (const std::string& judge : judges) {
    if (AnyGetsTasks([&](const ClientState* user) { return !IsBenchedBy(state_, *user, judge); }))
      continue;
    std::vector<ClientState*> benched;
    for (const auto& [id, client] : state_.clients) {
      if (IsBenchedBy(state_, *client, judge)) benched.push_back(client.get());
    }
    for (ClientState* client : benched) {
      end(client->apart, judge);
      if (client->untried_of != nullptr) end(client->untried_of->apart, judge);
    }
    for (ClientState* client : benched) benches_.EndWaits(*client);
  }
}

// If the clients from which tasks were kept are gone, the benched ones are better than none.
void Trust::EndBenchesIfNobodyIsLeft() {
  EndApartBenchesIfNobodyIsLeft();
  std::vector<ClientState*> benched;
  for (const auto& [id, client] : state_.clients) {
    if (benches_.IsBenched(*client)) benched.push_back(client.get());
  }
  if (benched.empty() || AnyGetsTasks([](const ClientState*) { return true; })) return;
  for (ClientState* client : benched) {
    client->trust.benched_until_us = state_.now_us;
    if (KeyTrust* key = client->untried_of)
      key->benched_until_us = key->trial_until_us = state_.now_us;
  }
  for (ClientState* client : benched) benches_.EndGetsOf(*client);
}

}  // namespace tuplespace::internal
