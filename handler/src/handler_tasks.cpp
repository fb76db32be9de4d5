// Handler: tasks, from grant to result.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "handler_impl.h"
#include "input_sizes.h"
#include "task_keys.h"

namespace acan {

using tuplespace::Key;
using tuplespace::MonotonicUs;
using tuplespace::Payload;
using tuplespace::PutStatus;

namespace {

struct GrantedTask {
  std::shared_ptr<const Task> task;
  TaskMemory memory;
};

// The task that was granted. `is_here`: whether it may use a tuple of the cache. Throws
// std::exception with the reason if no handler may run it.
GrantedTask TaskOf(const tuplespace::Grant& grant, const std::function<bool(const Key&)>& is_here) {
  if (!grant.task) throw std::invalid_argument("the tuple is not a task");
  auto task = std::make_shared<const Task>(DecodeTask(grant.payload, grant.task->inputs.size()));
  const TaskMemory memory = MemoryOf(*task);
  if (memory.need_bytes() > grant.task->need_bytes) {
    throw std::invalid_argument(fmt::format("task: declares a need of {} bytes, but uses {}",
                                            grant.task->need_bytes, memory.need_bytes()));
  }
  std::optional<std::string> problem = ProblemOfKeys(*task, grant.key, grant.task->inputs);
  if (!problem) problem = ProblemOfInputs(*task, grant, is_here);
  if (problem) throw std::invalid_argument(*problem);
  return {std::move(task), memory};
}

// Whether the space has exactly this result. A duplicate may differ from what it has: the space
// cannot compare with bytes that stay on another device.
bool Counts(const tuplespace::CompleteReply& reply, std::size_t result) {
  return result < reply.results.size() && reply.results[result] == PutStatus::kStored;
}

}  // namespace

void Handler::Impl::OnGrants(tuplespace::RequestId get, std::uint32_t asked, ReplyBody&& reply) {
  const bool current = open_get == get;
  if (current) open_get.reset();
  if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
    AskForLess(*error, asked);
    if (current) Step(GetEnded{});
    return;
  }
  auto& grants = std::get<tuplespace::Grants>(reply);
  if (grants.grants.empty()) {
    if (current) Step(GetEnded{});
    return;
  }
  for (tuplespace::Grant& grant : grants.grants) {
    // The core asks again when it has seen the last one.
    OnGrant(std::move(grant), current && &grant == &grants.grants.back());
  }
}

// The broker refused a request for `asked` tasks. Others choose the tasks, so that must not end
// every handler that asks for them. No lease remains: the broker gives back the tasks of an answer
// that it cannot send. Throws SpaceError if less would not help.
void Handler::Impl::AskForLess(const tuplespace::RequestError& error, std::uint32_t asked) {
  if (error.code != tuplespace::ErrorCode::kTooLarge || asked <= 1) {
    throw tuplespace::SpaceError(error.code, error.text);
  }
  most_asked = std::min(most_asked, asked / 2);
  Log(fmt::format("the broker did not give {} tasks at once: {}; asking for {} from now on", asked,
                  error.text, most_asked));
}

void Handler::Impl::OnGrant(tuplespace::Grant&& grant, bool current) {
  Flight flight;
  GrantedTask granted;
  try {
    granted = TaskOf(grant, [this](const Key& key) { return core.MayUse(key); });
  } catch (const std::exception& error) {
    ++report.failed;
    Log(fmt::format("cannot run {}: {}", grant.key.ToString(), error.what()));
    Submit(tuplespace::Fail{{std::move(grant.key), grant.fence}, error.what()});
    if (current) Step(GetEnded{});
    return;
  }
  flight.task = std::move(granted.task);
  flight.flops = Flops(*flight.task);
  TaskGranted event;
  event.lease = {std::move(grant.key), grant.fence};
  event.lease_us = grant.lease_us;
  event.current = current;
  event.gathering_bytes = granted.memory.gathering_bytes;
  event.computing_bytes = granted.memory.computing_bytes;
  event.timed = flight.task->timed;
  event.need_bytes = grant.task->need_bytes;
  event.flops = flight.flops;
  event.chunk = flight.task->chunk;
  event.resident_bytes = ResidentBytes(*flight.task);
  event.inputs = std::move(grant.task->inputs);
  event.whole = WholeInputs(*flight.task, event.inputs.size());
  const std::vector<std::uint64_t> right_bytes = InputBytes(*flight.task, event.inputs.size());
  if (capacity.bytes_travel) {
    event.kept_from_bytes = options.holds_from_bytes;
    event.right_bytes = right_bytes;
    event.ahead = flight.task->ahead;
  }
  event.sent.assign(event.inputs.size(), false);
  event.input_bytes.assign(event.inputs.size(), 0);
  flight.inputs.resize(event.inputs.size());
  for (std::size_t i = 0; i < grant.inputs.size() && i < event.inputs.size(); ++i) {
    flight.input_is_resident =
        flight.input_is_resident || (!grant.input_sent[i] && grant.inputs[i].resident);
    if (!grant.input_sent[i]) {
      tuplespace::FoundTuple& input = grant.inputs[i];
      const bool is_right = right_bytes[i] == 0 || input.payload_bytes == right_bytes[i];
      if (input.resident && !is_right) flight.wrong_size.push_back(event.inputs[i]);
      if (input.place && is_right) flight.placed.push_back(std::move(input));
      continue;
    }
    event.sent[i] = true;
    event.input_bytes[i] = grant.inputs[i].payload.size();
    flight.inputs[i].payload = std::move(grant.inputs[i].payload);
  }
  for (const Piece& piece : flight.task->pieces) {
    if (static_cast<std::int32_t>(piece.input) == grant.task->affinity &&
        event.whole[piece.input] && event.sent[piece.input]) {
      event.keep_input = flight.keep_input = piece.input;
    }
  }
  flight.input_keys = event.inputs;
  arriving = std::move(flight);
  std::vector<HandlerAction> actions = core.Step(std::move(event), MonotonicUs());
  flights[core.last_flight()] = std::move(*arriving);
  arriving.reset();
  Apply(std::move(actions));
}

void Handler::Impl::OnOutcome(DeviceOutcome&& outcome) {
  next_report_us = std::min(next_report_us, MonotonicUs() + report_every_us);
  report.busy_s += outcome.seconds;
  const FlightId id = outcome.flight;
  // Its leases end with the connection, so other handlers get the tasks at once.
  if (outcome.lost) throw DeviceLost(outcome.cause);
  if (outcome.failed) {
    OnTaskFailed(id, outcome.cause);
    return;
  }
  ++report.tasks;
  TaskFinished event;
  event.flight = id;
  event.took_us = static_cast<std::int64_t>(outcome.seconds * 1e6);
  Flight& flight = flights.at(id);
  report.gflop += static_cast<double>(flight.flops) * 1e-9;
  if (speed_watch->Note(WatchedTaskOf(*flight.task, flight.flops), event.took_us, MonotonicUs())) {
    ReportSpeed();
  }
  for (const TaskResult& result : outcome.results) {
    const bool resident = result.resident_bytes > 0;
    const std::uint64_t bytes = resident ? result.resident_bytes : result.payload.size();
    event.result_bytes += bytes;
    if (result.kept) event.kept.push_back({result.key, bytes, resident});
  }
  flight.outcome = std::move(outcome);
  Step(std::move(event));
}

void Handler::Impl::OnTaskFailed(FlightId id, const std::string& cause) {
  ++report.failed;
  Log(fmt::format("a {} task failed: {}", TaskKindName(flights.at(id).task->kind), cause));
  flights.erase(id);
  Step(TaskFailed{id, cause});
}

void Handler::Impl::Do(const AskForTask& action) {
  if (open_get) Submit(tuplespace::Cancel{*open_get});
  tuplespace::Get get;
  get.pattern = RunnableTasks(capacity.exact, capacity.fast);
  get.offer_bytes = action.offer_bytes;
  get.max_count = std::min(action.count, most_asked);
  get.share = action.share;
  get.ns_per_kib = action.ns_per_kib;
  get.holds_from_bytes = options.holds_from_bytes;
  get.with_inputs = true;
  get.direct = client.fetches_directly();
  // The reply comes from Poll, so the id is set by then.
  auto id = std::make_shared<tuplespace::RequestId>(0);
  const std::uint32_t asked = get.max_count;
  *id = client.Submit(std::move(get), [this, id, asked](ReplyBody&& reply) {
    OnGrants(*id, asked, std::move(reply));
  });
  open_get = *id;
}

void Handler::Impl::Do(const StopAsking&) {
  if (open_get) Submit(tuplespace::Cancel{*open_get});
}

void Handler::Impl::Do(const RunTask& action) {
  const auto at = flights.find(action.flight);
  if (at == flights.end()) return;  // it failed, as an input had no room
  Flight& flight = at->second;
  DeviceJob job{action.flight, flight.task, std::move(flight.inputs), flight.keep_input, 0};
  job.resident = action.resident;
  job.flops = flight.flops;
  // As for inputs of that size (Get::holds_from_bytes): other tasks of this handler may read them.
  if (capacity.bytes_travel) job.keeps_from_bytes = options.holds_from_bytes;
  const std::vector<bool> whole = WholeInputs(*job.task, job.inputs.size());
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    TaskInput& input = job.inputs[i];
    if (input.buffer) {
      ++report.tile_hits;  // taken from the cache
    } else if (input.payload.empty()) {
      const auto it = cached.find(flight.input_keys[i]);
      if (it != cached.end()) {
        input.buffer = it->second;
        ++report.tile_hits;
      }
    } else if (whole[i]) {
      try {
        input.buffer = device->Upload(input.payload);
      } catch (const DeviceLost&) {
        throw;
      } catch (const std::exception& error) {
        OnTaskFailed(action.flight, error.what());
        return;
      }
      input.payload = {};
    } else {
      job.waiting_bytes += input.payload.size();
    }
  }
  device_thread->Add(std::move(job));
}

void Handler::Impl::Do(const ReportDone& action) {
  Flight& flight = flights.at(action.flight);
  auto token = std::make_shared<ReleaseToken>(releases, action.flight);
  const bool in_process = options.endpoint.starts_with("inproc://");
  tuplespace::Complete complete;
  complete.lease = action.lease;
  std::vector<std::size_t> resident;  // indexes of results
  for (TaskResult& result : flight.outcome.results) {
    if (injector) Spoil(result);
    tuplespace::Tuple tuple;
    tuple.key = std::move(result.key);
    tuple.held = result.kept != nullptr;
    tuple.resident_bytes = result.resident_bytes;
    // What is here already may count, and what leaves may not.
    if (result.kept) {
      const auto [at, is_new] = cached.try_emplace(tuple.key);
      if (is_new || result.resident_bytes > 0) at->second = std::move(result.kept);
    }
    if (result.resident_bytes > 0) {
      ++report.resident_results;
      // If that takes no download, other handlers get it without waking this thread.
      if (!capacity.own_memory && client.listens()) {
        client.Offer(tuple.key, device->Fetch(cached.at(tuple.key)));
      }
      resident.push_back(complete.results.size());
      complete.results.push_back(std::move(tuple));
      continue;
    }
    const std::byte* data = result.payload.data();
    const std::size_t size = result.payload.size();
    if (in_process) {
      // The broker would hold this very memory, and with it this handler's budget.
      tuple.payload = Payload::Copy(data, size).WithHash(result.payload.hash());
      complete.results.push_back(std::move(tuple));
      continue;
    }
    auto owner = std::make_shared<TokenedBytes>(TokenedBytes{token, result.payload.owner()});
    if (result.payload.region() != nullptr) ++report.shared_results;
    tuple.payload = Payload(std::move(owner), data, size, result.payload.region())
                        .WithHash(result.payload.hash());
    result.payload = {};
    complete.results.push_back(std::move(tuple));
  }
  flight.outcome = {};
  std::vector<Key> keys;
  for (const std::size_t i : resident) ++resident_puts[keys.emplace_back(complete.results[i].key)];
  client.Submit(std::move(complete),
                [this, id = action.flight, lease = action.lease, task = flight.task, resident, keys,
                 token](ReplyBody&& reply) {
                  OnCompleted(id, lease, *task, reply);
                  OnResident(resident, keys, reply);
                });
}

// If the broker never takes the results, the task has failed, and its owner should know; otherwise
// it would be computed again for ever. A kept result that the space did not take is forgotten, as
// other tasks must read what the space has under that key.
void Handler::Impl::OnCompleted(FlightId id, const tuplespace::LeaseRef& lease, const Task& task,
                                const ReplyBody& reply) {
  if (const auto* done = std::get_if<tuplespace::CompleteReply>(&reply)) {
    for (std::size_t i = 0; i < task.outputs.size(); ++i) {
      if (!Counts(*done, i)) Step(ResultRefused{task.outputs[i].key, id});
    }
    return Step(ResultsCount{id});
  }
  const auto* error = std::get_if<tuplespace::RequestError>(&reply);
  if (error == nullptr) return;
  ++report.failed;
  const std::string cause = fmt::format("the broker refused its results: {}", error->text);
  Log(fmt::format("{}: {}", lease.key.ToString(), cause));
  Submit(tuplespace::Fail{lease, cause});
  for (const Output& output : task.outputs) Step(ResultRefused{output.key, id});
}

// Uses memory beyond the limit, which is acceptable in experiments.
void Handler::Impl::Spoil(TaskResult& result) {
  const auto spoiled = injector->OfResult(result.payload);
  const auto kept = injector->OfKept(result.payload);
  try {
    if (result.kept && (kept || spoiled)) result.kept = device->Upload(kept ? *kept : *spoiled);
  } catch (const OutOfMemory&) {
    // Then the kept copy stays right.
  }
  if (spoiled) result.payload = *spoiled;
}

void Handler::Impl::Do(const ReportFailed& action) {
  if (flights.erase(action.flight) > 0) {  // it was computed, and the core refused its results
    ++report.failed;
    Log(fmt::format("{} failed: {}", action.lease.key.ToString(), action.cause));
  }
  if (IsPlanted(HandlerBug::kFailedTaskIsCompleted)) {
    return Submit(tuplespace::Complete{action.lease, {}});
  }
  Submit(tuplespace::Fail{action.lease, action.cause});
}

void Handler::Impl::Do(const PutBack& action) {
  flights.erase(action.flight);
  Submit(tuplespace::Release{action.lease});
}

void Handler::Impl::Do(const ExtendLease& action) {
  Submit(tuplespace::Extend{action.lease, action.lease_us});
}

void Handler::Impl::Do(const KeepInput& action) {
  cached[action.key] = flights.at(action.flight).outcome.kept_input;
}

void Handler::Impl::Do(const KeepArrived& action) {
  const auto it = flights.find(action.flight);
  // It failed, as another of its inputs had no room; the bytes of this one went with it.
  if (it == flights.end()) return Step(NotKept{action.key});
  TaskInput& input = it->second.inputs[action.input];
  try {
    input.buffer = device->Upload(input.payload);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    Step(NotKept{action.key});
    return OnTaskFailed(action.flight, error.what());
  }
  input.payload = {};
  cached[action.key] = input.buffer;
}

void Handler::Impl::Do(const DropCached& action) {
  client.Withdraw(action.key);
  cached.erase(action.key);
}

void Handler::Impl::Do(const TakeCached& action) {
  Flight& flight = flights.at(action.flight);
  const auto it = cached.find(flight.input_keys[action.input]);
  if (it == cached.end()) return;  // then the task fails, as its input has another size
  client.Withdraw(it->first);
  flight.inputs[action.input].buffer = std::move(it->second);
  cached.erase(it);
}

void Handler::Impl::Do(const AnnounceHeld& action) {
  Submit(tuplespace::Hold{action.held, action.dropped});
}

}  // namespace acan
