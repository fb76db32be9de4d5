// Puts and holds: how tuples come into the space, and who keeps copies of them.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

using internal::OwnerId;

namespace {

Error TooLarge(const char* what, std::uint64_t value, const char* limit, std::uint64_t most) {
  return {ErrorCode::kTooLarge, std::string(what) + " " + std::to_string(value) + ", at most " +
                                    std::to_string(most) + " (limits." + limit + ")"};
}

Error Bad(std::string text) {
  return {ErrorCode::kBadRequest, std::move(text)};
}

// Over `limit` even if nothing else were there: it can never succeed.
Error NoRoom(const char* limit, std::uint64_t there, std::uint64_t wanted, std::uint64_t most) {
  const bool ever = wanted <= most;
  return {ever ? ErrorCode::kBusy : ErrorCode::kTooLarge,
          std::string("limits.") + limit + ": " + std::to_string(wanted) + " more with " +
              std::to_string(there) + " there, at most " + std::to_string(most)};
}

}  // namespace

std::optional<Error> Space::Impl::ProblemOf(const Tuple& tuple) const {
  if (tuple.key.empty()) return Bad("the key is empty, must have 1 to 16 fields");
  const std::uint64_t bytes = std::max<std::uint64_t>(tuple.payload.size(), tuple.stays_bytes);
  if (bytes > limits_.message_bytes) {
    return TooLarge("payload bytes", bytes, "message_bytes", limits_.message_bytes);
  }
  if (tuple.stays_bytes > 0 && (!tuple.payload.empty() || tuple.task || tuple.ephemeral)) {
    return Bad(
        "its payload stays with the client: it must have none here, and be no task and not "
        "ephemeral");
  }
  if (!tuple.task) return std::nullopt;
  const TaskSpec& task = *tuple.task;
  if (task.inputs.size() > limits_.task_inputs) {
    return TooLarge("task inputs", task.inputs.size(), "task_inputs", limits_.task_inputs);
  }
  for (const Key& input : task.inputs) {
    if (input.empty()) return Bad("an input key is empty, must have 1 to 16 fields");
    if (input == tuple.key) return Bad("the task lists itself as an input");
  }
  if (task.not_by.size() > limits_.task_exclusions) {
    return TooLarge("clients in not_by", task.not_by.size(), "task_exclusions",
                    limits_.task_exclusions);
  }
  if (task.results.size() > limits_.task_results) {
    return TooLarge("task results", task.results.size(), "task_results", limits_.task_results);
  }
  for (const Key& result : task.results) {
    if (result.empty()) return Bad("a result's key is empty, must have 1 to 16 fields");
  }
  if (task.affinity < -1 ||
      (task.affinity >= 0 && static_cast<std::size_t>(task.affinity) >= task.inputs.size())) {
    return Bad("affinity " + std::to_string(task.affinity) +
               ", must be -1 or the index of one of " + std::to_string(task.inputs.size()) +
               " inputs");
  }
  if (task.lease_us < 0 || task.lease_us > limits_.max_lease_us) {
    return Bad("lease_us " + std::to_string(task.lease_us) + ", must be 0 to " +
               std::to_string(limits_.max_lease_us) + " (limits.max_lease_us)");
  }
  return std::nullopt;
}

std::optional<Error> Space::Impl::ProblemOf(const Client& client,
                                            std::span<const Tuple> tuples) const {
  if (tuples.size() > MostOfRequest(client)) {
    return TooLarge("tuples in one request", tuples.size(), "tuples_per_request",
                    MostOfRequest(client));
  }
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    if (auto problem = ProblemOf(tuples[i])) {
      problem->text = "tuple " + std::to_string(i) + " of " + std::to_string(tuples.size()) + ", " +
                      tuples[i].key.ToString() + ": " + problem->text;
      return problem;
    }
  }
  return std::nullopt;
}

std::optional<Error> Space::Impl::CheckRoom(std::span<const Tuple> tuples,
                                            std::uint64_t freed_bytes) const {
  assert(freed_bytes <= gauges_.payload_bytes);
  const std::uint64_t bytes_there = gauges_.payload_bytes - freed_bytes;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  for (const Tuple& tuple : tuples) {
    bytes += tuple.payload.size();
    records += 1 + (tuple.task ? tuple.task->inputs.size() : 0);
  }
  if (bytes_there + bytes <= limits_.payload_bytes && store_.size() + records <= limits_.tuples) {
    return std::nullopt;
  }
  // It gets tight: count exactly, so that a repeated put is acknowledged even by a full space.
  bytes = 0;
  std::set<std::string_view> absent;
  for (const Tuple& tuple : tuples) {
    const Record* record = store_.Find(tuple.key.bytes());
    if (record != nullptr && record->state != RecordState::kWanted) continue;
    if (IsRetired(tuple.key)) continue;
    bytes += tuple.payload.size();
    if (record == nullptr) absent.insert(tuple.key.bytes());
    if (!tuple.task) continue;
    for (const Key& input : tuple.task->inputs) {
      if (store_.Find(input.bytes()) == nullptr) absent.insert(input.bytes());
    }
  }
  records = absent.size();
  if (bytes > 0 && bytes_there + bytes > limits_.payload_bytes) {
    return NoRoom("payload_bytes", bytes_there, bytes, limits_.payload_bytes);
  }
  if (records > 0 && store_.size() + records > limits_.tuples) {
    return NoRoom("tuples", store_.size(), records, limits_.tuples);
  }
  return std::nullopt;
}

std::optional<Error> Space::Impl::CheckQuota(const Client& client, std::span<const Tuple> tuples) {
  const auto over = [](const char* what, std::uint64_t there, std::uint64_t more,
                       std::uint64_t most) -> std::optional<Error> {
    if (there <= most && more <= most - there) return std::nullopt;
    return Error{more <= most ? ErrorCode::kBusy : ErrorCode::kTooLarge,
                 std::string(what) + " of this client's role: " + std::to_string(more) +
                     " more with " + std::to_string(there) + " there, at most " +
                     std::to_string(most)};
  };
  if (auto busy =
          over("own_tuples", client.ephemerals.size(), tuples.size(), client.limits.own_tuples)) {
    return busy;
  }
  std::uint64_t bytes = 0;
  for (const Tuple& tuple : tuples) bytes += tuple.payload.size();
  return over("own_payload_bytes", client.own_payload_bytes, bytes,
              client.limits.own_payload_bytes);
}

void Space::Impl::Handle(Client& client, RequestId id, Put&& put) {
  if (auto problem = ProblemOf(client, put.tuples)) {
    return Refuse(*client.id, id, std::move(*problem));
  }
  if (client.limits.leaves_nothing && !IsPlanted(Planted::kQuotasAreIgnored)) {
    for (Tuple& tuple : put.tuples) tuple.ephemeral = true;
    if (auto busy = CheckQuota(client, put.tuples)) {
      return Refuse(*client.id, id, std::move(*busy));
    }
  }
  if (auto busy = CheckRoom(put.tuples, 0)) return Refuse(*client.id, id, std::move(*busy));
  PutReply reply;
  reply.status.reserve(put.tuples.size());
  for (Tuple& tuple : put.tuples) {
    reply.status.push_back(PutOne(client, std::move(tuple), {}));
  }
  Answer(client, id, std::move(reply));
}

PutStatus Space::Impl::PutOne(Client& client, Tuple&& tuple, const Origin& origin) {
  ++counters_.puts;
  counters_.bytes_in += tuple.payload.size();
  if (IsPlanted(Planted::kAcknowledgedButNotStored) && counters_.puts % 64 == 0) {
    return PutStatus::kStored;
  }
  const std::size_t hash = internal::Store::HashOf(tuple.key.bytes());
  Record* record = store_.Find(tuple.key.bytes(), hash);
  if (record != nullptr && record->stored())
    return PutAgain(client, record, tuple, origin.task_owner);
  if (record != nullptr && record->state == RecordState::kCompleted &&
      !IsPlanted(Planted::kCompletedTaskIsStoredAgain)) {
    ++counters_.duplicates;
    return PutStatus::kDuplicate;
  }
  if (IsRetired(tuple.key)) {
    ++counters_.retired_puts;
    return PutStatus::kRetired;
  }
  if (record == nullptr) {
    record = store_.AddShown(std::move(tuple.key), hash);
  } else {
    store_.Show(record);
  }
  ++record->pins;
  fresh_.push_back(record);
  record->payload = std::move(tuple.payload);
  record->put_by = client.id;
  record->took_us = origin.took_us;
  record->times_taken = origin.times_taken;
  record->sequence = next_sequence_++;
  gauges_.payload_bytes += record->payload.size();
  if (tuple.ephemeral) {
    record->ephemeral = true;
    client.ephemerals.emplace(record->sequence, record);
    client.own_payload_bytes += record->payload.size();
  }
  if (tuple.task) {
    AttachTask(record, std::move(*tuple.task));
  } else {
    MakeTakable(record);
  }
  if (tuple.stays_bytes > 0) {
    BeginStay(client, record, tuple.stays_bytes, origin);
  } else if (tuple.held) {
    AddHolder(client, record);
  }
  for (internal::List<InputLink>* list : {&record->dependents, &record->affine}) {
    for (InputLink* link = list->first(); link != nullptr; link = link->next) {
      assert(link->task->task->missing > 0);
      const bool complete = --link->task->task->missing == 0;
      if (complete && link->task->state == RecordState::kWaiting) MakeTakable(link->task);
    }
  }
  return PutStatus::kStored;
}

// By their hashes if both have one: the bytes may lie in memory of others, and are many.
bool Space::Impl::SameBytes(const Record& record, const Tuple& tuple) {
  const Payload& a = record.payload;
  const Payload& b = tuple.payload;
  if (a.size() != b.size()) return false;
  if (a.hash() && b.hash()) return *a.hash() == *b.hash();
  return a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

PutStatus Space::Impl::PutAgain(Client& client, Record* record, const Tuple& tuple,
                                const OwnerId& task_owner) {
  assert(record->stored() && record->put_by != nullptr);
  if (record->stay || tuple.stays_bytes > 0) return PutBesideStay(client, *record, tuple);
  if (SameBytes(*record, tuple)) {
    ++counters_.duplicates;
    if (tuple.held) AddHolder(client, record);
    return PutStatus::kDuplicate;
  }
  ++counters_.conflicts;
  if (IsPlanted(Planted::kSecondPutOverwrites)) record->payload = tuple.payload;
  const Notice notice{Notice::Kind::kConflict, record->key, *client.id,
                      "a second put of " + record->key.ToString() + " by \"" + *client.id +
                          "\" differs from the first by \"" + *record->put_by + "\" (" +
                          std::to_string(tuple.payload.size()) + " and " +
                          std::to_string(record->payload.size()) + " bytes)"};
  Notify(record->put_by, notice);
  if (task_owner != nullptr && *task_owner != *record->put_by) Notify(task_owner, notice);
  return PutStatus::kConflict;
}

void Space::Impl::AttachTask(Record* record, TaskSpec&& spec) {
  assert(!record->task);
  record->task = std::make_unique<internal::TaskState>(record);
  internal::TaskState& task = *record->task;
  task.spec = std::move(spec);
  std::vector<ClientId>& not_by = task.spec.not_by;
  std::sort(not_by.begin(), not_by.end());
  not_by.erase(std::unique(not_by.begin(), not_by.end()), not_by.end());
  task.barred = not_by;
  task.links = std::vector<InputLink>(task.spec.inputs.size());
  const Key* never = nullptr;
  for (std::size_t i = 0; i < task.links.size(); ++i) {
    InputLink& link = task.links[i];
    Record* input = store_.FindOrAdd(task.spec.inputs[i]);
    link.task = record;
    link.input = input;
    link.affine = task.spec.affinity == static_cast<std::int32_t>(i);
    (link.affine ? input->affine : input->dependents).PushBack(&link);
    if (input->stored()) continue;
    ++task.missing;
    if (never == nullptr && (input->state == RecordState::kCompleted || IsRetired(input->key))) {
      never = &task.spec.inputs[i];
    }
  }
  SetState(record, RecordState::kWaiting);
  if (never != nullptr) {
    Orphan(record, *never);
  } else if (task.missing == 0) {
    MakeTakable(record);
  }
}

void Space::Impl::Handle(Client& client, RequestId id, Hold&& hold) {
  const std::size_t count = hold.held.size() + hold.dropped.size();
  if (count > MostOfRequest(client)) {
    return Refuse(*client.id, id,
                  TooLarge("keys in one Hold", count, "tuples_per_request", MostOfRequest(client)));
  }
  for (const Key& key : hold.dropped) {
    Record* record = store_.Find(key.bytes());
    const bool stays = record != nullptr && record->stay && record->stay->with == &client;
    if (record != nullptr && client.held.contains(record) && !stays) RemoveHolder(client, record);
  }
  // A key that is not stored (any more) has no use for holders.
  for (const Key& key : hold.held) {
    Record* record = store_.Find(key.bytes());
    if (record != nullptr && record->stored()) AddHolder(client, record);
  }
  Answer(client, id, Ok{});
}

// Holding is advice, but where the payload stays with the client: what would pass
// limits.held_keys_per_client is not remembered.
void Space::Impl::AddHolder(Client& client, Record* record, bool always) {
  assert(record->stored());
  if (!always && client.held.size() >= limits_.held_keys_per_client) return;
  const auto [at, is_new] = client.held.try_emplace(record);
  if (!is_new) return;
  internal::Holding& holding = at->second;
  holding.client = &client;
  holding.record = record;
  record->holders.PushBack(&holding);
  ++gauges_.held_keys;
  RequeueAffine(record);
}

void Space::Impl::RemoveHolder(Client& client, Record* record) {
  const auto at = client.held.find(record);
  assert(at != client.held.end());
  record->holders.Remove(&at->second);
  client.held.erase(at);
  --gauges_.held_keys;
  RequeueAffine(record);
}

}  // namespace tuplespace
