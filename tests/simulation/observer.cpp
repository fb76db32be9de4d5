#include "observer.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "hostile_handler.h"
#include "tuplespace/space.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

std::uint64_t HashOf(const Payload& payload) {
  std::uint64_t hash = 0xcbf29ce484222325ull ^ payload.size();
  const std::byte* const data = payload.data();
  for (std::size_t i = 0; i < payload.size(); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3ull;
  }
  return hash;
}

namespace {

// Without the bytes: the tuples go on to the broker.
std::vector<Tuple> Outlines(const std::vector<Tuple>& tuples) {
  std::vector<Tuple> outlines;
  for (const Tuple& tuple : tuples) {
    Tuple outline;
    outline.key = tuple.key;
    outline.ephemeral = tuple.ephemeral;
    outline.resident_bytes = tuple.resident_bytes;
    if (tuple.task) {
      outline.task.emplace();
      outline.task->lease_us = tuple.task->lease_us;
      outline.task->not_by = tuple.task->not_by;
      outline.task->results = tuple.task->results;
    }
    outlines.push_back(std::move(outline));
  }
  return outlines;
}

std::vector<std::uint64_t> Hashes(const std::vector<Tuple>& tuples) {
  std::vector<std::uint64_t> hashes;
  for (const Tuple& tuple : tuples) hashes.push_back(HashOf(tuple.payload));
  return hashes;
}

std::int64_t After(std::int64_t now_us, std::int64_t duration_us) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return duration_us < kMost - now_us ? now_us + duration_us : kMost;
}

constexpr SpaceLimits kLimits;          // of every broker here
constexpr std::size_t kPastLeases = 8;  // that it remembers of one task
constexpr const char* kCountsAsFailed = "counts as failed";
constexpr const char* kIsBenched = "gets no tasks for";

}  // namespace

void Observer::OnRequest(const ClientId& client, std::uint64_t session, const Request& request) {
  const auto known = sessions_.find(client);
  if (known != sessions_.end() && known->second != session) {
    late_.insert({client, request.id});
    return;
  }
  current_[client].insert(request.id);
  Asked asked;
  if (const auto* put = std::get_if<Put>(&request.body)) {
    asked.what = Put{Outlines(put->tuples)};
    asked.hashes = Hashes(put->tuples);
  } else if (const auto* complete = std::get_if<Complete>(&request.body)) {
    asked.what = Complete{complete->lease, Outlines(complete->results)};
    asked.hashes = Hashes(complete->results);
  } else if (const auto* supply = std::get_if<Supply>(&request.body)) {
    asked.what = Supply{Outlines(supply->tuples)};
    asked.hashes = Hashes(supply->tuples);
  } else if (const auto* extend = std::get_if<Extend>(&request.body)) {
    asked.what = extend->lease;
    asked.extend_us = extend->lease_us;
  } else if (const auto* release = std::get_if<Release>(&request.body)) {
    asked.what = release->lease;
  } else if (const auto* fail = std::get_if<Fail>(&request.body)) {
    asked.what = fail->lease;
  } else if (const auto* retire = std::get_if<Retire>(&request.body)) {
    asked.what = *retire;
  } else if (std::holds_alternative<Get>(request.body)) {
    open_gets_.emplace(std::pair(client, request.id), std::numeric_limits<std::int64_t>::max());
    return;
  } else {
    return;
  }
  asked_[{client, request.id}] = std::move(asked);
}

ClientId Observer::ServedLate(
    const std::vector<std::pair<ClientId, const ToClient*>>& answers) const {
  for (const auto& [client, envelope] : answers) {
    for (const BrokerMessage& message : envelope->messages) {
      const auto* reply = std::get_if<Reply>(&message);
      if (std::holds_alternative<Done>(message) ||
          (reply != nullptr && asked_.contains({client, reply->id}))) {
        return client;
      }
    }
  }
  return {};
}

void Observer::OnAnswers(const ClientId& asking,
                         const std::vector<std::pair<ClientId, const ToClient*>>& answers,
                         std::int64_t now_us) {
  completed_now_.clear();
  retired_now_.clear();
  const ClientId active = asking.empty() ? ServedLate(answers) : asking;
  for (const bool of_active : {true, false}) {
    for (const auto& [client, envelope] : answers) {
      if ((client == active) != of_active) continue;
      for (const BrokerMessage& message : envelope->messages) {
        if (const auto* welcome = std::get_if<Welcome>(&message)) {
          // A new session: what the client held in the one before is given back.
          if (std::exchange(sessions_[client], welcome->session) != welcome->session) {
            OnLost(client);
            current_.erase(client);
            // The Welcome to a Hello that came late, after the session of a later one was lost, is
            // ignored by the client. That its session is over it hears when it speaks again.
            const auto [last, is_first] = nonces_.try_emplace(client, welcome->nonce);
            if (!is_first && welcome->nonce <= last->second) continue;
            last->second = welcome->nonce;
            if (const auto led = leads_.find(client); led != leads_.end()) led->second = false;
          }
        } else if (const auto* reply = std::get_if<Reply>(&message)) {
          OnReply(client, *reply, now_us);
        } else if (const auto* done = std::get_if<Done>(&message)) {
          for (const RequestId id : done->requests) OnDone(client, id, now_us);
        } else if (const auto* notice = std::get_if<Notice>(&message)) {
          OnNotice(client, *notice, now_us);
        }
      }
    }
  }
}

void Observer::OnDone(const ClientId& client, RequestId id, std::int64_t now_us) {
  ReplyBody reply = Ok{};
  const auto it = asked_.find({client, id});
  if (it != asked_.end()) {
    const auto stored = [](const std::vector<Tuple>& tuples) {
      return std::vector<PutStatus>(tuples.size(), PutStatus::kStored);
    };
    if (const auto* put = std::get_if<Put>(&it->second.what)) {
      reply = PutReply{stored(put->tuples)};
    } else if (const auto* supply = std::get_if<Supply>(&it->second.what)) {
      reply = PutReply{stored(supply->tuples)};
    } else if (const auto* complete = std::get_if<Complete>(&it->second.what)) {
      reply = CompleteReply{LeaseStatus::kOk, stored(complete->results)};
    } else if (std::holds_alternative<LeaseRef>(it->second.what)) {
      reply = LeaseReply{};
    }
  }
  OnReply(client, {id, std::move(reply)}, now_us);
}

void Observer::OnReply(const ClientId& client, const Reply& reply, std::int64_t now_us) {
  open_gets_.erase({client, reply.id});
  if (const auto* grants = std::get_if<Grants>(&reply.body))
    return OnGrants(client, *grants, now_us);
  const auto it = asked_.find({client, reply.id});
  if (it == asked_.end()) {
    // What was sent again may have overtaken what was sent first.
    if (late_.contains({client, reply.id}) && !current_[client].contains(reply.id)) {
      report_(fmt::format("{} was answered in a later session than it asked in", client));
    }
    return;
  }
  const Asked asked = std::move(it->second);
  asked_.erase(it);
  if (const auto* answer = std::get_if<PutReply>(&reply.body)) {
    if (const auto* supply = std::get_if<Supply>(&asked.what)) {
      OnSupply(client, supply->tuples, asked.hashes, answer->status);
    } else {
      OnPut(client, std::get<Put>(asked.what).tuples, asked.hashes, answer->status, false);
    }
  } else if (const auto* done = std::get_if<CompleteReply>(&reply.body)) {
    const Complete& complete = std::get<Complete>(asked.what);
    OnLeaseAnswer(client, asked, complete.lease, done->lease, now_us);
    OnCompleted(client, complete, *done);
    OnPut(client, complete.results, asked.hashes, done->results, true);
  } else if (const auto* lease = std::get_if<LeaseReply>(&reply.body)) {
    OnLeaseAnswer(client, asked, std::get<LeaseRef>(asked.what), lease->lease, now_us);
  } else if (std::holds_alternative<RetireReply>(reply.body)) {
    OnRetired(std::get<Retire>(asked.what));
  } else if (const auto* error = std::get_if<RequestError>(&reply.body)) {
    const auto* complete = std::get_if<Complete>(&asked.what);
    const bool failed = error->text.find(kCountsAsFailed) != std::string::npos;
    if (complete != nullptr && failed) OnFalseCompletion(client, complete->lease, now_us);
  }
}

void Observer::OnFalseCompletion(const ClientId& client, const LeaseRef& ref, std::int64_t now_us) {
  if (!HostileHandler::Is(client)) {
    report_(fmt::format("{} means well, and completed {} with other results than it declares",
                        client, ref.key.ToString()));
  }
  Lease* lease = Held(client, ref);
  if (lease == nullptr || now_us >= lease->end_us) return;  // it came late, and changes nothing
  if (now_us >= lease->sure_us) {
    lease->in_doubt = true;
    Lose(ref.key, *lease);
  }
  leases_.erase(ref.key);
}

void Observer::OnCompleted(const ClientId& client, const Complete& complete,
                           const CompleteReply& reply) {
  const Key& key = complete.lease.key;
  const May may = reply.lease == LeaseStatus::kOk ? May::kYes : MayComplete(client, complete.lease);
  CheckStored(client, complete, reply, may);
  const auto any = [&](PutStatus status) {
    return std::find(reply.results.begin(), reply.results.end(), status) != reply.results.end();
  };
  // Whoever was lost may not have heard that its completion failed the task.
  const bool is_late = reply.lease == LeaseStatus::kStale;
  const bool is_false = tasks_.contains(key) && !IsDeclared(complete);
  if (may == May::kNo || (is_late && (is_false || any(PutStatus::kRefused)))) return;
  if (tasks_.contains(key)) tried_.insert(client);
  if (may == May::kYes || any(PutStatus::kStored)) {
    if (tasks_.contains(key)) completed_.insert(key);
    completed_now_.insert(key);
    leases_.erase(key);  // whoever has it now is too late
  }
  Gone(key);
}

bool Observer::IsDeclared(const Complete& complete) const {
  std::vector<Key> keys;
  for (const Tuple& tuple : complete.results) keys.push_back(tuple.key);
  std::vector<Key> declared = tasks_.at(complete.lease.key).results;
  std::sort(keys.begin(), keys.end());
  std::sort(declared.begin(), declared.end());
  return keys == declared;
}

void Observer::CheckStored(const ClientId& client, const Complete& complete,
                           const CompleteReply& reply, May may) const {
  const Key& task = complete.lease.key;
  const auto spec = tasks_.find(task);
  const bool is_task = spec != tasks_.end();
  if (is_task && reply.lease == LeaseStatus::kOk && !IsDeclared(complete)) {
    report_(fmt::format("{} was completed by {} with other results than it declares",
                        task.ToString(), client));
  }
  for (std::size_t i = 0; i < complete.results.size(); ++i) {
    if (reply.results[i] != PutStatus::kStored) continue;
    const Key& key = complete.results[i].key;
    const auto there = there_.find(key);
    const bool resident = there != there_.end() && there->second.resident_with == client;
    if (resident && complete.results[i].resident_bytes > 0)
      continue;  // said again, after a lost answer
    if (may == May::kNo) {
      report_(fmt::format("{} was stored as a result of {}, which {} may not complete",
                          key.ToString(), task.ToString(), client));
    }
    if (!is_task) continue;
    const std::vector<Key>& declared = spec->second.results;
    if (std::find(declared.begin(), declared.end(), key) == declared.end()) {
      report_(fmt::format("{} was stored as a result of {}, which does not declare it",
                          key.ToString(), task.ToString()));
    }
  }
}

Observer::Lease* Observer::Held(const ClientId& client, const LeaseRef& ref) {
  const auto it = leases_.find(ref.key);
  const bool is_it =
      it != leases_.end() && it->second.client == client && it->second.fence == ref.fence;
  return is_it ? &it->second : nullptr;
}

void Observer::OnLeaseAnswer(const ClientId& client, const Asked& asked, const LeaseRef& ref,
                             LeaseStatus status, std::int64_t now_us) {
  Lease* const lease = Held(client, ref);
  if (status == LeaseStatus::kOk && (lease == nullptr || now_us >= lease->end_us)) {
    report_(fmt::format("{} was told that it holds {} under fence {}, which it does not", client,
                        ref.key.ToString(), ref.fence));
  }
  if (status == LeaseStatus::kStale && lease != nullptr && now_us < lease->sure_us) {
    report_(
        fmt::format("{} was told that it does not hold {} under fence {}, before its lease ended",
                    client, ref.key.ToString(), ref.fence));
  }
  TellLead(client, ref.key, status != LeaseStatus::kStale);
  if (lease == nullptr) return;
  if (status == LeaseStatus::kStale) {
    lease->end_us = std::min(lease->end_us, now_us);
  } else if (asked.extend_us < 0) {
    leases_.erase(ref.key);
  } else {
    lease->end_us = After(now_us, asked.extend_us > 0 ? asked.extend_us : kLimits.default_lease_us);
    lease->sure_us = lease->end_us;
    if (!tasks_.contains(ref.key)) return;
    const std::int64_t asked_us = tasks_.at(ref.key).lease_us;
    const std::int64_t base_us = asked_us > 0 ? asked_us : kLimits.default_lease_us;
    const std::int64_t last_us =
        After(lease->granted_us, std::max(lease->lease_us, base_us * kLimits.lease_extensions));
    lease->sure_us = std::min(lease->end_us, last_us);
  }
}

// A new client of a key that offended lately gets one task at a time.
void Observer::CheckGrants(const ClientId& client, const Grants& grants,
                           std::int64_t now_us) const {
  constexpr std::int64_t kRememberedUs = kLimits.key_forgiven_us - kLimits.most_bench_us;
  const bool tried = !IsLimited(client) || tried_.contains(client);
  if (!tried && grants.grants.size() > 1 && now_us < offence_us_ + kRememberedUs) {
    report_(fmt::format("{} has done nothing, and gets {} tasks at once", client,
                        grants.grants.size()));
  }
}

// A lease that ran out makes the next one twice as long, but only one client's of each key, and
// never longer than it could be extended.
void Observer::CheckLease(const Key& key, const Lease& lease) const {
  const auto task = tasks_.find(key);
  if (task == tasks_.end()) return;
  const std::int64_t asked_us = task->second.lease_us;
  const std::int64_t base_us = asked_us > 0 ? asked_us : kLimits.default_lease_us;
  std::int64_t most_us = base_us * kLimits.lease_extensions;
  const auto past = past_leases_.find(key);
  const std::size_t known = past == past_leases_.end() ? 0 : past->second.size();
  if (known < kPastLeases) {
    std::map<ClientId, int> of_key;
    int doublings = 0;
    for (std::size_t i = 0; i < known; ++i) {
      const ClientId& client = past->second[i].client;
      doublings += IsLimited(client) ? 0 : 1;
      if (IsLimited(client)) ++of_key[client];
    }
    int most_of_one = 0;
    for (const auto& [client, count] : of_key) most_of_one = std::max(most_of_one, count);
    most_us = std::min(most_us, base_us << (doublings + most_of_one));
  }
  if (lease.lease_us <= most_us) return;
  report_(fmt::format("{} has {} for {} us, may have it for {} us", lease.client, key.ToString(),
                      lease.lease_us, most_us));
}

void Observer::OnGrants(const ClientId& client, const Grants& grants, std::int64_t now_us) {
  CheckGrants(client, grants, now_us);
  for (const Grant& grant : grants.grants) {
    // Given out when its holder was lost, and completed by that one in the same turn; or put and
    // retired in one.
    if (completed_now_.contains(grant.key) || Match(retired_now_, grant.key)) continue;
    if (!fences_.insert(grant.fence).second) {
      report_(fmt::format("fence {} was given twice, the second time for {}", grant.fence,
                          grant.key.ToString()));
    }
    const auto held = leases_.find(grant.key);
    if (held != leases_.end() && now_us < held->second.sure_us) {
      report_(fmt::format("{} was given to {} while {} held it", grant.key.ToString(), client,
                          held->second.client));
    }
    if (held != leases_.end()) Lose(grant.key, held->second);
    TellLead(client, grant.key, true);
    const std::int64_t end_us = After(now_us, grant.lease_us);
    leases_[grant.key] = {.client = client,
                          .fence = grant.fence,
                          .granted_us = now_us,
                          .lease_us = grant.lease_us,
                          .sure_us = end_us,
                          .end_us = end_us};
    CheckLease(grant.key, leases_.at(grant.key));
    if (completed_.contains(grant.key)) {
      report_(fmt::format("{} was given out after it was completed", grant.key.ToString()));
    }
  }
}

void Observer::CheckResult(const Key& key, std::uint64_t hash) {
  if (results_.may_differ) return;
  const auto [first, is_new] = results_.hashes.emplace(key, hash);
  if (!is_new && first->second != hash) {
    report_(fmt::format("{} has other bytes than the first time", key.ToString()));
  }
}

void Observer::OnSupply(const ClientId& client, const std::vector<Tuple>& tuples,
                        const std::vector<std::uint64_t>& hashes,
                        const std::vector<PutStatus>& status) {
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const Key& key = tuples[i].key;
    if (IsLimited(client) && own_[client].contains(key)) continue;  // of no use to anybody else
    const auto known = there_.find(key);
    const bool owed = known != there_.end() && known->second.resident_with == client;
    if (owed != (status[i] == PutStatus::kStored)) {
      // Supplied and retired in one turn.
      if (!owed && Match(retired_now_, key)) continue;
      report_(fmt::format("{} {} {}", client, owed ? "owes, but may not supply" : "may supply",
                          key.ToString()));
    }
    if (!owed) continue;
    known->second = {hashes[i], {}};
    CheckResult(key, hashes[i]);
  }
}

// Who was told that he need not keep it has lost it, or it is retired.
void Observer::OnNotice(const ClientId& client, const Notice& notice, std::int64_t now_us) {
  if (notice.kind == Notice::Kind::kMistrusted) OnBenched(notice, now_us);
  const auto known = there_.find(notice.key);
  const bool owed = known != there_.end() && known->second.resident_with == client;
  if (owed && notice.kind == Notice::Kind::kReleased) there_.erase(known);
}

// Its Gets that wait are answered when the time is over that the notice names.
void Observer::OnBenched(const Notice& notice, std::int64_t now_us) {
  if (notice.text.find(kIsBenched) == std::string::npos) return;  // a task fails on all
  if (IsLimited(notice.by)) offence_us_ = now_us;
  const std::size_t unit = notice.text.rfind(" ms");
  const std::size_t number = notice.text.rfind(' ', unit - 1) + 1;
  const std::int64_t bench_us = 1000 * std::stoll(notice.text.substr(number, unit - number));
  auto open = open_gets_.lower_bound({notice.by, 0});
  for (; open != open_gets_.end() && open->first.first == notice.by; ++open) {
    open->second = std::min(open->second, After(now_us, bench_us));
  }
}

void Observer::OnTime(std::int64_t now_us) {
  for (const auto& [asked, due_us] : open_gets_) {
    if (due_us >= now_us) continue;
    report_(fmt::format("{} gets no tasks for longer than was said", asked.first));
  }
}

void Observer::OnPut(const ClientId& client, const std::vector<Tuple>& tuples,
                     const std::vector<std::uint64_t>& hashes, const std::vector<PutStatus>& status,
                     bool results) {
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const Tuple& tuple = tuples[i];
    const auto known = there_.find(tuple.key);
    const bool resident = tuple.resident_bytes > 0;
    const bool own = !results && IsLimited(client);
    const bool ephemeral = tuple.ephemeral || own;
    if (status[i] == PutStatus::kStored) {
      if (own && own_[client].insert(tuple.key).second &&
          own_[client].size() > limits_.own_tuples) {
        report_(fmt::format("{} has {} tuples of its own in the space, its role allows {}", client,
                            own_[client].size(), limits_.own_tuples));
      }
      if (resident && known != there_.end() && known->second.resident_with == client) continue;
      if (known != there_.end()) {
        report_(fmt::format("{} was stored a second time", tuple.key.ToString()));
      }
      if (completed_.contains(tuple.key)) {
        report_(fmt::format("{} was stored after it was completed", tuple.key.ToString()));
      }
      if (Match(watermarks_, tuple.key)) {
        report_(fmt::format("{} was stored after it was retired", tuple.key.ToString()));
      }
      if (tuple.task) tasks_[tuple.key] = *tuple.task;
      if (!ephemeral) there_[tuple.key] = {hashes[i], resident ? client : ClientId()};
      if (results && !resident) CheckResult(tuple.key, hashes[i]);
    } else if (status[i] == PutStatus::kDuplicate && !ephemeral) {
      if (known == there_.end() && !completed_.contains(tuple.key)) {
        report_(fmt::format("{} was called a duplicate, but is not there", tuple.key.ToString()));
      } else if (known != there_.end() && !resident && known->second.resident_with.empty() &&
                 known->second.hash != hashes[i]) {
        report_(
            fmt::format("{} was put with other bytes, and nobody was told", tuple.key.ToString()));
      }
    }
  }
}

bool Observer::Match(const std::vector<Pattern>& patterns, const Key& key) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const Pattern& pattern) { return pattern.Matches(key); });
}

void Observer::OnRetired(const Retire& retire) {
  const Pattern& pattern = retire.pattern;
  if (retire.watermark) watermarks_.push_back(pattern);
  retired_now_.push_back(pattern);
  std::erase_if(there_, [&](const auto& entry) { return pattern.Matches(entry.first); });
  std::erase_if(leases_, [&](const auto& entry) { return pattern.Matches(entry.first); });
  std::erase_if(completed_, [&](const auto& key) { return pattern.Matches(key); });
  std::erase_if(past_leases_, [&](const auto& entry) { return pattern.Matches(entry.first); });
  std::erase_if(tasks_, [&](const auto& entry) { return pattern.Matches(entry.first); });
  for (auto& [client, keys] : own_) {
    std::erase_if(keys, [&](const Key& key) { return pattern.Matches(key); });
  }
}

void Observer::OnLost(const ClientId& client) {
  own_.erase(client);
  tried_.erase(client);
  std::erase_if(open_gets_, [&](const auto& entry) { return entry.first.first == client; });
  std::erase_if(there_, [&](const auto& entry) { return entry.second.resident_with == client; });
  for (const auto& [key, lease] : leases_) {
    if (lease.client == client) Lose(key, lease);
  }
  std::erase_if(leases_, [&](const auto& entry) { return entry.second.client == client; });
}

void Observer::Lose(const Key& key, const Lease& lease) {
  if (!tasks_.contains(key)) return;
  std::vector<Lease>& past = past_leases_[key];
  if (past.size() >= kPastLeases) past.erase(past.begin());
  past.push_back(lease);
}

Observer::May Observer::MayComplete(const ClientId& client, const LeaseRef& ref) const {
  const auto is_it = [&](const Lease& lease) {
    return lease.client == client && lease.fence == ref.fence;
  };
  if (!there_.contains(ref.key) || !tasks_.contains(ref.key)) return May::kNo;
  const auto held = leases_.find(ref.key);  // ran out, and nobody has taken it since
  if (held != leases_.end() && is_it(held->second)) return May::kYes;
  const auto past = past_leases_.find(ref.key);
  if (past == past_leases_.end()) return May::kNo;
  const auto it = std::find_if(past->second.begin(), past->second.end(), is_it);
  if (it == past->second.end()) return May::kNo;
  return it->in_doubt ? May::kPerhaps : May::kYes;
}

void Observer::TellLead(const ClientId& client, const Key& key, bool leads) {
  static const Pattern kLeaders{{FieldPattern::Exact("leader")}, true};
  if (kLeaders.Matches(key)) leads_[client] = leads;
}

std::optional<bool> Observer::TakeLead(const ClientId& client) {
  const auto it = leads_.find(client);
  return it == leads_.end() ? std::nullopt : std::exchange(it->second, std::nullopt);
}

const Key* Observer::AnyTuple(Random& random) const {
  if (there_.empty()) return nullptr;
  const auto any =
      std::next(there_.begin(), static_cast<std::ptrdiff_t>(random.Below(there_.size())));
  return any->second.resident_with.empty() ? &any->first : nullptr;
}

void Observer::CheckTuple(const Key& key, const FoundTuple* found) const {
  if (found == nullptr) {
    report_(fmt::format("{} was acknowledged and is not there", key.ToString()));
  } else if (found->resident != !there_.at(key).resident_with.empty()) {
    report_(
        fmt::format("{} {} with a client", key.ToString(), found->resident ? "stays" : "is not"));
  } else if (!found->resident && HashOf(found->payload) != there_.at(key).hash) {
    report_(fmt::format("{} is there with other bytes than were acknowledged", key.ToString()));
  }
}

std::vector<Key> Observer::Tuples() const {
  std::vector<Key> keys;
  for (const auto& [key, hash] : there_) keys.push_back(key);
  return keys;
}

std::optional<ClientId> Observer::Holder(const Key& key) const {
  const auto it = leases_.find(key);
  if (it == leases_.end()) return std::nullopt;
  return it->second.client;
}

const TaskSpec* Observer::Task(const Key& key) const {
  const auto it = tasks_.find(key);
  return it == tasks_.end() ? nullptr : &it->second;
}

}  // namespace acan::simulation
