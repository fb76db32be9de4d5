#include "get_groups.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "space_key_offences.h"
#include "space_refusals.h"

namespace tuplespace::internal {

namespace {

constexpr std::int64_t kMaxOwedUs = 1'000'000;
constexpr std::size_t kMostSpareEntries = 1024;
constexpr std::uint64_t kExaminedForPlacement = 10;  // cost of a placement, in examined tuples

// Whoever begins a pattern that others use, too, must not be able to remove it: the space would
// forget that the others take such tuples.
bool IsOnlyOf(const GetGroup& group, const std::string& principal) {
  return group.principal == principal && group.other_users == 0;
}

}  // namespace

// Every ready tuple enters each group that it matches. So a new group costs as much as the space
// holds, and makes all later tuples cost more. No client may cause that again and again.
std::optional<RequestError> GetGroups::MakeRoomFor(const ClientState& client,
                                                   const Pattern& pattern) {
  std::erase_if(owes_until_us_, [&](const auto& item) { return item.second <= state_.now_us; });
  const auto owes = owes_until_us_.find(client.principal);
  if (owes != owes_until_us_.end() && owes->second > state_.now_us + kMaxOwedUs) {
    return Busy("limits.examined_by_get_us: Gets of \"" + client.principal +
                "\" had new patterns for which too many tuples were examined; the next new one may "
                "begin in " +
                std::to_string(owes->second - kMaxOwedUs - state_.now_us) + " us");
  }
  return MakeRoomAmong(pattern.AsExactKey().has_value(), client);
}

// Nothing but one tuple can enter the group of a whole key. So there may be many of them, such as
// those of managers that each wait for another job's lead, and they take no room from the others.
std::optional<RequestError> GetGroups::MakeRoomAmong(bool whole_keys, const ClientState& client) {
  const std::string name = whole_keys ? "limits.get_keys" : "limits.get_patterns";
  const std::string different = whole_keys ? " different keys" : " different patterns";
  const std::uint64_t most_of_key =
      whole_keys ? client.limits.get_keys_of_key : client.limits.get_patterns_of_key;
  const std::uint64_t most = whole_keys ? state_.limits.get_keys : state_.limits.get_patterns;
  const ByAge& groups = Among(whole_keys);
  // Those that others use count, too: clients of two keys could otherwise begin any number of them.
  const auto own =
      static_cast<std::uint64_t>(std::count_if(groups.begin(), groups.end(), [&](const auto& item) {
        return item.second->principal == client.principal;
      }));
  if (own >= most_of_key && !EvictIdle(groups, &client.principal)) {
    return Busy(name + "_of_key: Gets of " + std::to_string(most_of_key) + different + " of \"" +
                client.principal + "\" are open, the most allowed");
  }
  if (groups.size() >= most && !EvictIdle(groups, nullptr)) {
    return Busy(name + ": Gets of " + std::to_string(most) + different +
                " are open, the most allowed");
  }
  return std::nullopt;
}

void GetGroups::Charge(const ClientState& client, std::uint64_t examined, std::uint64_t placed) {
  std::int64_t& until_us =
      owes_until_us_.try_emplace(client.principal, state_.now_us).first->second;
  until_us += static_cast<std::int64_t>(examined + kExaminedForPlacement * placed) *
              state_.limits.examined_by_get_us;
}

GetGroup* GetGroups::Make(const ClientState& client, const Pattern& pattern) {
  auto made = std::make_unique<GetGroup>();
  made->pattern = pattern;
  made->tasks_only = TakesTasksOnly(client, pattern);
  made->whole_key = pattern.AsExactKey().has_value();
  made->principal = client.principal;
  made->sequence = state_.next_sequence++;
  auto& index = made->tasks_only ? task_groups_ : groups_;
  GetGroup* group = index.Add(std::move(made));
  Among(group->whole_key).emplace(group->sequence, group);
  return group;
}

void GetGroups::ForgetUser(const ClientState& client) {
  for (const auto& [sequence, group] : patterns_) {
    const bool was_user = group->users.erase(&client) > 0;
    if (was_user && client.principal != group->principal) --group->other_users;
  }
}

Record* GetGroups::FirstKeptFor(const ClientState& client, const GetGroup& group) {
  const auto kept = group.preferred.lower_bound({&client, std::string()});
  const bool is_its = kept != group.preferred.end() && kept->first.first == &client;
  return is_its ? kept->second.root()->record : nullptr;
}

bool GetGroups::EvictIdle(const ByAge& groups, const std::string* principal) {
  GetGroup* idle = nullptr;
  for (const auto& [sequence, group] : groups) {
    if (!group->waiters.empty() || group->benched > 0) continue;
    if (principal != nullptr && !IsOnlyOf(*group, *principal)) continue;
    if (idle == nullptr || group->last_used < idle->last_used) idle = group;
  }
  if (idle == nullptr) return false;
  Erase(idle);
  return true;
}

void GetGroups::Erase(GetGroup* group) {
  assert(group->waiters.empty() && group->benched == 0);
  while (!group->free.empty()) DropEntry(group->free.root());
  while (!group->late.empty()) DropEntry(group->late.root());
  while (!group->preferred.empty()) DropEntry(group->preferred.begin()->second.root());
  for (auto* trees : {&group->free_but, &group->late_but}) {
    while (!trees->empty()) DropEntry(trees->begin()->second.root());
  }
  for (const auto& [id, client] : state_.clients) {
    if (client->last_group == group) client->last_group = nullptr;
  }
  Among(group->whole_key).erase(group->sequence);
  (group->tasks_only ? task_groups_ : groups_).Remove(group);
}

void GetGroups::EnterOne(Record* record, GetGroup* group) {
  assert(record->placement == Placement::kFree || record->placement == Placement::kBarred);
  const bool is_free = record->is_kept_from_nobody();
  AddEntry(record, group, is_free ? &group->free : &group->free_but[record->kept_from()]);
}

void GetGroups::Enter(Record* record, const Candidates& candidates) {
  const bool is_kept = !record->is_kept_from_nobody();
  const std::string judge(NameOf(record->judge()));
  for (GetGroup* group : candidates.groups) {
    switch (record->placement) {
      case Placement::kFree:
      case Placement::kBarred:
        EnterOne(record, group);
        continue;
      case Placement::kLate:
        AddEntry(record, group, is_kept ? &group->late_but[record->kept_from()] : &group->late);
        break;
      case Placement::kReserved:
        break;
      case Placement::kNone:
        assert(false);
    }
    for (const ClientState* holder : candidates.holders) {
      AddEntry(record, group, &group->preferred[{holder, judge}]);
      record->entries.back()->preferred_by = holder;
    }
  }
}

void GetGroups::AddEntry(Record* record, GetGroup* group, NeedTree* tree) {
  std::unique_ptr<TakeEntry> entry;
  if (spare_.empty()) {
    entry = std::make_unique<TakeEntry>();
  } else {
    entry = std::move(spare_.back());
    spare_.pop_back();
  }
  entry->record = record;
  entry->group = group;
  entry->preferred_by = nullptr;
  entry->priority = record->priority();
  entry->need_bytes = record->need_bytes();
  entry->sequence = record->sequence;
  entry->at = record->entries.size();
  tree->Insert(entry.get());
  record->entries.push_back(std::move(entry));
}

void GetGroups::DropEntry(TakeEntry* entry) {
  Record* record = entry->record;
  GetGroup* group = entry->group;
  NeedTree* tree = entry->tree;
  tree->Erase(entry);
  if (tree->empty() && entry->preferred_by != nullptr) {
    group->preferred.erase({entry->preferred_by, record->kept_from().judge});
  } else if (tree->empty() && tree != &group->free && tree != &group->late) {
    // Whoever may not take the tuple is the same as when the tuple entered the tree.
    const KeptFrom from = record->kept_from();
    for (auto* trees : {&group->free_but, &group->late_but}) {
      const auto at = trees->find(from);
      if (at != trees->end() && &at->second == tree) trees->erase(at);
    }
  }
  const std::size_t place = entry->at;
  assert(record->entries.at(place).get() == entry);
  std::swap(record->entries[place], record->entries.back());
  record->entries[place]->at = place;
  if (spare_.size() < kMostSpareEntries) spare_.push_back(std::move(record->entries.back()));
  record->entries.pop_back();
}

void GetGroups::Withdraw(Record* record) {
  while (!record->entries.empty()) DropEntry(record->entries.back().get());
  if (record->task) state_.deadlines.Clear(&record->task->ready_timer);
  if (record->placement == Placement::kBarred && record->judge()) {
    state_.barred.Remove(record->judge()->name, record->task->barred);
  }
  record->placement = Placement::kNone;
}

Record* GetGroups::NextFor(const Taker& taker) const {
  const GetGroup& group = *taker.group;
  const ClientState* client = taker.client;
  const TakeEntry* best = nullptr;
  const auto consider = [&](const NeedTree& tree) {
    const TakeEntry* entry = tree.FirstThatFits(taker.offer_bytes);
    if (entry != nullptr && (best == nullptr || entry->Before(*best))) best = entry;
  };
  for (auto own = group.preferred.lower_bound({client, std::string()});
       own != group.preferred.end() && own->first.first == client; ++own) {
    if (!IsBenchedBy(state_, *client, own->first.second)) consider(own->second);
  }
  if (best != nullptr) return best->record;
  const auto consider_all = [&](const NeedTree& all, const auto& but) {
    consider(all);
    for (const auto& [from, tree] : but) {
      if (IsAmong(from.barred, *client->id)) continue;
      if (!IsBenchedBy(state_, *client, from.judge)) consider(tree);
    }
  };
  consider_all(group.free, group.free_but);
  if (best == nullptr) consider_all(group.late, group.late_but);
  return best != nullptr ? best->record : nullptr;
}

void GetGroups::Leave(GetWaiter& waiter) {
  GetGroup& group = *waiter.taker.group;
  if (std::exchange(waiter.benched, false)) {
    --group.benched;
  } else {
    group.waiters.Erase(&waiter);
  }
}

void GetGroups::EndGet(GetWaiter* waiter) {
  ClientState& client = *waiter->taker.client;
  const RequestId id = waiter->id;
  Leave(*waiter);
  state_.deadlines.Clear(&waiter->deadline);
  state_.answers.Answer(client, id, std::move(waiter->taker.got));
  --state_.gauges.open_gets;
  client.gets.erase(id);
}

}  // namespace tuplespace::internal
