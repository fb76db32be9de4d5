// Who gets what. A takable tuple goes to a Get that waits for it, or is entered into the trees of
// the groups whose patterns match it, where the next Get finds it in O(log n).
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

namespace {

// A task prefers at most so many holders of its affinity input: those that said so first. More
// would make its placing cost as much as there are clients.
constexpr std::size_t kMaxPreferredHolders = 8;
constexpr std::size_t kMaxHoldersLookedAt = 64;

// All but `not_by` and `results`.
TaskSpec ShownToTaker(const TaskSpec& spec) {
  return {.inputs = spec.inputs,
          .need_bytes = spec.need_bytes,
          .priority = spec.priority,
          .lease_us = spec.lease_us,
          .affinity = spec.affinity};
}

bool Contains(const std::vector<ClientId>& sorted, const ClientId& id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

}  // namespace

void Space::Impl::MakeTakable(Record* record) {
  assert(!record->lease);
  if (record->task) {
    assert(record->task->missing == 0);
    record->task->ready_since_us = now_us_;
  }
  SetState(record, RecordState::kTakable);
  QueueForPlacing(record);
}

void Space::Impl::QueueForPlacing(Record* record) {
  assert(record->entries.empty());
  if (record->queued) return;
  record->queued = true;
  ++record->pins;
  unplaced_.push_back(record);
}

void Space::Impl::Requeue(Record* record) {
  if (record->state != RecordState::kTakable || record->queued) return;
  Unplace(record);
  QueueForPlacing(record);
}

void Space::Impl::RequeueAffine(Record* input) {
  for (InputLink* link = input->affine.first(); link != nullptr; link = link->next) {
    Requeue(link->task);
  }
}

void Space::Impl::Match() {
  if (unplaced_.empty()) return;
  const auto goes_first = [](const Record* a, const Record* b) {
    if (a->priority() != b->priority()) return a->priority() < b->priority();
    if (a->need_bytes() != b->need_bytes()) return a->need_bytes() > b->need_bytes();
    return a->sequence < b->sequence;
  };
  std::sort(unplaced_.begin(), unplaced_.end(), goes_first);
  const std::size_t count = unplaced_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Record* record = unplaced_[i];
    record->queued = false;
    --record->pins;
    if (record->state == RecordState::kTakable) Place(record);
    store_.EraseIfUnused(record);
  }
  assert(unplaced_.size() == count);
  unplaced_.clear();
  // Every waiting Get had its first before any gets a second.
  for (GetWaiter* waiter : answering_) {
    Fill(waiter->taker);
    EndGet(waiter);
  }
  answering_.clear();
}

void Space::Impl::Place(Record* record) {
  assert(record->placement == Placement::kNone && record->entries.empty());
  if (record->stay) {  // nobody can take it before its payload is here
    record->placement = Placement::kFree;
    return;
  }
  FindCandidates(record, &candidates_);
  const Candidates& candidates = candidates_;
  record->placement = Placement::kFree;
  if (record->task) {
    internal::TaskState& task = *record->task;
    const std::int64_t late_us = task.ready_since_us + limits_.steal_after_us;
    if (now_us_ < task.barred_until_us) {
      record->placement = Placement::kBarred;
      deadlines_.Set(&task.ready_timer, task.barred_until_us);
    } else if (!candidates.holders.empty() && now_us_ < late_us) {
      record->placement = Placement::kReserved;
      deadlines_.Set(&task.ready_timer, late_us);
    } else if (!candidates.holders.empty()) {
      record->placement = Placement::kLate;
    }
  }
  GetWaiter* waiter = BestWaiter(*record, candidates);
  if (waiter == nullptr) return Enter(record, candidates);
  waiter->taker.group->waiters.erase(waiter);
  Take(waiter->taker, record);
  answering_.push_back(waiter);
}

void Space::Impl::FindCandidates(Record* record, Candidates* found) const {
  Candidates& candidates = *found;
  candidates.groups.clear();
  candidates.holders.clear();
  get_groups_.ForEachMatch(record->key.bytes(), [&](GetGroup* group) {
    candidates.groups.push_back(group);
    return true;
  });
  if (!record->task || record->task->spec.affinity < 0) return;
  const Record* input = record->task->links[record->task->spec.affinity].input;
  std::size_t looked_at = 0;
  for (const internal::Holding* holding = input->holders.first();
       holding != nullptr && looked_at < kMaxHoldersLookedAt &&
       candidates.holders.size() < kMaxPreferredHolders;
       holding = holding->next, ++looked_at) {
    const bool uses =
        std::any_of(candidates.groups.begin(), candidates.groups.end(),
                    [&](const GetGroup* group) { return group->users.contains(holding->client); });
    if (uses && !Contains(record->task->spec.not_by, *holding->client->id))
      candidates.holders.push_back(holding->client);
  }
}

Space::Impl::GetWaiter* Space::Impl::BestWaiter(const Record& record,
                                                const Candidates& candidates) const {
  GetWaiter* best = nullptr;
  const auto consider = [&best](GetWaiter* waiter) {
    if (best == nullptr || internal::ByOffer{}(waiter, best)) best = waiter;
  };
  const std::uint64_t need_bytes = record.need_bytes();
  const bool prefers =
      record.placement == Placement::kReserved || record.placement == Placement::kLate;
  if (prefers) {
    for (Client* holder : candidates.holders) {
      if (IsBenched(*holder)) continue;
      for (auto& [id, waiter] : holder->gets) {
        const bool waits = waiter.taker.got.grants.empty();  // else it is being answered
        if (waits && waiter.taker.offer_bytes >= need_bytes &&
            candidates.Contains(waiter.taker.group)) {
          consider(&waiter);
        }
      }
    }
    if (best != nullptr || record.placement == Placement::kReserved) return best;
  }
  for (const GetGroup* group : candidates.groups) {
    for (auto at = group->waiters.lower_bound(need_bytes); at != group->waiters.end(); ++at) {
      if (Contains(record.barred(), *(*at)->taker.client->id)) continue;
      consider(*at);
      break;
    }
  }
  return best;
}

void Space::Impl::Enter(Record* record, const Candidates& candidates) {
  const std::vector<ClientId>& barred = record->barred();
  for (GetGroup* group : candidates.groups) {
    switch (record->placement) {
      case Placement::kFree:
      case Placement::kBarred:
        AddEntry(record, group, barred.empty() ? &group->free : &group->free_but[barred]);
        continue;
      case Placement::kLate:
        AddEntry(record, group, barred.empty() ? &group->late : &group->late_but[barred]);
        break;
      case Placement::kReserved:
        break;
      case Placement::kNone:
        assert(false);
    }
    for (const Client* holder : candidates.holders) {
      AddEntry(record, group, &group->preferred[holder]);
      record->entries.back()->preferred_by = holder;
    }
  }
}

void Space::Impl::AddEntry(Record* record, GetGroup* group, internal::NeedTree* tree) {
  auto entry = std::make_unique<TakeEntry>();
  entry->record = record;
  entry->group = group;
  entry->priority = record->priority();
  entry->need_bytes = record->need_bytes();
  entry->sequence = record->sequence;
  tree->Insert(entry.get());
  record->entries.push_back(std::move(entry));
}

void Space::Impl::DropEntry(TakeEntry* entry) {
  Record* record = entry->record;
  GetGroup* group = entry->group;
  internal::NeedTree* tree = entry->tree;
  tree->Erase(entry);
  if (tree->empty() && entry->preferred_by != nullptr) {
    group->preferred.erase(entry->preferred_by);
  } else if (tree->empty() && tree != &group->free && tree != &group->late) {
    for (auto* trees : {&group->free_but, &group->late_but}) {
      std::erase_if(*trees, [](const auto& item) { return item.second.empty(); });
    }
  }
  const auto at = std::find_if(record->entries.begin(), record->entries.end(),
                               [&](const auto& owned) { return owned.get() == entry; });
  assert(at != record->entries.end());
  record->entries.erase(at);
}

void Space::Impl::Unplace(Record* record) {
  while (!record->entries.empty()) DropEntry(record->entries.back().get());
  if (record->task) deadlines_.Clear(&record->task->ready_timer);
  record->placement = Placement::kNone;
}

Space::Impl::Record* Space::Impl::NextFor(const Taker& taker) const {
  const GetGroup& group = *taker.group;
  if (const auto own = group.preferred.find(taker.client); own != group.preferred.end()) {
    if (const TakeEntry* entry = own->second.FirstThatFits(taker.offer_bytes)) return entry->record;
  }
  const auto first = [&taker](const internal::NeedTree& all, const auto& but) {
    const TakeEntry* best = all.FirstThatFits(taker.offer_bytes);
    for (const auto& [barred, tree] : but) {
      if (Contains(barred, *taker.client->id)) continue;
      const TakeEntry* entry = tree.FirstThatFits(taker.offer_bytes);
      if (entry != nullptr && (best == nullptr || entry->Before(*best))) best = entry;
    }
    return best;
  };
  const TakeEntry* best = first(group.free, group.free_but);
  if (best == nullptr) best = first(group.late, group.late_but);
  return best != nullptr ? best->record : nullptr;
}

// How many a Get may take now.
std::uint64_t Space::Impl::PartOf(const Taker& taker) const {
  const std::uint64_t most_leases = taker.client->limits.leases;
  const std::uint64_t left = most_leases - std::min(taker.client->lease_count, most_leases);
  const std::uint64_t most =
      std::min<std::uint64_t>(taker.max_count, taker.got.grants.size() + left);
  if (IsOnProbation(*taker.client)) return std::min<std::uint64_t>(most, 1);
  if (!taker.share) return most;
  const std::uint64_t ready = gauges_.tasks_ready + taker.got.grants.size();
  const std::uint64_t part = ready / (2 * std::max<std::uint64_t>(1, taker.group->users.size()));
  return std::min(std::max<std::uint64_t>(part, 1), most);
}

void Space::Impl::Fill(Taker& taker) {
  for (const std::uint64_t most = PartOf(taker); taker.got.grants.size() < most;) {
    Record* record = NextFor(taker);
    if (record == nullptr) return;
    Take(taker, record);
  }
}

void Space::Impl::Take(Taker& taker, Record* record) {
  assert(record->state == RecordState::kTakable && !record->lease);
  assert(record->need_bytes() <= taker.offer_bytes && !taker.full());
  std::int64_t lease_us = OrDefaultLease(taker.lease_us);
  if (record->task) {
    const TaskSpec& spec = record->task->spec;
    lease_us =
        IsOnProbation(*taker.client) ? OrDefaultLease(spec.lease_us) : LeaseUs(*record->task);
    ++record->task->times_taken;
    if (spec.affinity >= 0 &&
        taker.client->held.contains(record->task->links[spec.affinity].input)) {
      ++counters_.affinity_hits;
    } else if (record->placement == Placement::kLate) {
      ++counters_.steals;
    }
  }
  Unplace(record);
  record->lease = std::make_unique<internal::Lease>(record);
  record->lease->client = taker.client;
  record->lease->fence = next_fence_++;
  if (IsPlanted(Planted::kFenceIsGivenTwice) && next_fence_ % 16 == 0) --next_fence_;
  record->lease->granted_us = now_us_;
  deadlines_.Set(&record->lease->deadline, After(lease_us));
  taker.client->leases.PushBack(record->lease.get());
  ++taker.client->lease_count;
  SetState(record, RecordState::kLeased);
  ++counters_.grants;
  taker.offer_bytes -= record->need_bytes();
  Grant& grant = taker.got.grants.emplace_back();
  grant.lease_us = lease_us;
  FillGrant(taker, record, &grant);
  if (record->task && taker.client->untried_of != nullptr) {
    BeginTrial(*taker.client, *record, lease_us);
  }
}

void Space::Impl::FillGrant(const Taker& taker, Record* record, Grant* filled) {
  Grant& grant = *filled;
  grant.key = record->key;
  grant.payload = record->payload;
  grant.fence = record->lease->fence;
  counters_.bytes_out += record->payload.size();
  if (!record->task) return;
  grant.task = ShownToTaker(record->task->spec);
  if (!taker.with_inputs) return;
  for (const InputLink& link : record->task->links) {
    const bool held = taker.client->held.contains(link.input);
    const bool sent = !held && !link.input->stay;
    if (!held && !sent) Want(link.input);
    grant.inputs.push_back(Copy(*link.input, !sent));
    grant.input_sent.push_back(sent);
  }
}

}  // namespace tuplespace
