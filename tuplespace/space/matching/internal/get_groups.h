// GetGroups: the Gets that wait, in a group for each pattern, and the ready tuples that match it,
// where the next Get finds one in O(log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "space_pattern_index.h"
#include "space_state.h"

namespace tuplespace::internal {

// Who may take a ready tuple.
struct Candidates {
  std::vector<GetGroup*> groups;      // whose pattern matches
  std::vector<ClientState*> holders;  // of the affinity input, that use one of these groups
  bool is_named = false;              // instead the one client that TaskSpec::prefers names

  bool Contains(const GetGroup* group) const {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  }
};

class GetGroups {
 public:
  explicit GetGroups(SpaceState& state) : state_(state) {}

  GetGroup* Find(const Pattern& pattern) const { return groups_.Find(pattern); }
  // Why this client may not begin a new pattern now. Groups that nobody waits in make room for it.
  std::optional<RequestError> MakeRoomFor(const ClientState& client);
  // A new group, which no tuple has entered yet.
  // REQUIRES: Find(pattern) is null, and MakeRoomFor(client) has just found nothing.
  GetGroup* Make(const ClientState& client, const Pattern& pattern);
  // What a new pattern of this client took.
  void Charge(const ClientState& client, std::uint64_t looked_at, std::uint64_t placed);
  // Calls f(GetGroup*) for each whose pattern matches the key, until it returns false.
  template <class F>
  void ForEachMatch(std::string_view key_bytes, F f) const {
    groups_.ForEachMatch(key_bytes, f);
  }
  const std::map<std::uint64_t, GetGroup*>& by_age() const { return by_age_; }
  void ForgetUser(const ClientState& client);
  Record* AnyKeptFor(const ClientState& client) const;  // a tuple that prefers it; null: none

  // The tuple waits in the trees of these groups for a Get, as its placement says.
  void Enter(Record* record, const Candidates& candidates);
  // The same for one group alone. REQUIRES: nobody is preferred for the tuple, and it is placed.
  void EnterOne(Record* record, GetGroup* group);
  void Withdraw(Record* record);  // from all trees
  Record* NextFor(const Taker& taker) const;

  static void Leave(GetWaiter& waiter);  // the waiter waits no more in its group
  void EndGet(GetWaiter* waiter);        // answers with what it has got, and destroys it

  bool IsConsistent() const { return by_age_.size() == groups_.size(); }

 private:
  bool EvictIdle(const std::string* principal);  // of this one's; null: of all
  void Erase(GetGroup* group);
  void AddEntry(Record* record, GetGroup* group, NeedTree* tree);
  void DropEntry(TakeEntry* entry);

  SpaceState& state_;
  PatternIndex<GetGroup> groups_;
  std::map<std::uint64_t, GetGroup*> by_age_;
  std::map<std::string, std::int64_t> owes_until_us_;  // by principal, for its new patterns
};

}  // namespace tuplespace::internal
