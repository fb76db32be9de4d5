#include "removal.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "space_refusals.h"
#include "tuplespace/planted.h"

namespace tuplespace::internal {

namespace {

using Op = FieldPattern::Op;

constexpr std::uint64_t kRemovedAsLooks = 4;  // what removing a tuple takes

}  // namespace

std::optional<RequestError> Removal::ProblemOf(const Retire& retire) const {
  if (const auto problem = retire.pattern.Problem()) {
    return Bad("pattern of a Retire: " + *problem);
  }
  if (!retire.watermark) return std::nullopt;
  const auto bounds = std::count_if(retire.pattern.fields.begin(), retire.pattern.fields.end(),
                                    [](const auto& field) { return field.op == Op::kAtMost; });
  if (bounds != 1) {
    return Bad("watermark " + retire.pattern.ToString() + " has " + std::to_string(bounds) +
               " fields with <=, must have exactly 1");
  }
  return std::nullopt;
}

void Removal::Handle(ClientState& client, RequestId id, Retire&& retire) {
  if (auto problem = ProblemOf(retire))
    return state_.answers.Refuse(*client.id, id, std::move(*problem));
  if (retire.under && leases_.Find(client, *retire.under) == nullptr) {
    return state_.answers.Answer(client, id, RetireReply{.lease = LeaseStatus::kStale});
  }
  if (retire.watermark && !IsPlanted(Planted::kWatermarkIsNotRaised)) {
    watermarks_.Raise(client, retire.pattern);
  }
  state_.answers.Answer(client, id, RetireReply{RemoveMatching(retire)});
}

std::uint64_t Removal::RemoveMatching(const Retire& retire) {
  std::vector<Record*> matched;
  examined_ += state_.store.ScanStored(retire.pattern, [&](Record* record) {
    matched.push_back(record);
    return true;
  });
  const std::size_t stored = matched.size();
  examined_ += state_.store.ScanShadows(retire.pattern, [&](Record* record) {
    ++record->pins;  // the tuples that go first may be what refers to it
    matched.push_back(record);
    return true;
  });
  examined_ += kRemovedAsLooks * matched.size();

  // Tasks first, so that no owner gets a notice about a task that the same request removes.
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
    state_.CountKeys(record);
    if (!retire.watermark) continue;
    std::vector<Record*> waiting;  // for a tuple that can never be put any more
    for (const auto* list : {&record->dependents, &record->affine}) {
      for (const InputLink* link = list->first(); link != nullptr; link = link->next) {
        if (link->task->state == RecordState::kWaiting) waiting.push_back(link->task);
      }
    }
    for (Record* task : waiting) {
      if (task->state == RecordState::kWaiting) Orphan(task, record->key);
    }
  }
  for (std::size_t i = stored; i < matched.size(); ++i) {
    --matched[i]->pins;
    state_.store.EraseIfUnused(matched[i]);
  }
  return stored;
}

void Removal::RemoveTasksOf(const std::string& judge) {
  std::vector<Record*> found;
  state_.store.ScanStored(Pattern{{}, true}, [&](Record* record) {
    if (!record->judge() || record->judge()->name != judge) return true;
    if (record->lease) {
      record->task->goes_with_lease = true;
      return true;
    }
    found.push_back(record);
    return true;
  });
  for (Record* record : found) Remove(record, false);
}

// Removes the tuple. With `remember`, its key stays known as that of a done task.
void Removal::Remove(Record* record, bool remember) {
  assert(record->stored());
  assert(!remember || record->task);
  ++record->pins;
  if (record->lease) leases_.Drop(record);
  groups_.Withdraw(record);
  if (record->task) UnlinkInputs(record);
  if (record->judge()) state_.exclusions.Remove(record->judge()->name, record->task->spec.not_by);
  if (record->residence) residency_.End(record);
  state_.SetState(record, remember ? RecordState::kDone : RecordState::kWanted);
  record->task.reset();
  holders_.RemoveAllOf(record);
  if (record->ephemeral) {
    ClientState& owner = *state_.clients.at(*record->put_by);
    owner.ephemerals.erase(record->sequence);
    owner.own_payload_bytes -= record->counted_bytes();
    state_.own_tuples.Remove(owner.principal, record->counted_bytes());
    record->ephemeral = false;
  }
  state_.CountKeys(record);
  state_.gauges.payload_bytes -= record->payload.size();
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
  state_.store.Hide(record);
}

void Removal::Park(Record* record, Notice::Kind kind, const ClientId& by, std::string text) {
  assert(record->task && !record->lease);
  groups_.Withdraw(record);
  UnlinkInputs(record);
  state_.SetState(record, RecordState::kParked);
  ++state_.counters.parked;
  state_.answers.Notify(record->put_by, Notice{kind, record->key, by, std::move(text)});
}

void Removal::Orphan(Record* task, const Key& input) {
  Park(task, Notice::Kind::kOrphaned, {},
       "input " + input.ToString() + " was retired or removed, so the task can never run");
}

void Removal::UnlinkInputs(Record* task) {
  for (InputLink& link : task->task->links) {
    (link.affine ? link.input->affine : link.input->dependents).Remove(&link);
    state_.store.EraseIfUnused(link.input);
  }
  task->task->links.clear();
}

}  // namespace tuplespace::internal
