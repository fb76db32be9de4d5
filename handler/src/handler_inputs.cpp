// Handler: inputs that are missing when a task is granted, and tuples that its tasks will need
// soon.
#include <algorithm>
#include <utility>

#include "handler_impl.h"

namespace acan {

using tuplespace::Key;
using tuplespace::Payload;

namespace {
// After this time the task goes back: its input may be gone, or on a slow link.
constexpr std::int64_t kSupplyWaitUs = 2'000'000;
constexpr std::int64_t kSupplyOverLinkWaitUs = 30'000'000;
// The tuple may not have been put yet. After this time the task that needs it fetches it.
constexpr std::int64_t kAheadWaitUs = 5'000'000;
}  // namespace

// Runs again whenever something has come. A fetch in progress serves all tasks that need the tuple.
void Handler::Impl::Do(const FetchInputs& action) {
  const auto at = flights.find(action.flight);
  if (at == flights.end()) return;
  bool whole = true;
  std::vector<Key> missing;
  for (const std::size_t i : action.inputs) {
    Payload& payload = at->second.inputs[i].payload;
    if (!payload.empty()) continue;
    const Key& key = at->second.input_keys[i];
    const auto coming = ahead.find(key);
    const bool comes_ahead = coming != ahead.end() && coming->second.empty();
    if (!comes_ahead && !under_way.contains(key)) {
      payload = CameForAnother(key);
      if (!payload.empty()) continue;
      under_way.insert(key);
      missing.push_back(key);
    }
    whole = false;
  }
  if (whole) return EndFetch(action);
  fetches.push_back(action);
  Fetch(action.flight, missing);
}

// A task keeps the inputs that came for it until the last has come; only then may the cache have
// them.
Payload Handler::Impl::CameForAnother(const Key& key) const {
  for (const FetchInputs& action : fetches) {
    const auto at = flights.find(action.flight);
    if (at == flights.end()) continue;
    for (const std::size_t i : action.inputs) {
      if (at->second.input_keys[i] == key) return at->second.inputs[i].payload;
    }
  }
  return {};
}

// Of `missing`, tuples from other handlers are fetched one by one, so that a task that needs one
// does not wait for all.
void Handler::Impl::Fetch(FlightId id, const std::vector<Key>& missing) {
  const Flight& flight = flights.at(id);
  const std::vector<std::uint64_t> right_bytes = InputBytes(*flight.task, flight.inputs.size());
  std::vector<tuplespace::FoundTuple>& placed = flights.at(id).placed;
  std::vector<tuplespace::FoundTuple> unplaced;
  for (const Key& key : missing) {
    const auto& wrong = flight.wrong_size;
    if (std::find(wrong.begin(), wrong.end(), key) != wrong.end()) {
      HaveSupplied(id, key);
      continue;
    }
    const auto at = std::find_if(placed.begin(), placed.end(),
                                 [&](const auto& input) { return input.key == key; });
    if (at == placed.end()) {
      const auto input = std::find(flight.input_keys.begin(), flight.input_keys.end(), key);
      unplaced.emplace_back().key = key;
      unplaced.back().payload_bytes = right_bytes[input - flight.input_keys.begin()];
      continue;
    }
    std::vector<tuplespace::FoundTuple> one;
    one.push_back(std::move(*at));
    placed.erase(at);
    Read(id, std::move(one));
  }
  if (!unplaced.empty()) Read(id, std::move(unplaced));
}

// Its maker says that it has another size than the task says. The space asks for it, and without it
// the space loses it after a while, so that it is made again. Its bytes do not come here.
void Handler::Impl::HaveSupplied(FlightId id, const Key& key) {
  tuplespace::Read read{{tuplespace::Pattern::Of(key)}};
  read.metadata_only = read.in_space = true;
  read.wait_us = kSupplyOverLinkWaitUs;
  client.Submit(std::move(read), [this, id, key](ReplyBody&& reply) {
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found != nullptr && !found->tuples.empty() && Waits(id, {key})) {
      const tuplespace::FoundTuple& input = found->tuples.front();
      const Flight& flight = flights.at(id);
      const auto at = std::find(flight.input_keys.begin(), flight.input_keys.end(), key);
      const std::uint64_t right_bytes =
          InputBytes(*flight.task, flight.inputs.size())[at - flight.input_keys.begin()];
      // It may have been made again meanwhile.
      if (input.payload_bytes != right_bytes) {
        OnTaskFailed(id, fmt::format("its input {} of {} has {} bytes, others than the task says",
                                     key.ToString(), input.put_by, input.payload_bytes));
      }
    }
    OnInputs(id, {key}, tuplespace::Found{});  // if it did not fail, the task goes back
  });
}

void Handler::Impl::Read(FlightId id, std::vector<tuplespace::FoundTuple> wanted) {
  std::int64_t wait_us = 0;
  if (flights.at(id).input_is_resident) {
    wait_us = capacity.bytes_travel ? kSupplyOverLinkWaitUs : kSupplyWaitUs;
  }
  std::vector<Key> keys;
  for (const tuplespace::FoundTuple& tuple : wanted) keys.push_back(tuple.key);
  client.ReadDirectly(std::move(wanted), wait_us,
                      [this, id, keys = std::move(keys)](ReplyBody&& reply) {
                        OnInputs(id, keys, std::move(reply));
                      });
}

// Whether the task still waits for one of these inputs: it may be gone by now, or what it waited
// for may have come in another way.
bool Handler::Impl::Waits(FlightId id, const std::vector<Key>& keys) const {
  const auto at = flights.find(id);
  if (at == flights.end()) return false;
  return std::any_of(fetches.begin(), fetches.end(), [&](const FetchInputs& action) {
    return action.flight == id &&
           std::any_of(action.inputs.begin(), action.inputs.end(), [&](std::size_t i) {
             return at->second.inputs[i].payload.empty() &&
                    std::find(keys.begin(), keys.end(), at->second.input_keys[i]) != keys.end();
           });
  });
}

// Others may wait for the same inputs.
void Handler::Impl::OnInputs(FlightId id, const std::vector<Key>& keys, ReplyBody&& reply) {
  for (const Key& key : keys) under_way.erase(key);
  std::vector<tuplespace::FoundTuple> came;
  if (auto* found = std::get_if<tuplespace::Found>(&reply)) came = std::move(found->tuples);
  const auto* error = std::get_if<tuplespace::RequestError>(&reply);
  const auto empty = std::find_if(came.begin(), came.end(),
                                  [](const auto& tuple) { return tuple.payload.empty(); });
  if (!Waits(id, keys)) {
    // No task fails.
  } else if (error != nullptr && error->code == tuplespace::ErrorCode::kDamaged) {
    // If it were given back, it would come again. If it fails everywhere, it is parked and the
    // manager learns why.
    OnTaskFailed(id, error->text);
  } else if (empty != came.end() && empty->payload_bytes == 0) {
    OnTaskFailed(id, fmt::format("its input {} has no bytes", empty->key.ToString()));
  } else if (empty != came.end() || came.size() != keys.size()) {
    Step(GivenUp{id});
  }
  GoOnWith(came);
}

// Tasks that waited for a tuple that did not come fetch it themselves.
void Handler::Impl::GoOnWith(const std::vector<tuplespace::FoundTuple>& came) {
  for (const FetchInputs& action : std::exchange(fetches, {})) {
    const auto flight = flights.find(action.flight);
    if (flight == flights.end()) continue;
    for (const std::size_t i : action.inputs) {
      const auto tuple = std::find_if(came.begin(), came.end(), [&](const auto& each) {
        return each.key == flight->second.input_keys[i];
      });
      if (tuple != came.end()) flight->second.inputs[i].payload = tuple->payload;
    }
    Do(action);
  }
}

void Handler::Impl::EndFetch(const FetchInputs& action) {
  InputsArrived arrived{action.flight};
  const std::vector<TaskInput>& inputs = flights.at(action.flight).inputs;
  for (const std::size_t i : action.inputs) {
    if (capacity.bytes_travel) arrived.bytes.emplace_back(i, inputs[i].payload.size());
  }
  Step(arrived);
}

// ---- ahead of the tasks that need them ---------------------------------------------------------

void Handler::Impl::Do(const FetchAhead& action) {
  ahead[action.key] = {};
  std::vector<tuplespace::FoundTuple> wanted(1);
  wanted[0].key = action.key;
  wanted[0].payload_bytes = action.bytes;
  client.ReadDirectly(std::move(wanted), kAheadWaitUs, [this, key = action.key](ReplyBody&& reply) {
    OnAhead(key, std::move(reply));
  });
}

// A task that was granted meanwhile has fetched it for itself.
void Handler::Impl::OnAhead(const Key& key, ReplyBody&& reply) {
  std::vector<tuplespace::FoundTuple> tuples;
  if (auto* found = std::get_if<tuplespace::Found>(&reply)) tuples = std::move(found->tuples);
  if (tuples.size() != 1) tuples.clear();
  ahead.erase(key);
  GoOnWith(tuples);
  const std::uint64_t bytes = tuples.empty() ? 0 : tuples[0].payload.size();
  if (bytes > 0) ahead[key] = std::move(tuples[0].payload);
  Step(AheadArrived{key, bytes});
  ahead.erase(key);
}

void Handler::Impl::Do(const KeepAhead& action) {
  try {
    cached[action.key] = device->Upload(ahead.at(action.key));
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception&) {
    Step(NotKept{action.key});
  }
}

}  // namespace acan
