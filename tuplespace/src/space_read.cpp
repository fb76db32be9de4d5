// Read, List and Count. A waiting Read watches one pattern that has no match yet (or, if any match
// will do, all of them), so a put wakes only Reads that it concerns.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"

namespace tuplespace {

using internal::ReadGroup;
using internal::ReadWatch;
using internal::WantedPattern;

namespace {

std::optional<Error> ProblemOfPatterns(std::span<const Pattern> patterns) {
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (const auto problem = patterns[i].Problem()) {
      return Error{ErrorCode::kBadRequest, "pattern " + std::to_string(i) + " of " +
                                               std::to_string(patterns.size()) + ": " + *problem};
    }
  }
  return std::nullopt;
}

std::optional<Error> ProblemOfRead(const Read& read, const SpaceLimits& limits) {
  if (read.patterns.empty()) return Error{ErrorCode::kBadRequest, "a Read of no patterns"};
  if (read.patterns.size() > limits.tuples_per_request) {
    return Error{ErrorCode::kTooLarge,
                 "patterns in one Read " + std::to_string(read.patterns.size()) + ", at most " +
                     std::to_string(limits.tuples_per_request) + " (limits.tuples_per_request)"};
  }
  if (read.wait_us < 0) {
    return Error{ErrorCode::kBadRequest,
                 "wait_us " + std::to_string(read.wait_us) + ", must not be negative"};
  }
  return ProblemOfPatterns(read.patterns);
}

}  // namespace

void Space::Impl::Handle(Client& client, RequestId id, Read&& read) {
  if (auto problem = ProblemOfRead(read, limits_)) {
    return Refuse(*client.id, id, std::move(*problem));
  }
  if (client.reads.contains(id) || client.gets.contains(id)) {
    return Refuse(*client.id, id,
                  {ErrorCode::kBadRequest, "request id " + std::to_string(id) +
                                               " is that of an open request, must be a new one"});
  }
  auto waiter = std::make_unique<ReadWaiter>();
  waiter->client = &client;
  waiter->id = id;
  waiter->all = read.all;
  waiter->metadata_only = read.metadata_only;
  for (Pattern& pattern : read.patterns) {
    auto exact = pattern.AsExactKey();
    waiter->wanted.push_back({std::move(pattern), std::move(exact)});
  }
  const bool satisfied = IsSatisfied(*waiter);
  if (!satisfied && read.wait_us > 0) {
    if (auto busy = CheckRoomForOpenRequest(client))
      return Refuse(*client.id, id, std::move(*busy));
    const std::size_t watched = waiter->all ? 1 : waiter->wanted.size();
    if (store_.size() + watched > limits_.tuples) {  // a watched key takes a record
      return Refuse(*client.id, id,
                    {ErrorCode::kBusy, "limits.tuples: " + std::to_string(watched) +
                                           " keys to watch with " + std::to_string(store_.size()) +
                                           " there, at most " + std::to_string(limits_.tuples)});
    }
  }
  ++counters_.reads;
  if (satisfied || read.wait_us == 0) {
    Found found = Collect(*waiter);
    found.timed_out = !satisfied;
    return Answer(client, id, std::move(found));
  }
  waiter->sequence = next_sequence_++;
  if (waiter->all) {  // what stays elsewhere comes together, not one after the other
    for (std::size_t i = waiter->cursor + 1; i < waiter->wanted.size(); ++i) {
      FindFirst(waiter->wanted[i], *waiter);
    }
  }
  Watch(*waiter);
  if (read.wait_us != kForeverUs) deadlines_.Set(&waiter->deadline, After(read.wait_us));
  client.reads.emplace(id, std::move(waiter));
  ++gauges_.open_reads;
}

void Space::Impl::Handle(Client& client, RequestId id, List&& list) {
  if (auto problem = ProblemOfPatterns({&list.pattern, 1})) {
    return Refuse(*client.id, id, std::move(*problem));
  }
  Found found;
  std::uint64_t bytes = 0;
  const std::uint64_t limit = std::min(list.limit, limits_.tuples_per_request);
  store_.ScanStored(list.pattern, [&](const Record* record) {
    const std::uint64_t more = list.metadata_only ? 0 : record->payload.size();
    // The first always goes in, so that who lists on from the last key gets on.
    if (found.tuples.size() >= limit ||
        (!found.tuples.empty() && bytes + more > limits_.message_bytes)) {
      found.truncated = true;
      return false;
    }
    bytes += more;
    found.tuples.push_back(Copy(*record, list.metadata_only));
    return true;
  });
  Answer(client, id, std::move(found));
}

void Space::Impl::Handle(Client& client, RequestId id, Count&& count) {
  if (auto problem = ProblemOfPatterns({&count.pattern, 1})) {
    return Refuse(*client.id, id, std::move(*problem));
  }
  CountReply reply;
  store_.ScanStored(count.pattern, [&](const Record*) {
    ++reply.count;
    return true;
  });
  Answer(client, id, reply);
}

Space::Impl::Record* Space::Impl::FindFirst(const WantedPattern& wanted, const ReadWaiter& waiter) {
  if (wanted.exact) {
    Record* record = store_.Find(wanted.exact->bytes());
    if (record == nullptr || !record->stored()) return nullptr;
    if (Readable(*record, waiter)) return record;
    Want(record);
    return nullptr;
  }
  Record* first = nullptr;
  Record* elsewhere = nullptr;
  store_.ScanStored(wanted.pattern, [&](Record* record) {
    if (Readable(*record, waiter)) {
      first = record;
    } else if (elsewhere == nullptr) {
      elsewhere = record;
    }
    return first == nullptr;
  });
  // One will do.
  if (first == nullptr && elsewhere != nullptr) Want(elsewhere);
  return first;
}

// A payload that stays with another client is not there yet.
bool Space::Impl::Readable(const Record& record, const ReadWaiter& waiter) {
  return !record.stay || waiter.metadata_only || record.stay->with == waiter.client;
}

FoundTuple Space::Impl::Copy(const Record& record, bool metadata_only) {
  assert(record.stored());
  FoundTuple found;
  found.key = record.key;
  found.stays = record.stay != nullptr;
  found.payload_bytes = found.stays ? record.stay->bytes : record.payload.size();
  found.put_by = *record.put_by;
  found.took_us = record.took_us;
  found.times_taken = record.times_taken;
  found.hash = record.payload.hash();
  if (!metadata_only) {
    found.payload = record.payload;
    counters_.bytes_out += record.payload.size();
  }
  return found;
}

bool Space::Impl::IsSatisfied(ReadWaiter& waiter) {
  const std::size_t count = waiter.wanted.size();
  if (!waiter.all) {
    return std::any_of(
        waiter.wanted.begin(), waiter.wanted.end(),
        [&](const WantedPattern& wanted) { return FindFirst(wanted, waiter) != nullptr; });
  }
  // From the cursor on first: what was found before is usually still there.
  const std::size_t begin = waiter.cursor;
  while (waiter.cursor < count && FindFirst(waiter.wanted[waiter.cursor], waiter) != nullptr) {
    ++waiter.cursor;
  }
  if (waiter.cursor < count || begin == 0) return waiter.cursor == count;
  waiter.cursor = 0;
  while (waiter.cursor < count && FindFirst(waiter.wanted[waiter.cursor], waiter) != nullptr) {
    ++waiter.cursor;
  }
  return waiter.cursor == count;
}

Found Space::Impl::Collect(const ReadWaiter& waiter) {
  Found found;
  for (const WantedPattern& wanted : waiter.wanted) {
    if (const Record* record = FindFirst(wanted, waiter)) {
      found.tuples.push_back(Copy(*record, waiter.metadata_only));
    }
  }
  return found;
}

void Space::Impl::Watch(ReadWaiter& waiter) {
  assert(waiter.watches.empty());
  const std::size_t begin = waiter.all ? waiter.cursor : 0;
  const std::size_t end = waiter.all ? begin + 1 : waiter.wanted.size();
  assert(end <= waiter.wanted.size());
  waiter.watches = std::vector<ReadWatch>(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    ReadWatch& watch = waiter.watches[i - begin];
    const WantedPattern& wanted = waiter.wanted[i];
    watch.waiter = &waiter;
    if (wanted.exact) {
      watch.record = store_.FindOrAdd(*wanted.exact);
      watch.record->watches.PushBack(&watch);
      continue;
    }
    watch.group = read_groups_.Find(wanted.pattern);
    if (watch.group == nullptr) {
      watch.group = read_groups_.Add(std::make_unique<ReadGroup>(ReadGroup{wanted.pattern, {}}));
    }
    watch.group->watches.PushBack(&watch);
  }
}

void Space::Impl::Unwatch(ReadWaiter& waiter) {
  for (ReadWatch& watch : waiter.watches) {
    if (watch.record != nullptr) {
      watch.record->watches.Remove(&watch);
      store_.EraseIfUnused(watch.record);
    } else {
      watch.group->watches.Remove(&watch);
      if (watch.group->watches.empty()) read_groups_.Remove(watch.group);
    }
  }
  waiter.watches.clear();
}

void Space::Impl::WakeReaders() {
  std::vector<ReadWaiter*> woken;
  const auto wake = [&woken](const internal::List<ReadWatch>& watches) {
    for (const ReadWatch* watch = watches.first(); watch != nullptr; watch = watch->next) {
      woken.push_back(watch->waiter);
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
  const auto older = [](const ReadWaiter* a, const ReadWaiter* b) {
    return a->sequence < b->sequence;
  };
  std::sort(woken.begin(), woken.end(), older);
  woken.erase(std::unique(woken.begin(), woken.end()), woken.end());
  for (ReadWaiter* waiter : woken) {
    if (IsSatisfied(*waiter)) {
      EndRead(waiter, false);
    } else {
      Unwatch(*waiter);
      Watch(*waiter);
    }
  }
  for (Record* record : fresh_) {
    --record->pins;
    store_.EraseIfUnused(record);
  }
  fresh_.clear();
}

void Space::Impl::EndRead(ReadWaiter* waiter, bool timed_out) {
  Client& client = *waiter->client;
  Found found = Collect(*waiter);
  found.timed_out = timed_out;
  Answer(client, waiter->id, std::move(found));
  Unwatch(*waiter);
  deadlines_.Clear(&waiter->deadline);
  --gauges_.open_reads;
  client.reads.erase(waiter->id);
}

}  // namespace tuplespace
