#include "checkers/tuple_checker.h"

#include <xxhash.h>

#include <algorithm>
#include <iterator>

#include "fmt/format.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

std::uint64_t HashOf(const Payload& payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

// ---- answers of the broker ----------------------------------------------------------------------

void TupleChecker::BeginTurn() {
  completed_now_.clear();
  retired_now_.clear();
}

void TupleChecker::OnPut(const ClientId& client, const std::vector<Tuple>& tuples,
                         const std::vector<std::uint64_t>& hashes,
                         const std::vector<PutStatus>& status, bool results) {
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const bool own = !results && context_.IsLimited(client);
    if (status[i] == PutStatus::kStored) {
      if (own) CheckQuota(client, tuples[i].key);
      OnStored(client, tuples[i], hashes[i], results);
    } else if (status[i] == PutStatus::kDuplicate && (results || !tuples[i].ephemeral) && !own) {
      OnDuplicate(tuples[i], hashes[i]);
    }
  }
}

void TupleChecker::CheckQuota(const ClientId& client, const Key& key) {
  const std::size_t most = context_.limits_of_key.own_tuples;
  if (!own_[client].insert(key).second || own_[client].size() <= most) return;
  context_.report(fmt::format("{} has {} tuples of its own in the space, its role allows {}",
                              client, own_[client].size(), most));
}

void TupleChecker::OnStored(const ClientId& client, const Tuple& tuple, std::uint64_t hash,
                            bool results) {
  const bool resident = tuple.resident_bytes > 0;
  if (resident && StaysWith(tuple.key, client)) return;
  if (WhatIs(tuple.key) == Is::kThere) {
    context_.report(fmt::format("{} was stored a second time", tuple.key.ToString()));
  }
  if (completed_.contains(tuple.key)) {
    context_.report(fmt::format("{} was stored after it was completed", tuple.key.ToString()));
  }
  if (Match(watermarks_, tuple.key)) {
    context_.report(fmt::format("{} was stored after it was retired", tuple.key.ToString()));
  }
  if (tuple.task) tasks_[tuple.key] = *tuple.task;
  const bool own = !results && context_.IsLimited(client);
  const bool goes_with_client = tuple.ephemeral && !results;
  if (!goes_with_client && !own) {
    there_[tuple.key] = {hash, resident ? client : ClientId(), false};
  }
  if (results && !resident) CheckResult(tuple.key, hash);
}

void TupleChecker::OnDuplicate(const Tuple& tuple, std::uint64_t hash) {
  const auto known = there_.find(tuple.key);
  if (known == there_.end()) {
    if (completed_.contains(tuple.key)) return;
    context_.report(
        fmt::format("{} was called a duplicate, but is not there", tuple.key.ToString()));
    return;
  }
  const There& there = known->second;
  if (tuple.resident_bytes > 0 || !there.resident_with.empty() || there.in_doubt) return;
  if (there.hash == hash) return;
  context_.report(
      fmt::format("{} was put with other bytes, and nobody was told", tuple.key.ToString()));
}

void TupleChecker::CheckResult(const Key& key, std::uint64_t hash) {
  if (results_.may_differ) return;
  const auto [first, is_new] = results_.hashes.emplace(key, hash);
  if (!is_new && first->second != hash) {
    context_.report(fmt::format("{} has other bytes than the first time", key.ToString()));
  }
}

void TupleChecker::OnSupply(const ClientId& client, const std::vector<Tuple>& tuples,
                            const std::vector<std::uint64_t>& hashes,
                            const std::vector<PutStatus>& status) {
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const Key& key = tuples[i].key;
    const auto own = own_.find(client);
    if (own != own_.end() && own->second.contains(key)) continue;  // useless to other clients
    const bool owed = StaysWith(key, client);
    if (owed != (status[i] == PutStatus::kStored)) {
      // It was supplied and retired in the same turn.
      if (!owed && Match(retired_now_, key)) continue;
      context_.report(fmt::format(
          "{} {} {}", client, owed ? "owes, but may not supply" : "may supply", key.ToString()));
    }
    if (!owed) continue;
    there_[key] = {hashes[i], {}, false};
    CheckResult(key, hashes[i]);
  }
}

void TupleChecker::OnReleased(const ClientId& client, const Key& key) {
  if (StaysWith(key, client)) there_.erase(key);
}

void TupleChecker::OnRetired(const Retire& retire) {
  const Pattern& pattern = retire.pattern;
  if (retire.watermark) watermarks_.push_back(pattern);
  retired_now_.push_back(pattern);
  std::erase_if(there_, [&](const auto& entry) { return pattern.Matches(entry.first); });
  std::erase_if(completed_, [&](const auto& key) { return pattern.Matches(key); });
  std::erase_if(tasks_, [&](const auto& entry) { return pattern.Matches(entry.first); });
  for (auto& [client, keys] : own_) {
    std::erase_if(keys, [&](const Key& key) { return pattern.Matches(key); });
  }
}

void TupleChecker::OnLost(const ClientId& client) {
  own_.erase(client);
  std::erase_if(there_, [&](const auto& entry) { return entry.second.resident_with == client; });
}

void TupleChecker::OnCompleted(const Key& key) {
  if (tasks_.contains(key)) completed_.insert(key);
  completed_now_.insert(key);
}

void TupleChecker::Doubt(const Key& key) {
  if (const auto there = there_.find(key); there != there_.end()) there->second.in_doubt = true;
}

void TupleChecker::DoubtNew(const Key& key, std::uint64_t hash) {
  there_.try_emplace(key, There{hash, {}, true});
}

// ---- queries ------------------------------------------------------------------------------------

const TaskSpec* TupleChecker::Task(const Key& key) const {
  const auto it = tasks_.find(key);
  return it == tasks_.end() ? nullptr : &it->second;
}

TupleChecker::Is TupleChecker::WhatIs(const Key& key) const {
  const auto it = there_.find(key);
  if (it == there_.end()) return Is::kGone;
  return it->second.in_doubt ? Is::kInDoubt : Is::kThere;
}

bool TupleChecker::StaysWith(const Key& key, const ClientId& client) const {
  const auto it = there_.find(key);
  return it != there_.end() && it->second.resident_with == client;
}

bool TupleChecker::MayStayWithAnother(const Key& key, const ClientId& client) const {
  const auto it = there_.find(key);
  if (it == there_.end() || it->second.in_doubt) return true;
  return !it->second.resident_with.empty() && it->second.resident_with != client;
}

bool TupleChecker::WentInThisTurn(const Key& key) const {
  return completed_now_.contains(key) || Match(retired_now_, key);
}

bool TupleChecker::Match(const std::vector<Pattern>& patterns, const Key& key) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const Pattern& pattern) { return pattern.Matches(key); });
}

// ---- checks of the space ------------------------------------------------------------------------

const Key* TupleChecker::AnyTuple(Random& random) const {
  if (there_.empty()) return nullptr;
  const auto any =
      std::next(there_.begin(), static_cast<std::ptrdiff_t>(random.Below(there_.size())));
  const bool is_sure = any->second.resident_with.empty() && !any->second.in_doubt;
  return is_sure ? &any->first : nullptr;
}

void TupleChecker::CheckTuple(const Key& key, const FoundTuple* found) const {
  const There& there = there_.at(key);
  if (found == nullptr) {
    context_.report(fmt::format("{} was acknowledged and is not there", key.ToString()));
  } else if (found->resident != !there.resident_with.empty()) {
    context_.report(
        fmt::format("{} {} with a client", key.ToString(), found->resident ? "stays" : "is not"));
  } else if (!found->resident && HashOf(found->payload) != there.hash) {
    context_.report(
        fmt::format("{} is there with other bytes than were acknowledged", key.ToString()));
  }
}

std::vector<Key> TupleChecker::Tuples() const {
  std::vector<Key> keys;
  for (const auto& [key, there] : there_) {
    if (!there.in_doubt) keys.push_back(key);
  }
  return keys;
}

}  // namespace acan::simulation
