#include "put_checks.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "space_key_bytes.h"
#include "space_refusals.h"

namespace tuplespace::internal {

std::optional<RequestError> PutChecks::ProblemOf(const Tuple& tuple) const {
  if (tuple.key.empty()) return Bad("the key is empty, must have 1 to 16 fields");
  const std::uint64_t bytes = std::max<std::uint64_t>(tuple.payload.size(), tuple.resident_bytes);
  if (bytes > state_.limits.message_bytes) {
    return TooLarge("payload bytes", bytes, "message_bytes", state_.limits.message_bytes);
  }
  if (tuple.resident_bytes > 0 && (!tuple.payload.empty() || tuple.task || tuple.ephemeral)) {
    return Bad(
        "its payload stays with the client: it must have none here, and be no task and not "
        "ephemeral");
  }
  if (!tuple.task) return std::nullopt;
  const TaskSpec& task = *tuple.task;
  if (task.inputs.size() > state_.limits.task_inputs) {
    return TooLarge("task inputs", task.inputs.size(), "task_inputs", state_.limits.task_inputs);
  }
  for (const Key& input : task.inputs) {
    if (input.empty()) return Bad("an input key is empty, must have 1 to 16 fields");
    if (input == tuple.key) return Bad("the task lists itself as an input");
  }
  if (task.not_by.size() > state_.limits.task_exclusions) {
    return TooLarge("clients in not_by", task.not_by.size(), "task_exclusions",
                    state_.limits.task_exclusions);
  }
  if (task.results.size() > state_.limits.task_results) {
    return TooLarge("task results", task.results.size(), "task_results",
                    state_.limits.task_results);
  }
  for (const Key& result : task.results) {
    if (result.empty()) return Bad("a result's key is empty, must have 1 to 16 fields");
  }
  for (std::size_t i = 0; i < task.due.size(); ++i) {
    if (task.due[i] < task.results.size() && (i == 0 || task.due[i] > task.due[i - 1])) continue;
    return Bad("due " + std::to_string(task.due[i]) + ", must be ascending indices into " +
               std::to_string(task.results.size()) + " results");
  }
  if (task.affinity < -1 ||
      (task.affinity >= 0 && static_cast<std::size_t>(task.affinity) >= task.inputs.size())) {
    return Bad("affinity " + std::to_string(task.affinity) +
               ", must be -1 or the index of one of " + std::to_string(task.inputs.size()) +
               " inputs");
  }
  if (task.lease_us < 0 || task.lease_us > state_.limits.max_lease_us) {
    return Bad("lease_us " + std::to_string(task.lease_us) + ", must be 0 to " +
               std::to_string(state_.limits.max_lease_us) + " (limits.max_lease_us)");
  }
  return std::nullopt;
}

std::optional<RequestError> PutChecks::ProblemOf(const ClientState& client,
                                                 std::span<const Tuple> tuples) const {
  if (tuples.size() > state_.MostOfRequest(client)) {
    return TooLarge("tuples in one request", tuples.size(), "tuples_per_request",
                    state_.MostOfRequest(client));
  }
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    if (auto problem = ProblemOf(tuples[i])) {
      problem->text = "tuple " + std::to_string(i) + " of " + std::to_string(tuples.size()) + ", " +
                      tuples[i].key.ToString() + ": " + problem->text;
      return problem;
    }
  }
  return ExclusionProblemOf(client, tuples);
}

// Every Get looks at each list, so a key that decides only about some tasks may not have many.
std::optional<RequestError> PutChecks::ExclusionProblemOf(const ClientState& client,
                                                          std::span<const Tuple> tuples) const {
  if (!client.judge) return std::nullopt;
  const std::uint64_t most = client.limits.exclusions_of_key;
  if (most == UINT64_MAX) return std::nullopt;
  std::set<std::vector<ClientId>> more;
  for (const Tuple& tuple : tuples) {
    if (!tuple.task || tuple.task->not_by.empty()) continue;
    std::vector<ClientId> list = tuple.task->not_by;
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    if (!state_.exclusions.Has(client.judge->name, list)) more.insert(std::move(list));
  }
  const std::uint64_t there = state_.exclusions.CountOf(client.judge->name);
  if (more.empty() || there + more.size() <= most) return std::nullopt;
  return NoRoom("exclusions_of_key of this client's role (different lists not_by)", more.size(),
                there, most);
}

std::optional<RequestError> PutChecks::ProblemOf(const ClientState& client,
                                                 const Supply& supply) const {
  if (auto problem = ProblemOf(client, supply.tuples)) return problem;
  for (const Tuple& tuple : supply.tuples) {
    if (tuple.payload.empty() || tuple.task || tuple.ephemeral) {
      return Bad("a Supply of " + tuple.key.ToString() +
                 " must have its payload, and nothing else");
    }
    const Record* record = state_.store.Find(tuple.key.bytes());
    if (record == nullptr || !record->residence || record->residence->with != &client) continue;
    if (record->residence->bytes != tuple.payload.size()) {
      return Bad("a Supply of " + tuple.key.ToString() + " has " +
                 std::to_string(tuple.payload.size()) + " bytes, must have the " +
                 std::to_string(record->residence->bytes) + " that were said to stay");
    }
  }
  return std::nullopt;
}

std::optional<RequestError> PutChecks::CheckRoom(std::span<const Tuple> tuples) {
  const std::uint64_t bytes_there = state_.gauges.payload_bytes;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  for (const Tuple& tuple : tuples) {
    bytes += CountedBytes(tuple);
    records += 1 + (tuple.task ? tuple.task->inputs.size() : 0);
  }
  if (bytes_there + bytes <= state_.limits.payload_bytes &&
      state_.store.size() + records <= state_.limits.tuples) {
    return std::nullopt;
  }
  // Space is tight: count exactly, so that even a full space acknowledges a repeated put.
  bytes = 0;
  std::set<std::string_view> absent;
  for (const Tuple& tuple : tuples) {
    const Record* record = state_.store.Find(tuple.key.bytes());
    if (record != nullptr && record->state != RecordState::kWanted) continue;
    if (watermarks_.IsRetired(tuple.key)) continue;
    bytes += CountedBytes(tuple);
    if (record == nullptr) absent.insert(tuple.key.bytes());
    if (!tuple.task) continue;
    for (const Key& input : tuple.task->inputs) {
      if (state_.store.Find(input.bytes()) == nullptr) absent.insert(input.bytes());
    }
  }
  records = absent.size();
  if (bytes > 0 && bytes_there + bytes > state_.limits.payload_bytes) {
    ++state_.counters.no_payload_room;
    return NoRoom("limits.payload_bytes", bytes, bytes_there, state_.limits.payload_bytes);
  }
  if (records > 0 && state_.store.size() + records > state_.limits.tuples) {
    ++state_.counters.no_tuple_room;
    return NoRoom("limits.tuples", records, state_.store.size(), state_.limits.tuples);
  }
  return std::nullopt;
}

std::optional<RequestError> PutChecks::CheckQuota(const ClientState& client,
                                                  std::span<const Tuple> tuples) const {
  const auto over = [](const char* what, std::uint64_t there, std::uint64_t more,
                       std::uint64_t most) -> std::optional<RequestError> {
    if (there <= most && more <= most - there) return std::nullopt;
    return NoRoom(what, more, there, most);
  };
  const ClientLimits& own = client.limits;
  if (auto busy = over("own_tuples of this client's role", client.ephemerals.size(), tuples.size(),
                       own.own_tuples)) {
    return busy;
  }
  std::uint64_t bytes = 0;
  for (const Tuple& tuple : tuples) bytes += CountedBytes(tuple);
  if (auto busy = over("own_payload_bytes of this client's role", client.own_payload_bytes, bytes,
                       own.own_payload_bytes)) {
    return busy;
  }
  // The owner of a key can make any number of clients.
  const OwnTuples::Use of_key = state_.own_tuples.Of(client.principal);
  const std::uint64_t part = state_.limits.own_part_of_key;
  if (auto busy = over("own tuples of all clients of this key (limits.own_part_of_key)",
                       of_key.tuples, tuples.size(), state_.limits.tuples / part)) {
    return busy;
  }
  return over("own payload bytes of all clients of this key (limits.own_part_of_key)",
              of_key.payload_bytes, bytes, state_.limits.payload_bytes / part);
}

}  // namespace tuplespace::internal
