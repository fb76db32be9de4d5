// GetGroups: groups the waiting Gets by pattern. Each group indexes the ready tuples that match its
// pattern, so that the next Get finds one in O(log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "space_pattern_index.h"
#include "space_state.h"

namespace tuplespace::internal {

// The clients that may take a ready tuple.
struct Candidates {
  std::vector<GetGroup*> groups;      // those whose pattern matches
  std::vector<ClientState*> holders;  // holders of the affinity input that use one of these groups
  bool is_named = false;              // `holders` is the one client that TaskSpec::prefers names

  bool Contains(const GetGroup* group) const {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  }
};

class GetGroups {
 public:
  explicit GetGroups(SpaceState& state) : state_(state) {}

  // The group of this client's Gets with this pattern; null: there is none.
  GetGroup* Find(const ClientState& client, const Pattern& pattern) const {
    return (TakesTasksOnly(client, pattern) ? task_groups_ : groups_).Find(pattern);
  }
  // Why this client may not add this new pattern now. May remove groups without waiting Gets to
  // make room.
  std::optional<RequestError> MakeRoomFor(const ClientState& client, const Pattern& pattern);
  // A new group, without any tuples yet.
  // REQUIRES: Find(client, pattern) is null, and MakeRoomFor(client, pattern) has just found
  // nothing.
  GetGroup* Make(const ClientState& client, const Pattern& pattern);
  // Charges this client for the work that its new pattern caused.
  void Charge(const ClientState& client, std::uint64_t examined, std::uint64_t placed);
  // Calls f(GetGroup*) for each group whose Gets may take the tuple, until f returns false.
  template <class F>
  void ForEachMatch(const Record& record, F f) const {
    bool goes_on = true;
    const auto visit = [&](GetGroup* group) {
      goes_on = f(group);
      return goes_on;
    };
    groups_.ForEachMatch(record.key.bytes(), visit);
    if (goes_on && record.task) task_groups_.ForEachMatch(record.key.bytes(), visit);
  }
  using ByAge = std::map<std::uint64_t, GetGroup*>;        // by GetGroup::sequence
  const ByAge& patterns() const { return patterns_; }      // those that have users
  const ByAge& whole_keys() const { return whole_keys_; }  // GetGroup::whole_key
  void ForgetUser(const ClientState& client);
  // Calls f(Record*) for each tuple that prefers the client. `f` must withdraw the tuple, and must
  // not add any.
  template <class F>
  void ForEachKeptFor(const ClientState& client, F f) const {
    for (const ByAge* groups : {&patterns_, &whole_keys_}) {
      for (const auto& [sequence, group] : *groups) {
        while (Record* kept = FirstKeptFor(client, *group)) f(kept);
      }
    }
  }

  // Puts the tuple into the trees of these groups, according to its placement, where it waits for a
  // Get.
  void Enter(Record* record, const Candidates& candidates);
  // The same for one group. REQUIRES: the tuple prefers no client and is placed.
  void EnterOne(Record* record, GetGroup* group);
  void Withdraw(Record* record);  // removes it from all trees
  Record* NextFor(const Taker& taker) const;

  static void Leave(GetWaiter& waiter);  // the waiter no longer waits in its group
  void EndGet(GetWaiter* waiter);        // answers with what it has taken, and destroys it

  bool IsConsistent() const {
    return patterns_.size() + whole_keys_.size() == groups_.size() + task_groups_.size();
  }

 private:
  // A client that may only borrow plain tuples gets them by whole keys only. Otherwise others could
  // put tuples that are no tasks where it looks for tasks, and each would come again whenever it
  // gives it back.
  static bool TakesTasksOnly(const ClientState& client, const Pattern& pattern) {
    return client.limits.borrow_us != kForeverUs && !pattern.AsExactKey();
  }
  ByAge& Among(bool whole_keys) { return whole_keys ? whole_keys_ : patterns_; }
  std::optional<RequestError> MakeRoomAmong(bool whole_keys, const ClientState& client);
  // Only groups that this principal began and that no other one uses; null: any.
  bool EvictIdle(const ByAge& groups, const std::string* principal);
  // A tuple in this group that prefers the client; null: there is none.
  static Record* FirstKeptFor(const ClientState& client, const GetGroup& group);
  void Erase(GetGroup* group);
  void AddEntry(Record* record, GetGroup* group, NeedTree* tree);
  void DropEntry(TakeEntry* entry);

  SpaceState& state_;
  PatternIndex<GetGroup> groups_{state_.key_hash};       // those that take all tuples
  PatternIndex<GetGroup> task_groups_{state_.key_hash};  // GetGroup::tasks_only
  // There may be many more whole keys than patterns. Nothing that happens for each tuple visits
  // them.
  ByAge patterns_;
  ByAge whole_keys_;
  // By principal: when the cost of its new patterns is paid off.
  std::map<std::string, std::int64_t> owes_until_us_;
  std::vector<std::unique_ptr<TakeEntry>> spare_;  // to be used again: each task needs an entry
};

}  // namespace tuplespace::internal
