#include "matcher.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace tuplespace::internal {

namespace {

// A task prefers at most this many holders of its affinity input, in the order in which they were
// added. More would make its placement cost as much as there are clients.
constexpr std::size_t kMaxPreferredHolders = 8;
constexpr std::size_t kMaxExaminedHolders = 64;

constexpr std::uint64_t kUsualGrants = 16;  // of one Get that asks for many

// Everything except which clients may get it and what it makes.
void ShowToTaker(const TaskSpec& spec, TaskSpec* shown) {
  shown->inputs = spec.inputs;
  shown->need_bytes = spec.need_bytes;
  shown->priority = spec.priority;
  shown->lease_us = spec.lease_us;
  shown->affinity = spec.affinity;
}

// How many tuples a grant of this one names.
std::uint64_t GrantedTuples(const Record& record) {
  return 1 + (record.task ? record.task->links.size() : 0);
}

}  // namespace

void Matcher::Match() {
  if (ready_.empty()) return;
  ready_.PlaceAll([this](Record* record) { Place(record); });
  // Every waiting Get got its first tuple before any gets a second.
  for (GetWaiter* waiter : answering_) {
    Fill(waiter->taker);
    groups_.EndGet(waiter);
  }
  answering_.clear();
}

void Matcher::Place(Record* record) {
  assert(record->placement == Placement::kNone && record->entries.empty());
  if (record->residence) {  // no client can take it before its payload is here
    record->placement = Placement::kFree;
    return;
  }
  FindCandidates(record, &candidates_);
  const Candidates& candidates = candidates_;
  record->placement = Placement::kFree;
  if (record->task) {
    TaskState& task = *record->task;
    const std::int64_t late_us = task.ready_since_us + StealAfterUs(task, candidates);
    if (state_.now_us < task.barred_until_us) {
      record->placement = Placement::kBarred;
      if (task.judge) state_.barred.Add(task.judge->name, task.barred);
      state_.deadlines.Set(&task.ready_timer, task.barred_until_us);
    } else if (!candidates.holders.empty() && state_.now_us < late_us) {
      record->placement = Placement::kReserved;
      state_.deadlines.Set(&task.ready_timer, late_us);
    } else if (!candidates.holders.empty()) {
      record->placement = Placement::kLate;
    }
  }
  if (candidates.groups.empty()) return;  // as for most tuples that are no tasks
  GetWaiter* waiter = BestWaiter(*record, candidates);
  if (waiter == nullptr) return groups_.Enter(record, candidates);
  waiter->taker.group->waiters.Erase(waiter);
  Take(waiter->taker, record);
  answering_.push_back(waiter);
}

// A client that steals a task needs the tuple that the holders have. If that takes long to travel,
// waiting for a holder is cheaper. The nearest holder counts. The task does not wait for holders
// that are idle without an open Get, that are untried, or that are benched, because any client can
// claim to hold a tuple.
std::int64_t Matcher::StealAfterUs(const TaskState& task, const Candidates& candidates) const {
  const SpaceLimits& limits = state_.limits;
  const auto works = [](const ClientState& holder) {
    return !holder.gets.empty() || holder.lease_count > 0;
  };
  if (candidates.is_named) {
    const ClientState& named = *candidates.holders.front();
    const std::int64_t kept_us =
        named_waits_.KeptUs(named, NameOf(task.judge), task.spec.prefer_us);
    return works(named) ? std::max(limits.steal_after_us, kept_us) : limits.steal_after_us;
  }
  std::optional<std::uint64_t> ns_per_kib;
  for (const ClientState* holder : candidates.holders) {
    const bool is_tried = holder->untried_of == nullptr && !benches_.IsBenched(*holder);
    if (!is_tried || !works(*holder)) continue;
    ns_per_kib = std::min<std::uint64_t>(ns_per_kib.value_or(UINT64_MAX), holder->ns_per_kib);
  }
  if (ns_per_kib.value_or(0) == 0) return limits.steal_after_us;
  constexpr std::uint64_t kMaxBytes = 1 << 30;
  const Record& input = *task.links[task.spec.affinity].input;
  const std::uint64_t bytes = input.residence ? input.residence->bytes : input.payload.size();
  const std::uint64_t leaves_us = std::min(bytes, kMaxBytes) * *ns_per_kib / 1024 / 1000;
  // A payload that stays with its holder comes through the broker, whose links are no faster,
  // unless the holder listens.
  const bool twice = input.residence && !input.residence->with->listens;
  const std::uint64_t travels_us = twice ? 2 * leaves_us : leaves_us;
  const auto most = static_cast<std::uint64_t>(limits.most_steal_after_us);
  return std::max(limits.steal_after_us, static_cast<std::int64_t>(std::min(travels_us, most)));
}

// The client that the task prefers by name, if it could take the task.
ClientState* Matcher::NamedIn(const Record& record, const Candidates& candidates) const {
  const TaskSpec& spec = record.task->spec;
  if (spec.prefers.empty() || IsAmong(spec.not_by, spec.prefers)) return nullptr;
  const auto at = state_.clients.find(spec.prefers);
  if (at == state_.clients.end() || benches_.IsBenchedFor(*at->second, record)) return nullptr;
  // Otherwise tasks that it cannot take would count as tasks for which it did not come.
  if (at->second->most_offered_bytes < spec.need_bytes) return nullptr;
  const bool asks =
      std::any_of(candidates.groups.begin(), candidates.groups.end(),
                  [&](const GetGroup* group) { return group->users.contains(at->second.get()); });
  return asks ? at->second.get() : nullptr;
}

void Matcher::FindCandidates(Record* record, Candidates* found) const {
  Candidates& candidates = *found;
  candidates.groups.clear();
  candidates.holders.clear();
  candidates.is_named = false;
  groups_.ForEachMatch(*record, [&](GetGroup* group) {
    candidates.groups.push_back(group);
    return true;
  });
  if (!record->task) return;
  if (ClientState* named = NamedIn(*record, candidates)) {
    candidates.holders.push_back(named);
    candidates.is_named = true;
    return;
  }
  if (record->task->spec.affinity < 0) return;
  const Record* input = record->task->links[record->task->spec.affinity].input;
  std::size_t examined = 0;
  for (const Holding* holding = input->holders.first();
       holding != nullptr && examined < kMaxExaminedHolders &&
       candidates.holders.size() < kMaxPreferredHolders;
       holding = holding->next, ++examined) {
    const bool uses =
        std::any_of(candidates.groups.begin(), candidates.groups.end(),
                    [&](const GetGroup* group) { return group->users.contains(holding->client); });
    if (uses && !IsAmong(record->task->spec.not_by, *holding->client->id))
      candidates.holders.push_back(holding->client);
  }
}

GetWaiter* Matcher::BestWaiter(const Record& record, const Candidates& candidates) const {
  GetWaiter* best = nullptr;
  const auto consider = [&best](GetWaiter* waiter) {
    if (best == nullptr || ByOffer{}(waiter, best)) best = waiter;
  };
  const std::uint64_t need_bytes = record.need_bytes();
  const bool prefers =
      record.placement == Placement::kReserved || record.placement == Placement::kLate;
  if (prefers) {
    for (ClientState* holder : candidates.holders) {
      if (benches_.IsBenchedFor(*holder, record)) continue;
      for (auto& [id, waiter] : holder->gets) {
        const bool waits = waiter.taker.got.grants.empty();  // otherwise it is being answered
        if (waits && waiter.taker.offer_bytes >= need_bytes &&
            candidates.Contains(waiter.taker.group)) {
          consider(&waiter);
        }
      }
    }
    if (best != nullptr || record.placement == Placement::kReserved) return best;
  }
  Waiters::Skips skips;
  if (record.judge()) {
    skips = [&](const ClientState& client) { return benches_.IsBenchedFor(client, record); };
  }
  for (const GetGroup* group : candidates.groups) {
    GetWaiter* waiter = group->waiters.First(need_bytes, record.barred(), nullptr, skips);
    if (waiter != nullptr) consider(waiter);
  }
  return best;
}

// How many tuples a Get may take now.
std::uint64_t Matcher::PartOf(const Taker& taker) const {
  const std::uint64_t most_leases = taker.client->limits.leases;
  const std::uint64_t left = most_leases - std::min(taker.client->lease_count, most_leases);
  const std::uint64_t most =
      std::min<std::uint64_t>(taker.max_count, taker.got.grants.size() + left);
  if (trust_.IsOnProbation(*taker.client)) return std::min<std::uint64_t>(most, 1);
  if (!taker.share) return most;
  const std::uint64_t ready = state_.gauges.tasks_ready + taker.got.grants.size();
  const std::uint64_t part = ready / (2 * std::max<std::uint64_t>(1, taker.group->users.size()));
  return std::min(std::max<std::uint64_t>(part, 1), most);
}

// Whether the answer to this Get can still be sent with this tuple in it.
bool Matcher::HasRoomFor(const Taker& taker, const Record& record) const {
  if (taker.got.grants.empty()) return true;
  return taker.tuples + GrantedTuples(record) <= state_.limits.granted_tuples &&
         taker.key_bytes + record.key_bytes <= state_.limits.granted_key_bytes;
}

void Matcher::Fill(Taker& taker) {
  for (const std::uint64_t most = PartOf(taker); taker.got.grants.size() < most;) {
    Record* record = groups_.NextFor(taker);
    if (record == nullptr || !HasRoomFor(taker, *record)) return;
    taker.got.grants.reserve(std::min(most, kUsualGrants));
    Take(taker, record);
    if (trust_.IsOnProbation(*taker.client, NameOf(record->judge()))) return;
  }
}

// `taker` takes a task that may name a client.
void Matcher::NoteWhoCame(ClientState& taker, const Record& record) {
  const std::string_view judge = NameOf(record.judge());
  const ClientId& prefers = record.task->spec.prefers;
  if (prefers == *taker.id) {
    NamedWaits::NoteCame(taker, judge);
  } else if (record.placement == Placement::kLate && !prefers.empty()) {
    const auto named = state_.clients.find(prefers);
    if (named != state_.clients.end()) NamedWaits::NoteDidNotCome(*named->second, judge);
  }
}

void Matcher::LetGoOf(ClientState& client) {
  std::set<std::string> waiting;  // the judges of tasks that are reserved for it
  groups_.ForEachKeptFor(client, [&](Record* kept) {
    const bool is_named = kept->task->spec.prefers == *client.id;
    if (is_named && kept->placement == Placement::kReserved) {
      waiting.emplace(NameOf(kept->judge()));
    }
    ready_.Requeue(kept);
  });
  named_waits_.End(client, waiting);
}

void Matcher::Take(Taker& taker, Record* record) {
  assert(record->state == RecordState::kReady && !record->lease);
  assert(record->need_bytes() <= taker.offer_bytes && !taker.full());
  std::int64_t lease_us =
      std::min(leases_.OrDefaultLease(taker.lease_us), taker.client->limits.borrow_us);
  if (record->task) {
    const TaskSpec& spec = record->task->spec;
    lease_us = trust_.IsOnProbation(*taker.client) ? leases_.OrDefaultLease(spec.lease_us)
                                                   : leases_.LeaseUs(*record->task);
    ++record->task->times_taken;
    NoteWhoCame(*taker.client, *record);
    if (spec.affinity >= 0 &&
        taker.client->held.contains(record->task->links[spec.affinity].input)) {
      ++state_.counters.affinity_hits;
    } else if (record->placement == Placement::kLate) {
      ++state_.counters.steals;
    }
  }
  groups_.Withdraw(record);
  leases_.Grant(*taker.client, record, lease_us);
  ++state_.counters.grants;
  taker.offer_bytes -= record->need_bytes();
  taker.tuples += GrantedTuples(*record);
  taker.key_bytes += record->key_bytes;
  Grant& grant = taker.got.grants.emplace_back();
  grant.lease_us = lease_us;
  FillGrant(taker, record, &grant);
  if (record->task && !record->judge() && taker.client->untried_of != nullptr) {
    trust_.BeginTrial(*taker.client, *record, lease_us);
  }
}

void Matcher::FillGrant(const Taker& taker, Record* record, Grant* filled) {
  Grant& grant = *filled;
  grant.key = record->key;
  grant.payload = record->payload;
  grant.fence = record->lease->fence;
  state_.counters.bytes_out += record->payload.size();
  if (!record->task) return;
  ShowToTaker(record->task->spec, &grant.task.emplace());
  if (!taker.with_inputs) return;
  grant.inputs.reserve(record->task->links.size());
  grant.input_sent.reserve(record->task->links.size());
  // The taker has no memory for more. It sees the size of an input that is not sent.
  const std::uint64_t need_bytes = record->need_bytes();
  std::uint64_t room = need_bytes > 0 ? need_bytes : UINT64_MAX;
  for (const InputLink& link : record->task->links) {
    const bool held = taker.client->held.contains(link.input);
    const bool placed = !held && taker.direct && residency_.IsPlaced(*link.input, *taker.client);
    const bool sent =
        !held && !placed && !link.input->residence && link.input->payload.size() <= room;
    if (sent) room -= link.input->payload.size();
    if (!held && !placed && link.input->residence) residency_.Want(link.input);
    FoundTuple& input = grant.inputs.emplace_back();
    if (placed) {
      state_.CopyPlaced(*link.input, &input);
      record->lease->placed_bytes += input.payload_bytes;
    } else if (sent) {
      state_.Copy(*link.input, /*metadata_only=*/false, &input);
    } else {
      SpaceState::Mention(*link.input, &input);
    }
    grant.input_sent.push_back(sent);
    // Clients declare themselves which tiles they hold, as the placement of tasks depends on tiles.
    const bool keeps = taker.client->ns_per_kib > 0 && link.input->affine.empty();
    if (sent && keeps && link.input->payload.size() >= taker.client->holds_from_bytes) {
      holders_.Add(*taker.client, link.input);
    }
  }
}

}  // namespace tuplespace::internal
