#include "completions.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tuplespace/planted.h"

namespace tuplespace::internal {

namespace {

std::uint32_t Saturated(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, UINT32_MAX));
}

// Otherwise one client could fill the space with the results of a few tasks.
std::optional<std::string> TooManyBytes(const TaskSpec& task, std::span<const Tuple> results) {
  if (task.most_result_bytes == 0) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const Tuple& tuple : results) {
    bytes += std::max<std::uint64_t>(tuple.payload.size(), tuple.resident_bytes);
  }
  if (bytes <= task.most_result_bytes) return std::nullopt;
  return "brings results of " + std::to_string(bytes) + " bytes, they have at most " +
         std::to_string(task.most_result_bytes);
}

}  // namespace

void Completions::Handle(ClientState& client, RequestId id, Complete&& complete) {
  if (auto problem = checks_.ProblemOf(client, complete.results)) {
    return state_.answers.Refuse(*client.id, id, std::move(*problem));
  }
  Record* record = leases_.Find(client, complete.lease);
  if (record == nullptr) {
    return CompleteTooLate(client, id, std::move(complete),
                           state_.store.Find(complete.lease.key.bytes()));
  }
  if (record->task) {
    const std::int64_t granted_us = record->lease->granted_us;
    return CompleteTask(client, id, std::move(complete), record, granted_us, LeaseStatus::kOk);
  }
  if (client.limits.borrow_us != kForeverUs && !IsPlanted(Planted::kBorrowedIsCompleted)) {
    return state_.answers.Refuse(
        *client.id, id,
        {ErrorCode::kForbidden,
         "this client's role only borrows plain tuples: it may not complete " +
             record->key.ToString() + ", but release it"});
  }
  if (auto busy = checks_.CheckRoom(complete.results))
    return state_.answers.Refuse(*client.id, id, std::move(*busy));
  ++state_.counters.completed;
  removal_.Remove(record, false);
  CompleteReply reply;
  for (Tuple& tuple : complete.results) {
    // Without a task, nobody would be told of its loss.
    const bool counts = tuple.resident_bytes == 0;
    reply.results.push_back(counts ? puts_.PutOne(client, std::move(tuple), {})
                                   : PutStatus::kRefused);
  }
  state_.answers.Answer(client, id, std::move(reply));
}

// `client` holds the task, or held it and may still complete it.
void Completions::CompleteTask(ClientState& client, RequestId id, Complete&& complete, Record* task,
                               std::int64_t granted_us, LeaseStatus status) {
  const bool checked = !IsPlanted(Planted::kResultsAreNotChecked);
  if (const auto problem = ProblemOf(task->task->spec, complete.results); problem && checked) {
    ++state_.counters.false_completions;
    state_.counters.refused_results += complete.results.size();
    const std::string text = "the completion of task " + task->key.ToString() + " " + *problem;
    if (status == LeaseStatus::kOk) {
      trust_.NoteInVain(client, task, state_.limits.tasks_in_vain,
                        "completes a task that it did not do");
      lease_ends_.FailTask(client, task, text);
    }
    return state_.answers.Refuse(*client.id, id,
                                 {ErrorCode::kBadRequest, text + ": the task counts as failed"});
  }
  // Does not count on the room of the completed tuple, as its key stays remembered.
  if (auto busy = checks_.CheckRoom(complete.results)) {
    // Otherwise results of any size would excuse a client that keeps tasks from others.
    const bool half_full = state_.gauges.payload_bytes >= state_.limits.payload_bytes / 2 ||
                           state_.store.size() >= state_.limits.tuples / 2;
    if (status == LeaseStatus::kOk && half_full) task->lease->lacked_room = true;
    return state_.answers.Refuse(*client.id, id, std::move(*busy));
  }
  ++state_.counters.completed;
  // For a client on probation, only after it has supplied the payload that stays with it.
  const bool stays = std::any_of(complete.results.begin(), complete.results.end(),
                                 [](const Tuple& tuple) { return tuple.resident_bytes > 0; });
  const bool probation =
      trust_.IsOnProbation(client) || trust_.IsOnProbation(client, NameOf(task->judge()));
  if (!stays || !probation) trust_.NoteCompleted(client, *task);
  Origin origin;
  origin.task_owner = task->put_by;
  origin.judge = task->judge();
  origin.took_us = Saturated(state_.now_us - granted_us);
  origin.times_taken = task->task->times_taken;
  RememberOthers(client, task, complete.lease.fence);
  removal_.Remove(task, true);
  CompleteReply reply;
  reply.lease = status;
  reply.results.reserve(complete.results.size());
  for (Tuple& tuple : complete.results) {
    tuple.ephemeral = false;  // it is the task's, so it does not go with the client that made it
    reply.results.push_back(puts_.PutOne(client, std::move(tuple), origin));
  }
  state_.answers.Answer(client, id, std::move(reply));
}

void Completions::NoteDamaged(ClientState& client, const LeaseRef& lease, const std::string& what) {
  Record* task = leases_.Find(client, lease);
  if (task == nullptr || !task->task) return;
  ++state_.counters.false_completions;
  trust_.NoteInVain(client, task, state_.limits.tasks_in_vain,
                    "brings results that do not have their hashes");
  lease_ends_.FailTask(client, task, what);
}

// What is wrong with `results` as results of this task; nullopt if nothing is.
std::optional<std::string> Completions::ProblemOf(const TaskSpec& task,
                                                  std::span<const Tuple> results) {
  if (auto problem = FalseResults(task.results, results)) return problem;
  if (auto problem = TooManyBytes(task, results)) return problem;
  if (task.due.empty() || IsPlanted(Planted::kAnyResultMayStay)) return std::nullopt;
  std::set<std::string_view> stay;
  for (const Tuple& tuple : results) {
    if (tuple.resident_bytes > 0) stay.insert(tuple.key.bytes());
  }
  if (stay.empty()) return std::nullopt;
  for (const std::uint32_t index : task.due) {
    const Key& key = task.results[index];
    if (stay.contains(key.bytes())) return "does not bring the payload of " + key.ToString();
  }
  return std::nullopt;
}

// As ProblemOf, but checks only the keys.
std::optional<std::string> Completions::FalseResults(std::span<const Key> declared,
                                                     std::span<const Tuple> results) {
  const auto same = [](const Key& key, const Tuple& tuple) { return key == tuple.key; };
  // The usual case: all of them, in their order.
  if (std::equal(declared.begin(), declared.end(), results.begin(), results.end(), same)) {
    return std::nullopt;
  }
  std::set<std::string_view> missing;
  for (const Key& key : declared) missing.insert(key.bytes());
  for (const Tuple& tuple : results) {
    if (missing.erase(tuple.key.bytes()) > 0) continue;
    const bool twice = std::find(declared.begin(), declared.end(), tuple.key) != declared.end();
    return (twice ? "brings twice " : "brings what it did not declare: ") + tuple.key.ToString();
  }
  if (missing.empty()) return std::nullopt;
  for (const Key& key : declared) {
    if (missing.contains(key.bytes())) return "lacks its result " + key.ToString();
  }
  return std::nullopt;
}

// Other clients that held the task may still bring results, which are compared with these.
void Completions::RememberOthers(const ClientState& client, Record* task,
                                 std::uint64_t fence) const {
  if (task->lease && task->lease->fence != fence) leases_.Lose(task);
  std::vector<PastLease> others = std::move(task->task->past_leases);
  std::erase_if(others, [&](const PastLease& past) {
    return past.fence == fence && *past.client == *client.id;
  });
  if (others.empty()) return;
  task->done =
      std::make_unique<DoneTask>(DoneTask{std::move(others), std::move(task->task->spec.results)});
}

// `client` does not hold `record` (null: there is no such tuple) under that fence.
void Completions::CompleteTooLate(ClientState& client, RequestId id, Complete&& complete,
                                  Record* record) {
  if (const auto granted_us = leases_.LateLease(client, record, complete.lease.fence)) {
    return CompleteTask(client, id, std::move(complete), record, *granted_us, LeaseStatus::kStale);
  }
  // A false completion proves nothing about the results of the one that counted.
  const bool compares = record != nullptr && record->done &&
                        HeldBefore(client, record->done->leases, complete.lease.fence) &&
                        !FalseResults(record->done->results, complete.results);
  CompleteReply reply;
  reply.lease = LeaseStatus::kStale;
  reply.results.reserve(complete.results.size());
  for (Tuple& tuple : complete.results) {
    if (IsPlanted(Planted::kAnyResultCounts)) {
      reply.results.push_back(puts_.PutOne(client, std::move(tuple), {}));
      continue;
    }
    reply.results.push_back(CompareLate(client, compares ? record : nullptr, tuple));
    if (reply.results.back() == PutStatus::kRefused) ++state_.counters.refused_results;
  }
  state_.answers.Answer(client, id, std::move(reply));
}

// `task`: the done task that `client` held. Null: the client has no right to the result, and only
// learns whether exactly the same tuple is there, as after a lost answer.
PutStatus Completions::CompareLate(ClientState& client, const Record* task, const Tuple& result) {
  Record* there = state_.store.Find(result.key.bytes());
  if (there == nullptr || !there->stored()) return PutStatus::kRefused;
  if (task != nullptr) return puts_.PutAgain(client, there, result, task->put_by);
  const bool same = there->residence || result.resident_bytes > 0 ? there->residence != nullptr
                                                                  : Puts::SameBytes(*there, result);
  return same ? puts_.PutAgain(client, there, result, nullptr) : PutStatus::kRefused;
}

}  // namespace tuplespace::internal
