// Handler: inputs that are not here when a task is granted, and those that its tasks will need
// soon.
#include <algorithm>
#include <utility>

#include "handler_impl.h"

namespace acan {

using tuplespace::Key;
using tuplespace::Payload;
using tuplespace::ReplyBody;

namespace {
// Then the task goes back: its input may be gone, or on a link that is slow.
constexpr std::int64_t kSupplyWaitUs = 2'000'000;
constexpr std::int64_t kSupplyOverLinkWaitUs = 30'000'000;
// It may not have been put yet. After that the task that needs it fetches it.
constexpr std::int64_t kAheadWaitUs = 5'000'000;
}  // namespace

// Again if it had to wait for what was under way.
void Handler::Impl::Do(const FetchInputs& action) {
  const auto at = flights.find(action.flight);
  if (at == flights.end()) return;
  Flight& flight = at->second;
  std::vector<std::size_t> missing;
  for (const std::size_t i : action.inputs) {
    if (!flight.inputs[i].payload.empty()) continue;
    const auto coming = ahead.find(flight.input_keys[i]);
    if (coming != ahead.end() && coming->second.empty()) return wait_for_ahead.push_back(action);
    missing.push_back(i);
  }
  if (missing.empty()) return EndFetch(action);
  std::int64_t wait_us = 0;
  if (flight.input_is_resident) {
    wait_us = capacity.bytes_travel ? kSupplyOverLinkWaitUs : kSupplyWaitUs;
  }
  std::vector<tuplespace::FoundTuple> wanted;
  for (const std::size_t i : missing) {
    const Key& key = flight.input_keys[i];
    const auto placed = std::find_if(flight.placed.begin(), flight.placed.end(),
                                     [&](const auto& input) { return input.key == key; });
    if (placed != flight.placed.end()) {
      wanted.push_back(std::move(*placed));
    } else {
      wanted.emplace_back().key = key;
    }
  }
  flight.placed.clear();
  client.ReadDirectly(std::move(wanted), wait_us, [this, action, missing](ReplyBody&& reply) {
    OnInputs(action, missing, std::move(reply));
  });
}

void Handler::Impl::OnInputs(const FetchInputs& action, const std::vector<std::size_t>& fetched,
                             ReplyBody&& reply) {
  const auto it = flights.find(action.flight);
  auto* found = std::get_if<tuplespace::Found>(&reply);
  if (it == flights.end()) return;
  const auto* error = std::get_if<tuplespace::RequestError>(&reply);
  if (error != nullptr && error->code == tuplespace::ErrorCode::kDamaged) {
    // Given back it would come again; failed everywhere it is parked, and the manager told why.
    OnTaskFailed(action.flight, error->text);
    return;
  }
  if (found == nullptr || found->tuples.size() != fetched.size()) {
    Step(GivenUp{action.flight});
    return;
  }
  for (std::size_t i = 0; i < fetched.size(); ++i) {
    it->second.inputs[fetched[i]].payload = std::move(found->tuples[i].payload);
  }
  EndFetch(action);
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
  client.ReadDirectly(std::move(wanted), kAheadWaitUs,
                      [this, key = action.key](ReplyBody&& reply) { OnAhead(key, reply); });
}

// A task that was granted meanwhile has it for itself.
void Handler::Impl::OnAhead(const Key& key, const ReplyBody& reply) {
  const auto* found = std::get_if<tuplespace::Found>(&reply);
  Payload payload;
  if (found != nullptr && found->tuples.size() == 1) payload = found->tuples[0].payload;
  ahead.erase(key);
  for (const FetchInputs& action : std::exchange(wait_for_ahead, {})) {
    const auto flight = flights.find(action.flight);
    if (flight == flights.end()) continue;
    for (const std::size_t i : action.inputs) {
      if (flight->second.input_keys[i] == key) flight->second.inputs[i].payload = payload;
    }
    Do(action);
  }
  const std::uint64_t bytes = payload.size();
  if (bytes > 0) ahead[key] = std::move(payload);
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
