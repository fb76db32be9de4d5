#include "checkers/lease_checker.h"

#include <algorithm>

#include "fmt/format.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {

constexpr std::size_t kPastLeases = 8;  // a space remembers as many of each task, and perhaps more

std::int64_t BaseUs(const TaskSpec& task) {
  return task.lease_us > 0 ? task.lease_us : kLimits.default_lease_us;
}

// Also of inputs that the space has: all placed ones are marked as resident.
bool HasPlaces(const Grant& grant) {
  return std::any_of(grant.inputs.begin(), grant.inputs.end(),
                     [](const FoundTuple& input) { return input.resident; });
}

}  // namespace

// ---- grants ------------------------------------------------------------------------------------

bool LeaseChecker::OnGrant(const ClientId& client, const Grant& grant, std::int64_t now_us) {
  // The space granted a task whose holder was lost, and that holder completed it in the same turn;
  // or the task was put and retired in one turn.
  if (tuples_.WentInThisTurn(grant.key)) return false;
  if (!fences_.insert(grant.fence).second) {
    context_.report(fmt::format("fence {} was given twice, the second time for {}", grant.fence,
                                grant.key.ToString()));
  }
  const auto held = leases_.find(grant.key);
  if (held != leases_.end() && now_us < held->second.sure_us) {
    const TaskSpec* task = tuples_.Task(grant.key);
    context_.report(fmt::format(
        "{} was given to {} while {} held it, {} us before its lease of {} us may end, which began "
        "{} us ago; the task asks for {} us",
        grant.key.ToString(), client, held->second.client, held->second.sure_us - now_us,
        held->second.lease_us, now_us - held->second.granted_us, task ? BaseUs(*task) : 0));
  }
  if (held != leases_.end()) Lose(grant.key, held->second);
  const std::int64_t end_us = After(now_us, grant.lease_us);
  const bool is_borrowed = !grant.task && context_.IsLimited(client);
  const std::int64_t borrow_us = is_borrowed ? context_.limits_of_key.borrow_us : kForeverUs;
  Lease& lease = leases_[grant.key] = {.client = client,
                                       .fence = grant.fence,
                                       .granted_us = now_us,
                                       .lease_us = grant.lease_us,
                                       .counted_from_us = now_us,
                                       .sure_us = end_us,
                                       .end_us = end_us,
                                       .has_places = HasPlaces(grant),
                                       .last_us = After(now_us, borrow_us)};
  CheckLength(grant.key, lease);
  if (tuples_.WasCompleted(grant.key)) {
    context_.report(fmt::format("{} was given out after it was completed", grant.key.ToString()));
  }
  return true;
}

// How many expired leases may have doubled the next lease of this task. Every one counts, except
// that only one client of each key counts.
int LeaseChecker::Doublings(const Key& key) const {
  const auto past = past_leases_.find(key);
  if (past == past_leases_.end()) return 0;
  std::map<ClientId, int> of_key;
  int doublings = 0;
  for (const Lease& lease : past->second) {
    ++(context_.IsLimited(lease.client) ? of_key[lease.client] : doublings);
  }
  int most_of_one = 0;
  for (const auto& [client, count] : of_key) most_of_one = std::max(most_of_one, count);
  return doublings + most_of_one;
}

// A lease is never longer than it could become by extensions.
void LeaseChecker::CheckLength(const Key& key, const Lease& lease) const {
  std::int64_t most_us = lease.last_us - lease.granted_us;
  if (const TaskSpec* task = tuples_.Task(key)) most_us = MostUs(key, *task);
  if (lease.lease_us <= most_us) return;
  context_.report(fmt::format("{} has {} for {} us, may have it for {} us", lease.client,
                              key.ToString(), lease.lease_us, most_us));
}

std::int64_t LeaseChecker::MostUs(const Key& key, const TaskSpec& task) const {
  const std::int64_t most_us = BaseUs(task) * kLimits.lease_extensions;
  const auto past = past_leases_.find(key);
  const bool knows_all = past == past_leases_.end() || past->second.size() < kPastLeases;
  return knows_all ? std::min(most_us, BaseUs(task) << Doublings(key)) : most_us;
}

bool LeaseChecker::MayWaitForAnother(const Lease& lease, const TaskSpec& task,
                                     std::int64_t now_us) const {
  if (lease.has_places && now_us - lease.granted_us < kLimits.supply_us) return true;
  return std::any_of(task.inputs.begin(), task.inputs.end(), [&](const Key& input) {
    return tuples_.MayStayWithAnother(input, lease.client);
  });
}

// ---- leases that end or are extended ------------------------------------------------------------

LeaseChecker::Lease* LeaseChecker::Held(const ClientId& client, const LeaseRef& ref) {
  const auto it = leases_.find(ref.key);
  const bool is_it =
      it != leases_.end() && it->second.client == client && it->second.fence == ref.fence;
  return is_it ? &it->second : nullptr;
}

void LeaseChecker::OnAnswer(const ClientId& client, const LeaseRef& ref, LeaseStatus status,
                            std::int64_t extend_us, const Extensions& extensions,
                            std::int64_t now_us) {
  Lease* const lease = Held(client, ref);
  if (status == LeaseStatus::kOk && (lease == nullptr || now_us >= lease->end_us)) {
    context_.report(fmt::format("{} was told that it holds {} under fence {}, which it does not",
                                client, ref.key.ToString(), ref.fence));
  }
  if (status == LeaseStatus::kStale && lease != nullptr && now_us < lease->sure_us) {
    context_.report(
        fmt::format("{} was told that it does not hold {} under fence {}, before its lease ended",
                    client, ref.key.ToString(), ref.fence));
  }
  if (lease == nullptr) return;
  if (status == LeaseStatus::kStale) {
    lease->end_us = std::min(lease->end_us, now_us);
  } else if (extend_us < 0) {
    leases_.erase(ref.key);
  } else {
    const std::int64_t asked_us = extend_us > 0 ? extend_us : kLimits.default_lease_us;
    lease->end_us = std::min(After(now_us, asked_us), lease->last_us);
    lease->sure_us = lease->end_us;
    const TaskSpec* task = tuples_.Task(ref.key);
    if (task == nullptr) return;
    if (MayWaitForAnother(*lease, *task, now_us)) lease->counted_from_us = now_us;
    const auto last_us = [&](std::int64_t from_us, std::int64_t times) {
      return After(from_us, std::max(lease->lease_us, BaseUs(*task) * times));
    };
    if (extensions.another_could_take) {
      const std::int64_t most_us = last_us(lease->counted_from_us, extensions.most);
      lease->end_us = std::min(lease->end_us, std::max(most_us, now_us));
    }
    lease->sure_us = std::min(lease->end_us, last_us(lease->granted_us, extensions.least));
  }
}

void LeaseChecker::OnFalseCompletion(const ClientId& client, const LeaseRef& ref,
                                     std::int64_t now_us) {
  if (!context_.IsHostile(client)) {
    context_.report(
        fmt::format("{} means well, and completed {} with other results than it "
                    "declares",
                    client, ref.key.ToString()));
  }
  Lease* lease = Held(client, ref);
  if (lease == nullptr || now_us >= lease->end_us) return;  // too late to change anything
  if (now_us >= lease->sure_us) {
    lease->in_doubt = true;
    Lose(ref.key, *lease);
  }
  leases_.erase(ref.key);
}

void LeaseChecker::OnRetired(const Retire& retire) {
  const auto matches = [&](const auto& entry) { return retire.pattern.Matches(entry.first); };
  std::erase_if(leases_, matches);
  std::erase_if(past_leases_, matches);
}

void LeaseChecker::OnLost(const ClientId& client) {
  for (const auto& [key, lease] : leases_) {
    if (lease.client == client) Lose(key, lease);
  }
  std::erase_if(leases_, [&](const auto& entry) { return entry.second.client == client; });
}

void LeaseChecker::Lose(const Key& key, const Lease& lease) {
  if (!tuples_.IsTask(key)) return;
  past_leases_[key].push_back(lease);
}

// ---- completions -------------------------------------------------------------------------------

bool LeaseChecker::OnCompleted(const ClientId& client, const Complete& complete,
                               const CompleteReply& reply) {
  const Key& key = complete.lease.key;
  const May may = reply.lease == LeaseStatus::kOk ? May::kYes : MayComplete(client, complete.lease);
  CheckStored(client, complete, reply, may);
  const auto any = [&](PutStatus status) {
    return std::find(reply.results.begin(), reply.results.end(), status) != reply.results.end();
  };
  // A client that was lost may not have heard that its completion failed the task.
  const bool is_late = reply.lease == LeaseStatus::kStale;
  const bool is_false = tuples_.IsTask(key) && !IsDeclared(complete);
  if (may == May::kNo || (is_late && (is_false || any(PutStatus::kRefused)))) return false;
  if (may == May::kYes || any(PutStatus::kStored)) {
    tuples_.OnCompleted(key);
    leases_.erase(key);  // the present holder is too late
  }
  tuples_.Gone(key);
  return true;
}

bool LeaseChecker::IsDeclared(const Complete& complete) const {
  std::vector<Key> keys;
  for (const Tuple& tuple : complete.results) keys.push_back(tuple.key);
  std::vector<Key> declared = tuples_.Task(complete.lease.key)->results;
  std::sort(keys.begin(), keys.end());
  std::sort(declared.begin(), declared.end());
  return keys == declared;
}

void LeaseChecker::CheckStored(const ClientId& client, const Complete& complete,
                               const CompleteReply& reply, May may) const {
  const Key& task = complete.lease.key;
  const bool held = reply.lease == LeaseStatus::kOk;
  if (held && !tuples_.IsTask(task) && context_.IsLimited(client)) {
    context_.report(
        fmt::format("{} may only borrow {}, and completed it", client, task.ToString()));
  }
  const TaskSpec* spec = tuples_.Task(task);
  if (spec != nullptr && held && !IsDeclared(complete)) {
    context_.report(fmt::format("{} was completed by {} with other results than it declares",
                                task.ToString(), client));
  }
  for (std::size_t i = 0; i < complete.results.size(); ++i) {
    if (reply.results[i] != PutStatus::kStored) continue;
    const Tuple& result = complete.results[i];
    // The client repeated it after its answer was lost.
    if (result.resident_bytes > 0 && tuples_.StaysWith(result.key, client)) continue;
    if (may == May::kNo) {
      context_.report(fmt::format("{} was stored as a result of {}, which {} may not complete",
                                  result.key.ToString(), task.ToString(), client));
    }
    if (spec == nullptr) continue;
    const auto declared = std::find(spec->results.begin(), spec->results.end(), result.key);
    const auto at = static_cast<std::uint32_t>(declared - spec->results.begin());
    if (declared == spec->results.end()) {
      context_.report(fmt::format("{} was stored as a result of {}, which does not declare it",
                                  result.key.ToString(), task.ToString()));
    } else if (result.resident_bytes > 0 &&
               std::count(spec->due.begin(), spec->due.end(), at) > 0) {
      context_.report(fmt::format("{} stays with {}, though {} says that it may not",
                                  result.key.ToString(), client, task.ToString()));
    }
  }
}

LeaseChecker::May LeaseChecker::MayComplete(const ClientId& client, const LeaseRef& ref) const {
  const auto is_it = [&](const Lease& lease) {
    return lease.client == client && lease.fence == ref.fence;
  };
  const TupleChecker::Is what = tuples_.WhatIs(ref.key);
  if (what == TupleChecker::Is::kGone || !tuples_.IsTask(ref.key)) return May::kNo;
  const May sure = what == TupleChecker::Is::kInDoubt ? May::kPerhaps : May::kYes;
  const auto held = leases_.find(ref.key);  // expired, but not granted again
  if (held != leases_.end() && is_it(held->second)) return sure;
  const bool guesses = guesses_.contains(client) && !fences_.contains(ref.fence);
  const May unknown = guesses ? May::kPerhaps : May::kNo;
  const auto past = past_leases_.find(ref.key);
  if (past == past_leases_.end()) return unknown;
  const auto it = std::find_if(past->second.begin(), past->second.end(), is_it);
  if (it == past->second.end()) return unknown;
  const bool may_be_forgotten = past->second.size() > kPastLeases;
  return it->in_doubt || may_be_forgotten ? May::kPerhaps : sure;
}

void LeaseChecker::Doubt(const ClientId& client, const Complete& complete,
                         const std::vector<std::uint64_t>& hashes, std::int64_t now_us) {
  const Key& task = complete.lease.key;
  const bool held = Held(client, complete.lease) != nullptr;
  if (!held && MayComplete(client, complete.lease) == May::kNo) return;
  tuples_.Doubt(task);
  if (const auto lease = leases_.find(task); lease != leases_.end()) {
    lease->second.sure_us = std::min(lease->second.sure_us, now_us);
  }
  for (std::size_t i = 0; i < complete.results.size(); ++i) {
    const Tuple& result = complete.results[i];
    if (result.resident_bytes == 0) tuples_.DoubtNew(result.key, hashes[i]);
  }
}

// ---- queries ------------------------------------------------------------------------------------

std::optional<ClientId> LeaseChecker::Holder(const Key& key) const {
  const auto it = leases_.find(key);
  if (it == leases_.end()) return std::nullopt;
  return it->second.client;
}

}  // namespace acan::simulation
