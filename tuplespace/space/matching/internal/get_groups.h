// GetGroups: groups the waiting Gets by pattern. Each group indexes the ready tuples that match its
// pattern, so that the next Get finds one in O(log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
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
  // Why this client may not add a new pattern now. May remove groups without waiting Gets to make
  // room.
  std::optional<RequestError> MakeRoomFor(const ClientState& client);
  // A new group, without any tuples yet.
  // REQUIRES: Find(client, pattern) is null, and MakeRoomFor(client) has just found nothing.
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
  const std::map<std::uint64_t, GetGroup*>& by_age() const { return by_age_; }
  void ForgetUser(const ClientState& client);
  Record* AnyKeptFor(const ClientState& client) const;  // a tuple that prefers it; null: none

  // Puts the tuple into the trees of these groups, according to its placement, where it waits for a
  // Get.
  void Enter(Record* record, const Candidates& candidates);
  // The same for one group. REQUIRES: the tuple prefers no client and is placed.
  void EnterOne(Record* record, GetGroup* group);
  void Withdraw(Record* record);  // removes it from all trees
  Record* NextFor(const Taker& taker) const;

  static void Leave(GetWaiter& waiter);  // the waiter no longer waits in its group
  void EndGet(GetWaiter* waiter);        // answers with what it has taken, and destroys it

  bool IsConsistent() const { return by_age_.size() == groups_.size() + task_groups_.size(); }

 private:
  // A client that may only borrow plain tuples gets them by whole keys only. Otherwise others could
  // put tuples that are no tasks where it looks for tasks, and each would come again whenever it
  // gives it back.
  static bool TakesTasksOnly(const ClientState& client, const Pattern& pattern) {
    return client.limits.borrow_us != kForeverUs && !pattern.AsExactKey();
  }
  // Only groups that this principal began and that no other one uses; null: any.
  bool EvictIdle(const std::string* principal);
  void Erase(GetGroup* group);
  void AddEntry(Record* record, GetGroup* group, NeedTree* tree);
  void DropEntry(TakeEntry* entry);

  SpaceState& state_;
  PatternIndex<GetGroup> groups_;       // those that take all tuples
  PatternIndex<GetGroup> task_groups_;  // GetGroup::tasks_only
  std::map<std::uint64_t, GetGroup*> by_age_;
  // By principal: when the cost of its new patterns is paid off.
  std::map<std::string, std::int64_t> owes_until_us_;
};

}  // namespace tuplespace::internal
