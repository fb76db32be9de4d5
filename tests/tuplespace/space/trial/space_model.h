// A model of the space, made as simple as possible: maps that are searched linearly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "space_key_bytes.h"
#include "tuplespace/space.h"

namespace tuplespace {

struct ModelTuple {
  std::string bytes;
  std::optional<TaskSpec> task;
  ClientId put_by;
  bool ephemeral = false;
  bool parked = false;
  std::map<ClientId, int> failures;         // by client
  ClientId resident_with;                   // client that has its bytes; empty: the space has them
  std::optional<bool> maker_holds = false;  // put_by has a copy; nullopt: only the space knows
  ClientId leased_by;                       // empty: not leased
  std::uint64_t fence = 0;
  std::int64_t lease_end_us = 0;  // kept after expiry; 0: the lease was ended
  std::vector<std::pair<ClientId, std::uint64_t>> past;  // leases that expired or were lost
};

// A finished task: its other past holders, and its results.
struct ModelDone {
  std::vector<std::pair<ClientId, std::uint64_t>> past;
  std::vector<Key> results;
};

class Model {
 public:
  bool Has(const Key& key) const { return tuples.contains(key); }
  bool IsRetired(const Key& key) const {
    return std::any_of(watermarks.begin(), watermarks.end(),
                       [&](const Pattern& mark) { return mark.Matches(key); });
  }
  bool Waits(const ModelTuple& tuple) const {
    if (!tuple.task || tuple.parked || !tuple.leased_by.empty()) return false;
    return !std::all_of(tuple.task->inputs.begin(), tuple.task->inputs.end(),
                        [&](const Key& input) { return Has(input); });
  }
  // Whether the task excludes the client.
  static bool IsKeptFrom(const ModelTuple& tuple, const ClientId& client) {
    return tuple.task && std::any_of(tuple.task->not_by.begin(), tuple.task->not_by.end(),
                                     [&](const ClientId& one) {
                                       return one == client ||
                                              (one.ends_with('/') && client.starts_with(one));
                                     });
  }
  bool IsReady(const ModelTuple& tuple) const {
    return !tuple.parked && tuple.leased_by.empty() && tuple.resident_with.empty() && !Waits(tuple);
  }
  static bool IsReadable(const ModelTuple& tuple, const ClientId& client) {
    return tuple.resident_with.empty() || tuple.resident_with == client;
  }

  PutStatus PutOne(const ClientId& client, const Tuple& tuple) {
    const std::string bytes(tuple.payload.text());
    const auto at = tuples.find(tuple.key);
    if (at != tuples.end() && (tuple.resident_bytes > 0 || !at->second.resident_with.empty())) {
      const bool again = tuple.resident_bytes > 0 && at->second.resident_with == client;
      return again ? PutStatus::kStored : PutStatus::kDuplicate;
    }
    if (at != tuples.end()) {
      if (at->second.bytes != bytes) return PutStatus::kConflict;
      if (tuple.held && at->second.put_by == client) at->second.maker_holds = true;
      return PutStatus::kDuplicate;
    }
    if (completed.contains(tuple.key)) return PutStatus::kDuplicate;
    if (IsRetired(tuple.key)) return PutStatus::kRetired;
    ModelTuple& stored = tuples[tuple.key];
    stored.bytes = bytes;
    stored.task = tuple.task;
    stored.put_by = client;
    stored.ephemeral = tuple.ephemeral;
    stored.maker_holds = tuple.held || tuple.resident_bytes > 0;
    if (tuple.resident_bytes > 0) stored.resident_with = client;
    if (tuple.task) {
      std::vector<ClientId>& not_by = stored.task->not_by;
      std::sort(not_by.begin(), not_by.end());
      not_by.erase(std::unique(not_by.begin(), not_by.end()), not_by.end());
      for (const Key& input : tuple.task->inputs) {
        if (!Has(input) && (completed.contains(input) || IsRetired(input))) stored.parked = true;
      }
    }
    return PutStatus::kStored;
  }
  PutStatus SupplyOne(const ClientId& client, const Tuple& tuple) {
    const auto at = tuples.find(tuple.key);
    if (at == tuples.end()) return PutStatus::kRetired;
    if (at->second.resident_with != client) return PutStatus::kDuplicate;
    at->second.resident_with.clear();
    at->second.maker_holds = tuple.held;
    at->second.bytes = std::string(tuple.payload.text());
    return PutStatus::kStored;
  }
  void HoldSome(const ClientId& client, const Hold& hold) {
    const auto set = [&](const std::vector<Key>& keys, bool holds) {
      for (const Key& key : keys) {
        const auto at = tuples.find(key);
        if (at == tuples.end() || at->second.put_by != client) continue;
        if (at->second.resident_with.empty()) at->second.maker_holds = holds;
      }
    };
    set(hold.dropped, false);
    set(hold.held, true);
  }
  // Removes several tuples at once; they do not orphan each other.
  void Remove(const std::vector<Key>& keys) {
    for (const Key& key : keys) tuples.erase(key);
    for (auto& [key, tuple] : tuples) {
      if (!tuple.task || !tuple.leased_by.empty()) continue;
      for (const Key& input : tuple.task->inputs) {
        if (std::find(keys.begin(), keys.end(), input) != keys.end()) tuple.parked = true;
      }
    }
  }
  std::size_t RetireAll(const Retire& retire) {
    if (retire.watermark) watermarks.push_back(retire.pattern);
    std::vector<Key> removed;
    for (const auto& [key, tuple] : tuples) {
      if (retire.pattern.Matches(key)) removed.push_back(key);
    }
    Remove(removed);
    std::erase_if(completed, [&](const auto& done) { return retire.pattern.Matches(done.first); });
    for (auto& [key, tuple] : tuples) {
      if (!Waits(tuple) || !retire.watermark) continue;
      for (const Key& input : tuple.task->inputs) {
        if (!Has(input) && retire.pattern.Matches(input)) tuple.parked = true;
      }
    }
    return removed.size();
  }
  void LoseLease(ModelTuple& tuple) {
    if (tuple.task) {
      tuple.past.emplace_back(tuple.leased_by, tuple.fence);
      ForgetSome(tuple.leased_by, tuple.past);
    }
    EndLease(tuple);
  }
  void ForgetSome(const ClientId& holder,
                  std::vector<std::pair<ClientId, std::uint64_t>>& past) const {
    const auto is_gone = [&](const auto& lease) { return !joined.contains(lease.first); };
    while (std::count_if(past.begin(), past.end(), is_gone) > 8) {
      past.erase(std::find_if(past.begin(), past.end(), is_gone));
    }
    const auto is_own = [&](const auto& lease) { return lease.first == holder; };
    if (std::count_if(past.begin(), past.end(), is_own) <= 8) return;
    const auto first = std::find_if(past.begin(), past.end(), is_own);
    past.erase(std::find_if(first + 1, past.end(), is_own));
  }
  bool MayCompleteLate(const ClientId& client, const LeaseRef& lease) const {
    const auto at = tuples.find(lease.key);
    if (at == tuples.end() || at->second.parked) return false;
    const auto& past = at->second.past;
    return std::find(past.begin(), past.end(), std::pair(client, lease.fence)) != past.end();
  }
  void EndLease(ModelTuple& tuple) {
    tuple.leased_by.clear();
    tuple.lease_end_us = 0;
    if (Waits(tuple)) tuple.parked = true;  // inputs that were there at its grant are gone
  }
  void Expire(std::int64_t now_us) {
    for (auto& [key, tuple] : tuples) {
      const std::int64_t end_us = tuple.lease_end_us;
      if (tuple.leased_by.empty() || end_us > now_us) continue;
      LoseLease(tuple);
      tuple.lease_end_us = end_us;
    }
  }
  ModelTuple* Leased(const ClientId& client, const LeaseRef& lease) {
    const auto at = tuples.find(lease.key);
    if (at == tuples.end() || at->second.leased_by != client || at->second.fence != lease.fence) {
      return nullptr;
    }
    return &at->second;
  }
  void Lose(const ClientId& client) {
    std::vector<Key> lost;
    for (const auto& [key, tuple] : tuples) {
      if (tuple.resident_with == client) lost.push_back(key);
    }
    Remove(lost);
    for (auto& [key, tuple] : tuples) {
      if (tuple.put_by == client) tuple.maker_holds = false;
      if (tuple.leased_by == client) LoseLease(tuple);
    }
    joined.erase(client);
    for (;;) {  // the space removes them one by one, in the order of their puts
      const auto at = std::find_if(tuples.begin(), tuples.end(), [&](const auto& item) {
        return item.second.ephemeral && item.second.put_by == client;
      });
      if (at == tuples.end()) return;
      Remove({Key(at->first)});
    }
  }

  // For a client that does not hold the task under this lease (any more) and may not complete it:
  // whether its results are compared with those in the space.
  bool Compares(const ClientId& client, const Complete& complete) const {
    const auto done = completed.find(complete.lease.key);
    return done != completed.end() &&
           std::find(done->second.past.begin(), done->second.past.end(),
                     std::pair(client, complete.lease.fence)) != done->second.past.end() &&
           AreThose(complete.results, done->second.results);
  }
  PutStatus CompareLate(const ClientId& client, bool compares, const Tuple& result) {
    const auto there = tuples.find(result.key);
    if (there == tuples.end()) return PutStatus::kRefused;
    if (compares) return PutOne(client, result);
    const bool resident = result.resident_bytes > 0 || !there->second.resident_with.empty();
    const bool same = resident ? !there->second.resident_with.empty()
                               : there->second.bytes == std::string(result.payload.text());
    return same ? PutOne(client, result) : PutStatus::kRefused;
  }
  static bool AreThose(const std::vector<Tuple>& results, const std::vector<Key>& declared) {
    std::multiset<Key> brought;
    for (const Tuple& result : results) brought.insert(result.key);
    return brought == std::multiset<Key>(declared.begin(), declared.end());
  }
  // nullopt: not a task, so any results are fine.
  static std::optional<bool> IsWhatWasDeclared(const ModelTuple& tuple,
                                               const std::vector<Tuple>& results) {
    if (!tuple.task) return std::nullopt;
    return AreThose(results, tuple.task->results);
  }
  void CompleteTask(const ClientId& client, const LeaseRef& lease) {
    ModelTuple& tuple = tuples.at(lease.key);
    if (tuple.task) {
      if (!tuple.leased_by.empty() && tuple.fence != lease.fence) LoseLease(tuple);
      std::erase(tuple.past, std::pair(client, lease.fence));
      completed[lease.key] = {tuple.past, tuple.task->results};
    }
    Remove({lease.key});
  }

  // With what long keys, and the keys that tasks name, count as.
  std::uint64_t PayloadBytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [key, tuple] : tuples) {
      const TaskSpec* task = tuple.task ? &*tuple.task : nullptr;
      bytes += tuple.bytes.size() + internal::CountedKeyBytes(key, task);
    }
    for (const auto& [key, done] : completed) {
      std::uint64_t of_keys = key.bytes().size();
      if (!done.past.empty()) {  // only then the results are remembered
        for (const Key& result : done.results) of_keys += sizeof(Key) + result.bytes().size();
      }
      bytes += of_keys - std::min(of_keys, internal::kUncountedKeyBytes);
    }
    return bytes;
  }

  std::map<Key, ModelTuple> tuples;
  std::map<Key, ModelDone> completed;
  std::vector<Pattern> watermarks;
  std::set<ClientId> joined;
};

}  // namespace tuplespace
