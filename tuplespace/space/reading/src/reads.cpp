#include "reads.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "space_refusals.h"

namespace tuplespace::internal {

namespace {

std::optional<RequestError> ProblemOfPatterns(std::span<const Pattern> patterns) {
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (const auto problem = patterns[i].Problem()) {
      return Bad("pattern " + std::to_string(i) + " of " + std::to_string(patterns.size()) + ": " +
                 *problem);
    }
  }
  return std::nullopt;
}

std::optional<RequestError> ProblemOfRead(const Read& read, std::uint64_t most) {
  if (read.patterns.empty()) return Bad("a Read of no patterns");
  if (read.patterns.size() > most) {
    return TooLarge("patterns in one Read", read.patterns.size(), "tuples_per_request", most);
  }
  if (read.wait_us < 0) {
    return Bad("wait_us " + std::to_string(read.wait_us) + ", must not be negative");
  }
  return ProblemOfPatterns(read.patterns);
}

}  // namespace

void Reads::Handle(ClientState& client, RequestId id, Read&& read) {
  if (auto problem = ProblemOfRead(read, state_.MostOfRequest(client))) {
    return state_.answers.Refuse(*client.id, id, std::move(*problem));
  }
  if (client.reads.contains(id) || client.gets.contains(id)) {
    return state_.answers.Refuse(
        *client.id, id,
        {ErrorCode::kBadRequest,
         "request id " + std::to_string(id) + " is that of an open request, must be a new one"});
  }
  auto waiter = std::make_unique<ReadWaiter>();
  waiter->client = &client;
  waiter->id = id;
  waiter->all = read.all;
  waiter->metadata_only = read.metadata_only;
  waiter->in_space = read.in_space;
  waiter->direct = read.direct;
  waiter->wanted.reserve(read.patterns.size());
  for (Pattern& pattern : read.patterns) {
    if (auto key = pattern.AsExactKey()) {
      waiter->wanted.emplace_back(*std::move(key));
    } else {
      waiter->wanted.emplace_back(std::move(pattern));
    }
  }
  const bool satisfied = IsSatisfied(*waiter);
  if (waiter->too_broad) return RefuseBroad(*waiter);
  if (!satisfied && read.wait_us > 0) {
    waiter->use = ReadRoom::UseOf(*waiter);
    if (auto busy = room_.CheckRoom(client, waiter->use, read_groups_.size())) {
      return state_.answers.Refuse(*client.id, id, std::move(*busy));
    }
  }
  ++state_.counters.reads;
  if (satisfied || read.wait_us == 0) {
    Found found = Collect(*waiter);
    found.timed_out = !satisfied;
    return state_.answers.Answer(client, id, std::move(found));
  }
  StartWaiting(std::move(waiter), read.wait_us);
}

void Reads::StartWaiting(std::unique_ptr<ReadWaiter> waiter, std::int64_t wait_us) {
  ClientState& client = *waiter->client;
  waiter->sequence = state_.next_sequence++;
  waiter->looks_left = state_.limits.examined_without_match * (waiter->wanted.size() + 1);
  if (waiter->all) {  // asks for all resident payloads at once, not one after the other
    std::uint64_t budget = state_.limits.examined_by_read;
    for (std::size_t i = waiter->cursor + 1; i < waiter->wanted.size(); ++i) {
      FindFirst(waiter->wanted[i], *waiter, &budget);
    }
  }
  Watch(*waiter);
  if (wait_us != kForeverUs) state_.deadlines.Set(&waiter->deadline, state_.After(wait_us));
  room_.Take(client, waiter->use);
  const RequestId id = waiter->id;
  client.reads.emplace(id, std::move(waiter));
  ++state_.gauges.open_reads;
}

void Reads::RefuseBroad(const ReadWaiter& waiter) {
  state_.answers.Refuse(
      *waiter.client->id, waiter.id,
      {ErrorCode::kTooLarge, "limits.examined_by_read: more than " +
                                 std::to_string(state_.limits.examined_by_read) +
                                 " tuples would have to be examined for this Read: its patterns "
                                 "must be more specific in their first fields"});
}

// Tuples that come and go must not make the space examine a Read for ever: sending it again costs
// the client work.
void Reads::RefuseRestless(const ReadWaiter& waiter) {
  const std::size_t patterns = waiter.wanted.size();
  state_.answers.Refuse(
      *waiter.client->id, waiter.id,
      {ErrorCode::kBusy, "limits.examined_without_match: tuples came and went while this Read of " +
                             std::to_string(patterns) +
                             " patterns waited, and it was checked in vain more than " +
                             std::to_string(state_.limits.examined_without_match * (patterns + 1)) +
                             " times: send it again"});
}

Record* Reads::FindFirst(const WantedPattern& wanted, const ReadWaiter& waiter,
                         std::uint64_t* budget) {
  ++examined_;
  if (const auto* key = std::get_if<Key>(&wanted)) {
    Record* record = state_.store.Find(key->bytes());
    if (record == nullptr || !record->stored()) return nullptr;
    if (Readable(*record, waiter)) return record;
    Ask(record, *waiter.client);
    return nullptr;
  }
  Record* first = nullptr;
  Record* elsewhere = nullptr;
  std::string next;
  const std::uint64_t before = *budget;
  const bool ended =
      state_.store.ScanSome(std::get<Pattern>(wanted), budget, &next, [&](Record* record) {
        if (Readable(*record, waiter)) {
          first = record;
        } else if (elsewhere == nullptr) {
          elsewhere = record;
        }
        return first == nullptr;
      });
  examined_ += before - *budget;
  assert(ended || *budget == 0);
  // One payload is enough.
  if (ended && first == nullptr && elsewhere != nullptr) Ask(elsewhere, *waiter.client);
  return first;
}

// A maker that does not supply in time what it was asked for loses it. A client that leaves nothing
// may read any key that it can guess. It must not cause that for payloads that no task needs yet.
void Reads::Ask(Record* record, const ClientState& reader) {
  if (record->residence->asked == Asked::kNeeded) return;
  if (!reader.limits.leaves_nothing || HasTaskWith(reader, *record)) {
    residency_.Want(record);
  } else {
    residency_.WantAhead(record);
  }
}

bool Reads::HasTaskWith(const ClientState& reader, const Record& input) {
  for (const Lease* lease = reader.leases.first(); lease != nullptr; lease = lease->next) {
    const Record& record = *lease->deadline.record;
    if (!record.task) continue;
    const std::vector<InputLink>& links = record.task->links;
    examined_links_ += links.size();
    if (std::any_of(links.begin(), links.end(),
                    [&](const InputLink& link) { return link.input == &input; })) {
      return true;
    }
  }
  return false;
}

// A payload that stays with another client is not readable yet.
bool Reads::Readable(const Record& record, const ReadWaiter& waiter) const {
  if (!record.residence) return true;
  if (waiter.metadata_only) return !waiter.in_space;
  return record.residence->with == waiter.client || IsPlaced(record, waiter);
}

// Whether the answer has the tuple's place, from which the client fetches the payload.
bool Reads::IsPlaced(const Record& record, const ReadWaiter& waiter) const {
  return waiter.direct && !waiter.metadata_only && residency_.IsPlaced(record, *waiter.client);
}

bool Reads::IsSatisfied(ReadWaiter& waiter) {
  const std::size_t count = waiter.wanted.size();
  std::uint64_t budget = state_.limits.examined_by_read;
  const auto found = [&](std::size_t i) {
    return FindFirst(waiter.wanted[i], waiter, &budget) != nullptr;
  };
  bool satisfied = false;
  if (waiter.all) {
    // Starts at the cursor, as matches found before are usually still there.
    const std::size_t begin = waiter.cursor;
    while (waiter.cursor < count && found(waiter.cursor)) ++waiter.cursor;
    if (waiter.cursor == count && begin > 0) {
      waiter.cursor = 0;
      while (waiter.cursor < count && found(waiter.cursor)) ++waiter.cursor;
    }
    satisfied = waiter.cursor == count;
  } else {
    for (std::size_t i = 0; i < count && !satisfied; ++i) satisfied = found(i);
  }
  waiter.too_broad = !satisfied && budget == 0;
  return satisfied;
}

// One match is enough, and there was none before.
bool Reads::IsSatisfiedBy(ReadWaiter& waiter, std::span<const ReadWatch* const> of_fresh) {
  std::uint64_t budget = state_.limits.examined_by_read;
  const bool satisfied = std::any_of(of_fresh.begin(), of_fresh.end(), [&](const ReadWatch* watch) {
    const auto at = static_cast<std::size_t>(watch - waiter.watches.data());
    return FindFirst(waiter.wanted[at], waiter, &budget) != nullptr;
  });
  waiter.too_broad = !satisfied && budget == 0;
  return satisfied;
}

Found Reads::Collect(const ReadWaiter& waiter) {
  Found found;
  std::uint64_t budget = 2 * state_.limits.examined_by_read;  // finds again what was found before
  for (const WantedPattern& wanted : waiter.wanted) {
    const Record* record = FindFirst(wanted, waiter, &budget);
    if (record == nullptr) continue;
    FoundTuple& tuple = found.tuples.emplace_back();
    if (IsPlaced(*record, waiter)) {
      state_.CopyPlaced(*record, &tuple);
    } else {
      state_.Copy(*record, waiter.metadata_only, &tuple);
    }
  }
  return found;
}

void Reads::Watch(ReadWaiter& waiter) {
  assert(waiter.watches.empty());
  const std::size_t begin = waiter.all ? waiter.cursor : 0;
  const std::size_t end = waiter.all ? begin + 1 : waiter.wanted.size();
  assert(end <= waiter.wanted.size());
  waiter.watches = std::vector<ReadWatch>(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    ReadWatch& watch = waiter.watches[i - begin];
    const WantedPattern& wanted = waiter.wanted[i];
    watch.waiter = &waiter;
    if (const auto* key = std::get_if<Key>(&wanted)) {
      watch.record = state_.store.FindOrAdd(*key);
      watch.record->watches.PushBack(&watch);
      continue;
    }
    const auto& pattern = std::get<Pattern>(wanted);
    watch.group = read_groups_.Find(pattern);
    if (watch.group == nullptr) {
      watch.group = read_groups_.Add(std::make_unique<ReadGroup>(ReadGroup{pattern, {}}));
    }
    watch.group->watches.PushBack(&watch);
  }
}

void Reads::Unwatch(ReadWaiter& waiter) {
  for (ReadWatch& watch : waiter.watches) {
    if (watch.record != nullptr) {
      watch.record->watches.Remove(&watch);
      state_.store.EraseIfUnused(watch.record);
    } else {
      watch.group->watches.Remove(&watch);
      if (watch.group->watches.empty()) read_groups_.Remove(watch.group);
    }
  }
  waiter.watches.clear();
}

// A Read that begins to wait in the same event looks at what is there first.
void Reads::NoteFresh(Record* record) {
  if (record->watches.empty() && read_groups_.empty()) return;
  ++record->pins;
  fresh_.push_back(record);
}

// The watches of tuples that came with this event, grouped by Read, the oldest Read first.
std::vector<const ReadWatch*> Reads::WatchesOfFresh() const {
  std::vector<const ReadWatch*> woken;
  const auto wake = [&woken](const IntrusiveList<ReadWatch>& watches) {
    for (const ReadWatch* watch = watches.first(); watch != nullptr; watch = watch->next) {
      woken.push_back(watch);
    }
  };
  for (Record* record : fresh_) {
    wake(record->watches);
    if (record->stored()) {
      read_groups_.ForEachMatch(record->key.bytes(), [&](const ReadGroup* group) {
        wake(group->watches);
        return true;
      });
    }
  }
  std::sort(woken.begin(), woken.end(), [](const ReadWatch* a, const ReadWatch* b) {
    return a->waiter != b->waiter ? a->waiter->sequence < b->waiter->sequence : a < b;
  });
  woken.erase(std::unique(woken.begin(), woken.end()), woken.end());
  return woken;
}

void Reads::WakeAll() {
  if (fresh_.empty()) return;
  const std::vector<const ReadWatch*> woken = WatchesOfFresh();
  for (auto first = woken.begin(); first != woken.end();) {
    ReadWaiter* waiter = (*first)->waiter;
    const auto last = std::find_if(
        first, woken.end(), [waiter](const ReadWatch* watch) { return watch->waiter != waiter; });
    Wake(waiter, {first, last});
    first = last;
  }
  for (Record* record : fresh_) {
    --record->pins;
    state_.store.EraseIfUnused(record);
  }
  fresh_.clear();
}

// `of_fresh`: those watches of the Read for which a tuple came; not empty.
void Reads::Wake(ReadWaiter* waiter, std::span<const ReadWatch* const> of_fresh) {
  const std::uint64_t before = examined_;
  const bool satisfied = waiter->all ? IsSatisfied(*waiter) : IsSatisfiedBy(*waiter, of_fresh);
  const std::uint64_t looks = examined_ - before;
  if (satisfied) return End(waiter, false);
  if (waiter->too_broad) {
    RefuseBroad(*waiter);
    return Forget(waiter);
  }
  if (looks > waiter->looks_left) {
    RefuseRestless(*waiter);
    return Forget(waiter);
  }
  waiter->looks_left -= looks;
  if (!waiter->all) return;  // it watches all its patterns
  Unwatch(*waiter);
  Watch(*waiter);
}

void Reads::End(ReadWaiter* waiter, bool timed_out) {
  Found found = Collect(*waiter);
  found.timed_out = timed_out;
  state_.answers.Answer(*waiter->client, waiter->id, std::move(found));
  Forget(waiter);
}

void Reads::Forget(ReadWaiter* waiter) {
  ClientState& client = *waiter->client;
  Unwatch(*waiter);
  state_.deadlines.Clear(&waiter->deadline);
  --state_.gauges.open_reads;
  room_.GiveBack(client, waiter->use);
  client.reads.erase(waiter->id);
}

void Reads::ForgetAllOf(ClientState& client) {
  for (auto& [id, waiter] : client.reads) {
    Unwatch(*waiter);
    state_.deadlines.Clear(&waiter->deadline);
    room_.GiveBack(client, waiter->use);
  }
  state_.gauges.open_reads -= client.reads.size();
  client.reads.clear();
}

}  // namespace tuplespace::internal
