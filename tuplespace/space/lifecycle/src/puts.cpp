#include "puts.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "space_refusals.h"
#include "tuplespace/planted.h"

namespace tuplespace::internal {

void Puts::Handle(ClientState& client, RequestId id, Put&& put) {
  const bool leaves_nothing =
      client.limits.leaves_nothing && !IsPlanted(Planted::kQuotasAreIgnored);
  if (leaves_nothing) {
    for (Tuple& tuple : put.tuples) tuple.ephemeral = true;
  }
  if (auto problem = checks_.ProblemOf(client, put.tuples)) {
    return state_.answers.Refuse(*client.id, id, std::move(*problem));
  }
  if (leaves_nothing) {
    if (auto busy = checks_.CheckQuota(client, put.tuples)) {
      return state_.answers.Refuse(*client.id, id, std::move(*busy));
    }
  }
  PutReply reply;
  if (put.under && leases_.Find(client, *put.under) == nullptr) {
    reply.status.assign(put.tuples.size(), PutStatus::kRefused);
    return state_.answers.Answer(client, id, std::move(reply));
  }
  if (auto busy = checks_.CheckRoom(put.tuples))
    return state_.answers.Refuse(*client.id, id, std::move(*busy));
  reply.status.reserve(put.tuples.size());
  for (Tuple& tuple : put.tuples) {
    reply.status.push_back(PutOne(client, std::move(tuple), {}));
  }
  state_.answers.Answer(client, id, std::move(reply));
}

PutStatus Puts::PutOne(ClientState& client, Tuple&& tuple, const Origin& origin) {
  ++state_.counters.puts;
  state_.counters.bytes_in += tuple.payload.size();
  if (IsPlanted(Planted::kAcknowledgedButNotStored) && state_.counters.puts % 64 == 0) {
    return PutStatus::kStored;
  }
  const std::size_t hash = state_.store.HashOf(tuple.key.bytes());
  Record* record = state_.store.Find(tuple.key.bytes(), hash);
  if (record != nullptr && record->stored())
    return PutAgain(client, record, tuple, origin.task_owner);
  if (record != nullptr && record->state == RecordState::kDone &&
      !IsPlanted(Planted::kCompletedTaskIsStoredAgain)) {
    ++state_.counters.duplicates;
    return PutStatus::kDuplicate;
  }
  if (record != nullptr ? IsRetired(*record) : watermarks_.IsRetired(tuple.key)) {
    ++state_.counters.retired_puts;
    return PutStatus::kRetired;
  }
  if (record == nullptr) {
    record = state_.store.AddShown(std::move(tuple.key), hash);
  } else {
    state_.store.Show(record);
  }
  reads_.NoteFresh(record);
  record->payload = std::move(tuple.payload);
  record->put_by = client.id;
  record->took_us = origin.took_us;
  record->times_taken = origin.times_taken;
  record->sequence = state_.next_sequence++;
  state_.gauges.payload_bytes += record->payload.size();
  if (tuple.task) {
    AttachTask(client, record, std::move(*tuple.task));
  } else {
    ready_.MakeReady(record);
  }
  state_.CountKeys(record);
  if (tuple.ephemeral) {
    record->ephemeral = true;
    client.ephemerals.emplace(record->sequence, record);
    client.own_payload_bytes += record->counted_bytes();
    state_.own_tuples.Add(client.principal, record->counted_bytes());
  }
  if (tuple.resident_bytes > 0) {
    residency_.Begin(client, record, tuple.resident_bytes, origin.task_owner);
    record->residence->judge = origin.judge;
    holders_.Add(client, record, /*always=*/true);
  } else if (tuple.held) {
    holders_.Add(client, record);
  }
  CountForDependents(record);
  return PutStatus::kStored;
}

// The tasks that wait for this tuple lack one input less.
void Puts::CountForDependents(Record* record) {
  for (IntrusiveList<InputLink>* list : {&record->dependents, &record->affine}) {
    for (InputLink* link = list->first(); link != nullptr; link = link->next) {
      assert(link->task->task->missing > 0);
      const bool complete = --link->task->task->missing == 0;
      if (complete && link->task->state == RecordState::kWaiting) ready_.MakeReady(link->task);
    }
  }
}

// Compares hashes if both have one: the bytes may be in others' memory, and are many.
bool Puts::SameBytes(const Record& record, const Tuple& tuple) {
  const Payload& a = record.payload;
  const Payload& b = tuple.payload;
  if (a.size() != b.size()) return false;
  if (a.hash() && b.hash()) return *a.hash() == *b.hash();
  return a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

PutStatus Puts::PutAgain(ClientState& client, Record* record, const Tuple& tuple,
                         const OwnerId& task_owner) {
  assert(record->stored() && record->put_by != nullptr);
  if (record->residence || tuple.resident_bytes > 0)
    return residency_.PutBeside(client, *record, tuple);
  if (SameBytes(*record, tuple)) {
    ++state_.counters.duplicates;
    if (tuple.held) holders_.Add(client, record);
    return PutStatus::kDuplicate;
  }
  ++state_.counters.conflicts;
  if (IsPlanted(Planted::kSecondPutOverwrites)) record->payload = tuple.payload;
  const Notice notice{Notice::Kind::kConflict, record->key, *client.id,
                      "a second put of " + record->key.ToString() + " by \"" + *client.id +
                          "\" differs from the first by \"" + *record->put_by + "\" (" +
                          std::to_string(tuple.payload.size()) + " and " +
                          std::to_string(record->payload.size()) + " bytes)"};
  state_.answers.Notify(record->put_by, notice);
  if (task_owner != nullptr && *task_owner != *record->put_by)
    state_.answers.Notify(task_owner, notice);
  return PutStatus::kConflict;
}

// A task that waits for the tuple shows that no watermark retires it: otherwise the task would have
// been orphaned. Most results are needed by such tasks, which saves looking at all watermarks.
bool Puts::IsRetired(const Record& record) const {
  assert(!record.stored());
  const auto is_awaited = [](const IntrusiveList<InputLink>& links) {
    return !links.empty() && links.first()->task->state == RecordState::kWaiting;
  };
  const bool awaited = is_awaited(record.dependents) || is_awaited(record.affine);
  assert(!awaited || !watermarks_.IsRetired(record.key));
  return !awaited && watermarks_.IsRetired(record.key);
}

void Puts::AttachTask(const ClientState& client, Record* record, TaskSpec&& spec) {
  assert(!record->task);
  record->task = std::make_unique<TaskState>(record);
  TaskState& task = *record->task;
  task.spec = std::move(spec);
  std::vector<ClientId>& not_by = task.spec.not_by;
  std::sort(not_by.begin(), not_by.end());
  not_by.erase(std::unique(not_by.begin(), not_by.end()), not_by.end());
  task.barred = not_by;
  if (!IsPlanted(Planted::kJudgesAreIgnored)) task.judge = client.judge;
  if (task.judge) state_.exclusions.Add(task.judge->name, not_by);
  task.links = std::vector<InputLink>(task.spec.inputs.size());
  const Key* never = nullptr;
  for (std::size_t i = 0; i < task.links.size(); ++i) {
    InputLink& link = task.links[i];
    Record* input = state_.store.FindOrAdd(task.spec.inputs[i]);
    link.task = record;
    link.input = input;
    link.affine = task.spec.affinity == static_cast<std::int32_t>(i);
    (link.affine ? input->affine : input->dependents).PushBack(&link);
    if (input->stored()) continue;
    ++task.missing;
    if (never == nullptr && (input->state == RecordState::kDone || IsRetired(*input))) {
      never = &task.spec.inputs[i];
    }
  }
  state_.SetState(record, RecordState::kWaiting);
  if (never != nullptr) {
    removal_.Orphan(record, *never);
  } else if (task.missing == 0) {
    ready_.MakeReady(record);
  }
}

void Puts::Handle(ClientState& client, RequestId id, Hold&& hold) {
  const std::size_t count = hold.held.size() + hold.dropped.size();
  if (count > state_.MostOfRequest(client)) {
    return state_.answers.Refuse(
        *client.id, id,
        TooLarge("keys in one Hold", count, "tuples_per_request", state_.MostOfRequest(client)));
  }
  for (const Key& key : hold.dropped) {
    Record* record = state_.store.Find(key.bytes());
    const bool resident =
        record != nullptr && record->residence && record->residence->with == &client;
    if (record != nullptr && client.held.contains(record) && !resident)
      holders_.Remove(client, record);
  }
  // A key without a stored tuple needs no holders.
  for (const Key& key : hold.held) {
    Record* record = state_.store.Find(key.bytes());
    if (record != nullptr && record->stored()) holders_.Add(client, record);
  }
  state_.answers.Answer(client, id, Ok{});
}

bool Puts::Handle(ClientState& client, RequestId id, Supply&& supply) {
  if (auto problem = checks_.ProblemOf(client, supply)) {
    state_.answers.Refuse(*client.id, id, std::move(*problem));
    return false;
  }
  std::uint64_t bytes = 0;
  bool supplies = false;
  for (const Tuple& tuple : supply.tuples) {
    const Record* record = state_.store.Find(tuple.key.bytes());
    if (record == nullptr || !record->residence) continue;
    bytes += tuple.payload.size();
    supplies = supplies || record->residence->with == &client;
  }
  // Counts even if there is no room, which is not the client's fault.
  if (supplies) client.supplied_us = state_.now_us;
  if (bytes > 0 && state_.gauges.payload_bytes + bytes > state_.limits.payload_bytes) {
    ++state_.counters.no_payload_room;
    const std::string there = std::to_string(state_.gauges.payload_bytes);
    state_.answers.Refuse(*client.id, id,
                          {ErrorCode::kBusy, "limits.payload_bytes: " + std::to_string(bytes) +
                                                 " more with " + there + " there, at most " +
                                                 std::to_string(state_.limits.payload_bytes)});
    return false;
  }
  PutReply reply;
  reply.status.reserve(supply.tuples.size());
  for (Tuple& tuple : supply.tuples) reply.status.push_back(SupplyOne(client, std::move(tuple)));
  state_.answers.Answer(client, id, std::move(reply));
  return supplies;
}

PutStatus Puts::SupplyOne(ClientState& client, Tuple&& tuple) {
  Record* record = state_.store.Find(tuple.key.bytes());
  if (record == nullptr || !record->stored()) return PutStatus::kRetired;
  if (!record->residence || record->residence->with != &client) return PutStatus::kDuplicate;
  state_.counters.bytes_in += tuple.payload.size();
  state_.gauges.payload_bytes += tuple.payload.size();
  record->payload = std::move(tuple.payload);
  residency_.Drop(record);
  if (!tuple.held) holders_.Remove(client, record);
  reads_.NoteFresh(record);
  ready_.Requeue(record);
  return PutStatus::kStored;
}

}  // namespace tuplespace::internal
