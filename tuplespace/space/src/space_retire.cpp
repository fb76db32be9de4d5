// Removal of tuples, and the watermarks that keep retired keys away.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

using internal::Watermark;

namespace {

using Op = FieldPattern::Op;

std::int64_t MarkOf(const Pattern& pattern) {
  for (const FieldPattern& field : pattern.fields) {
    if (field.op == Op::kAtMost) return std::get<std::int64_t>(field.value);
  }
  assert(false);
  return INT64_MIN;
}

void SetMark(Pattern* pattern, std::int64_t mark) {
  for (FieldPattern& field : pattern->fields) {
    if (field.op == Op::kAtMost) field.value = mark;
  }
}

// The same watermark, whatever its mark.
bool SameButMark(const Pattern& a, const Pattern& b) {
  Pattern raised = a;
  SetMark(&raised, MarkOf(b));
  return internal::SamePattern(raised, b);
}

}  // namespace

bool Space::Impl::IsRetired(const Key& key) const {
  bool retired = false;
  watermarks_.ForEachMatch(key.bytes(), [&](const Watermark*) {
    retired = true;
    return false;
  });
  return retired;
}

std::optional<Error> Space::Impl::ProblemOf(const Retire& retire) const {
  if (const auto problem = retire.pattern.Problem()) {
    return Error{ErrorCode::kBadRequest, "pattern of a Retire: " + *problem};
  }
  if (!retire.watermark) return std::nullopt;
  const auto bounds = std::count_if(retire.pattern.fields.begin(), retire.pattern.fields.end(),
                                    [](const auto& field) { return field.op == Op::kAtMost; });
  if (bounds != 1) {
    return Error{ErrorCode::kBadRequest, "watermark " + retire.pattern.ToString() + " has " +
                                             std::to_string(bounds) +
                                             " fields with <=, must have exactly 1"};
  }
  return std::nullopt;
}

void Space::Impl::Handle(Client& client, RequestId id, Retire&& retire) {
  if (auto problem = ProblemOf(retire)) return Refuse(*client.id, id, std::move(*problem));
  if (retire.watermark && !IsPlanted(Planted::kWatermarkIsNotRaised)) {
    RaiseWatermark(retire.pattern);
  }
  Answer(client, id, RetireReply{RemoveMatching(retire)});
}

void Space::Impl::RaiseWatermark(const Pattern& pattern) {
  Watermark* mark = watermarks_.Find(pattern, SameButMark);
  if (mark != nullptr) {
    SetMark(&mark->pattern, std::max(MarkOf(mark->pattern), MarkOf(pattern)));
    watermarks_by_age_.erase(mark->raised_at);
  } else {
    // Each run leaves one behind: the oldest must go some day.
    while (!watermarks_by_age_.empty() && watermarks_.size() >= limits_.watermarks) {
      const auto oldest = watermarks_by_age_.begin();
      watermarks_.Remove(oldest->second);
      watermarks_by_age_.erase(oldest);
    }
    mark = watermarks_.Add(std::make_unique<Watermark>(Watermark{pattern, 0}));
  }
  mark->raised_at = next_sequence_++;
  watermarks_by_age_.emplace(mark->raised_at, mark);
}

std::uint64_t Space::Impl::RemoveMatching(const Retire& retire) {
  std::vector<Record*> matched;
  const auto collect = [&matched](Record* record) {
    ++record->pins;
    matched.push_back(record);
    return true;
  };
  store_.ScanStored(retire.pattern, collect);
  const std::size_t stored = matched.size();
  store_.ScanShadows(retire.pattern, collect);

  // Tasks first: nobody needs to hear that they are orphaned by the same stroke.
  const auto middle =
      std::stable_partition(matched.begin(), matched.begin() + static_cast<std::ptrdiff_t>(stored),
                            [](const Record* record) { return record->task != nullptr; });
  static_cast<void>(middle);
  for (std::size_t i = 0; i < stored; ++i) Remove(matched[i], false);

  for (std::size_t i = stored; i < matched.size(); ++i) {
    Record* record = matched[i];
    assert(!record->stored());
    record->state = RecordState::kWanted;
    record->put_by.reset();
    record->done.reset();
    if (!retire.watermark) continue;
    std::vector<Record*> waiting;  // for what can never be put any more
    for (const auto* list : {&record->dependents, &record->affine}) {
      for (const InputLink* link = list->first(); link != nullptr; link = link->next) {
        if (link->task->state == RecordState::kWaiting) waiting.push_back(link->task);
      }
    }
    for (Record* task : waiting) {
      if (task->state == RecordState::kWaiting) Orphan(task, record->key);
    }
  }
  for (Record* record : matched) {
    --record->pins;
    store_.EraseIfUnused(record);
  }
  return stored;
}

// The tuple goes; with `remember` its key stays as that of a completed task.
void Space::Impl::Remove(Record* record, bool remember) {
  assert(record->stored());
  assert(!remember || record->task);
  ++record->pins;
  if (record->lease) DropLease(record);
  Unplace(record);
  if (record->task) UnlinkInputs(record);
  if (record->stay) EndStay(record);
  SetState(record, remember ? RecordState::kCompleted : RecordState::kWanted);
  record->task.reset();
  while (const internal::Holding* holding = record->holders.first()) {
    record->holders.Remove(record->holders.first());
    holding->client->held.erase(record);
    --gauges_.held_keys;
  }
  if (record->ephemeral) {
    Client& owner = *clients_.at(*record->put_by);
    owner.ephemerals.erase(record->sequence);
    owner.own_payload_bytes -= record->payload.size();
    record->ephemeral = false;
  }
  gauges_.payload_bytes -= record->payload.size();
  record->payload = {};
  if (!remember) record->put_by.reset();

  std::vector<Record*> orphans;
  for (const auto* list : {&record->dependents, &record->affine}) {
    for (const InputLink* link = list->first(); link != nullptr; link = link->next) {
      ++link->task->task->missing;
      if (link->task->state != RecordState::kLeased) orphans.push_back(link->task);
    }
  }
  for (Record* task : orphans) {
    if (task->state != RecordState::kParked) Orphan(task, record->key);
  }
  --record->pins;
  store_.Hide(record);
}

}  // namespace tuplespace
