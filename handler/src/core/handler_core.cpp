#include "acan/handler/handler_core.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/handler/planted.h"
#include "fmt/format.h"

namespace acan {

using tuplespace::Key;

std::vector<HandlerAction> HandlerCore::Start() {
  std::vector<HandlerAction> out;
  demand_.Ask(WorkloadAt(0), 0, out);
  return out;
}

std::vector<HandlerAction> HandlerCore::Step(const HandlerEvent& event, std::int64_t now_us) {
  StepActions step;
  std::visit([&](const auto& e) { On(e, now_us, step); }, event);
  assert(HeldBytes() <= limit_bytes_);
  CacheEviction::ShrinkTo(limit_bytes_ - reserved_bytes_, cache_, step);
  std::vector<HandlerAction> out = step.Take();
  if (draining_ || leaving_bytes_ >= kMaxLeavingBytes) {
    demand_.StopAsking(out);
  } else {
    demand_.Ask(WorkloadAt(now_us), now_us, out);
  }
  owed_.NoteIdle(flights_.empty(), link_, now_us);
  return out;
}

std::int64_t HandlerCore::NextDeadlineUs() const {
  return std::min(
      {demand_.next_us(), extend_check_us_, owed_.NextUs(), eviction_.NextCheckUs(cache_)});
}

// If there are many tasks, which are then short, the average stands for each, as this runs after
// every event.
Workload HandlerCore::WorkloadAt(std::int64_t now_us) const {
  Workload work{working_, 0, 0, flights_.empty(), FreeBytes(), reserved_bytes_, link_.ns_per_kib()};
  const Pace& pace = demand_.pace();
  if (working_ > depth_) {
    work.all_us = pace.RunUs(working_flops_);
    work.longest_us = pace.MeanUs();
    return work;
  }
  bool runs = true;  // the first one; tasks run in the order in which they came
  for (const auto& [id, flight] : flights_) {
    if (flight.phase == Phase::kSending) continue;
    const std::int64_t run_us = pace.RunUs(flight.flops);
    work.all_us += runs ? std::max<std::int64_t>(0, run_us - (now_us - progress_us_)) : run_us;
    work.longest_us = std::max(work.longest_us, run_us);
    runs = false;
  }
  return work;
}

// ---- memory ------------------------------------------------------------------------------------

std::uint64_t HandlerCore::FreeBytes() const {
  return limit_bytes_ - std::min(limit_bytes_, HeldBytes());
}

// Without the cache entries that the flight uses at the time. Whole ones stay until it ends; pieces
// stay in addition to the buffers that it computes with.
std::uint64_t HandlerCore::ChargeOf(const TaskGranted& event, const Flight& flight) {
  std::uint64_t pinned_bytes = 0, whole_bytes = 0;
  for (const Pinned& pinned : flight.pinned) {
    pinned_bytes += pinned.entry.bytes();
    if (pinned.whole) whole_bytes += pinned.entry.bytes();
  }
  return std::max(event.gathering_bytes - std::min(event.gathering_bytes, pinned_bytes),
                  event.computing_bytes - std::min(event.computing_bytes, whole_bytes));
}

// If the task does not fit otherwise, pieces that only it uses leave the cache. So a task always
// fits if it needs no more than was free before the grant: its charge and the entries that it newly
// pins are then at most its need.
bool HandlerCore::Reserve(const TaskGranted& event, FlightId id, Flight& flight, StepActions& out) {
  const auto fits = [&] { return ChargeOf(event, flight) <= FreeBytes(); };
  for (auto pinned = flight.pinned.begin(); pinned != flight.pinned.end() && !fits();) {
    if (pinned->whole || !cache_.Take(pinned->entry, out)) {
      ++pinned;
      continue;
    }
    out.Add(TakeCached{id, pinned->input});
    pinned = flight.pinned.erase(pinned);
  }
  if (!fits() && !IsPlanted(HandlerBug::kBudgetIsIgnored)) return false;
  SetCharge(flight, ChargeOf(event, flight));
  return true;
}

// The space believes that the inputs that it sent are kept.
void HandlerCore::DropSent(const TaskGranted& event, StepActions& out) const {
  for (std::size_t i = 0; i < event.inputs.size(); ++i) {
    const bool counts = event.sent[i] && event.input_bytes[i] >= event.kept_from_bytes;
    if (counts && !cache_.Contains(event.inputs[i])) out.NoteDropped(event.inputs[i]);
  }
}

// Inputs that came over a link are kept for the handler's other tasks, too. A whole input was
// counted as the task's, at most with what the task is charged; the rest of it, and a piece, which
// is kept beside its copy, need room. An input whose size
// differs from the task's description was put by a client that lies: the task fails, and the input
// is not kept, as a result of this handler may have the same key.
void HandlerCore::KeepInputs(FlightId id, Flight& flight,
                             const std::vector<std::pair<std::size_t, std::uint64_t>>& arrived,
                             std::int64_t now_us, StepActions& out) {
  std::vector<std::size_t> kept;
  for (const auto& [i, bytes] : arrived) {
    if (bytes < flight.kept_from_bytes) continue;
    const Key& key = flight.inputs[i];
    if (cache_.Contains(key)) continue;
    const bool whole = flight.whole.empty() || flight.whole[i];
    const std::uint64_t right_bytes = flight.right_bytes.empty() ? 0 : flight.right_bytes[i];
    const bool is_right = right_bytes == 0 || right_bytes == bytes;
    const std::uint64_t charged_bytes = whole ? std::min(flight.charge_bytes, bytes) : 0;
    if (!is_right || !cache_.IsNewest(key) || FreeBytes() < bytes - charged_bytes) {
      out.NoteDropped(key);
      continue;
    }
    SetCharge(flight, flight.charge_bytes - charged_bytes);
    flight.pinned.push_back({cache_.AddPinned({key, bytes}, now_us, out).first, i, whole});
    out.NoteHeld(key);
    kept.push_back(i);
  }
  CacheEviction::ShrinkTo(limit_bytes_ - std::min(limit_bytes_, reserved_bytes_), cache_, out);
  for (const std::size_t i : kept) out.Add(KeepArrived{id, i, flight.inputs[i]});
}

void HandlerCore::SetCharge(Flight& flight, std::uint64_t bytes) {
  reserved_bytes_ = reserved_bytes_ - flight.charge_bytes + bytes;
  flight.charge_bytes = bytes;
}

void HandlerCore::Unpin(Flight& flight, std::int64_t now_us, StepActions& out) {
  for (const Pinned& pinned : flight.pinned) cache_.Unpin(pinned.entry, now_us, out);
  flight.pinned.clear();
}

// ---- tasks -------------------------------------------------------------------------------------

HandlerCore::Flight HandlerCore::NewFlight(const TaskGranted& event, std::int64_t now_us) {
  Flight flight;
  flight.lease = event.lease;
  flight.granted_us = now_us;
  flight.lease_us = event.lease_us;
  flight.extend_at_us = now_us + event.lease_us / 2;
  flight.timed = event.timed;
  flight.flops = event.flops;
  flight.need_bytes = event.need_bytes;
  return flight;
}

void HandlerCore::On(const TaskGranted& event, std::int64_t now_us, StepActions& out) {
  const bool is_wanted = demand_.NoteGrant(event, now_us);
  if (working_ == 0) progress_us_ = now_us;
  const FlightId id = next_flight_++;
  Flight flight = NewFlight(event, now_us);
  if (!event.inputs.empty()) eviction_.DropOlder(event.inputs.front(), cache_, out);
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < event.inputs.size(); ++i) {
    if (event.sent[i]) continue;
    if (const auto entry = cache_.PinIfUsable(event.inputs[i], now_us, out)) {
      const bool whole = event.whole.empty() || event.whole[i];
      flight.pinned.push_back({*entry, i, whole});
    } else {
      missing.push_back(i);
    }
  }
  if (const auto keep = event.keep_input; event.kept_from_bytes == UINT64_MAX && keep &&
                                          event.sent[*keep] &&
                                          !cache_.Contains(event.inputs[*keep])) {
    flight.input_to_keep = KeptResult{event.inputs[*keep], event.input_bytes[*keep]};
  }
  if (draining_ || !is_wanted || !Reserve(event, id, flight, out)) {
    // Granted for an older, larger offer, with the rest of a chunk, or while stopping: it goes back
    // unchanged.
    Unpin(flight, now_us, out);
    DropSent(event, out);
    out.Add(PutBack{id, flight.lease});
    return;
  }
  ++working_;
  working_flops_ += flight.flops;
  if (!flight.timed) extend_check_us_ = std::min(extend_check_us_, flight.extend_at_us);
  if (MayBeResident(event.resident_bytes)) {
    coming_resident_bytes_ += flight.resident_bytes = event.resident_bytes;
  }
  std::vector<std::pair<std::size_t, std::uint64_t>> arrived;
  if (event.kept_from_bytes != UINT64_MAX) {
    flight.kept_from_bytes = event.kept_from_bytes;
    flight.inputs = event.inputs;
    flight.whole = event.whole;
    flight.right_bytes = event.right_bytes;
    for (std::size_t i = 0; i < event.inputs.size(); ++i) {
      if (event.sent[i]) arrived.emplace_back(i, event.input_bytes[i]);
    }
  }
  KeepInputs(id, flight, arrived, now_us, out);
  if (missing.empty()) {
    out.Add(RunTask{id, flight.resident_bytes > 0});
  } else {
    flight.phase = Phase::kFetching;
    out.Add(FetchInputs{id, std::move(missing)});
  }
  flights_.emplace(id, std::move(flight));
  FetchSome(event.ahead, out);
}

void HandlerCore::On(const GetEnded&, std::int64_t, StepActions&) {
  demand_.NoteGetEnded();
}

void HandlerCore::On(const InputsArrived& event, std::int64_t now_us, StepActions& out) {
  const auto it = flights_.find(event.flight);
  if (it == flights_.end()) return;
  if (DeviceIsIdle()) progress_us_ = now_us;  // it begins with this task
  it->second.phase = Phase::kQueued;
  // The next inputs should travel while this task is computed.
  if (!event.bytes.empty()) demand_.NoteInputs(now_us - it->second.granted_us);
  KeepInputs(event.flight, it->second, event.bytes, now_us, out);
  out.Add(RunTask{event.flight, it->second.resident_bytes > 0});
}

// Tuples that arrive reduce the offer, so the two largest tasks must fit beside them, as beside
// results.
void HandlerCore::FetchSome(const std::vector<Ahead>& ahead, StepActions& out) {
  for (const auto& [key, bytes] : ahead) {
    if (coming_.size() >= kMaxComing) return;
    const std::uint64_t taken = std::min(limit_bytes_, HeldBytes() + MostNeeded());
    if (bytes == 0 || bytes > limit_bytes_ - taken || cache_.Contains(key)) continue;
    if (!coming_.emplace(key, bytes).second) continue;
    reserved_bytes_ += bytes;
    out.Add(FetchAhead{key, bytes});
  }
}

// The tuple is kept if no other entry has to go for it, until a task needs it or its room.
void HandlerCore::On(const AheadArrived& event, std::int64_t now_us, StepActions& out) {
  const auto coming = coming_.find(event.key);
  assert(coming != coming_.end());
  const std::uint64_t bytes = coming->second;
  coming_.erase(coming);
  reserved_bytes_ -= bytes;
  if (event.bytes != bytes || draining_ || cache_.Contains(event.key)) return;
  if (reserved_bytes_ + cache_.bytes() + bytes > limit_bytes_) return;
  cache_.AddAhead(event.key, bytes, now_us);
  out.NoteHeld(event.key);
  out.Add(KeepAhead{event.key});
}

void HandlerCore::On(const NotKept& event, std::int64_t, StepActions& out) {
  cache_.Forget(event.key, out);
}

// What is here may be another flight's result, which counts.
void HandlerCore::On(const ResultRefused& event, std::int64_t, StepActions& out) {
  cache_.Refuse(event.key, event.flight, out);
}

// A flight that was computed pins only its results.
void HandlerCore::On(const ResultsCount& event, std::int64_t, StepActions&) {
  const auto it = flights_.find(event.flight);
  if (it == flights_.end()) return;
  assert(it->second.phase == Phase::kSending);
  for (const Pinned& result : it->second.pinned) {
    result.entry.Accept(event.flight);
  }
}

void HandlerCore::On(const GivenUp& event, std::int64_t now_us, StepActions& out) {
  const auto it = flights_.find(event.flight);
  if (it == flights_.end()) return;
  EndWork(it->second);
  Unpin(it->second, now_us, out);
  SetCharge(it->second, 0);
  out.Add(PutBack{event.flight, it->second.lease});
  flights_.erase(it);
}

// No honest manager lets two tasks make results of one key and different sizes.
std::optional<std::string> HandlerCore::ProblemOf(const std::vector<KeptResult>& results) const {
  for (const KeptResult& result : results) {
    const auto here = cache_.entries().find(result.key);
    if (here == cache_.entries().end() || here->second.bytes == result.bytes) continue;
    return fmt::format("its result {} has {} bytes, but the one that is here has {}",
                       result.key.ToString(), result.bytes, here->second.bytes);
  }
  return std::nullopt;
}

void HandlerCore::On(const TaskFinished& event, std::int64_t now_us, StepActions& out) {
  const auto it = flights_.find(event.flight);
  assert(it != flights_.end() && it->second.phase == Phase::kQueued);
  if (const auto problem = ProblemOf(event.kept)) {
    return On(TaskFailed{event.flight, *problem}, now_us, out);
  }
  Flight& flight = it->second;
  EndWork(flight);
  demand_.NoteRun(flight.flops, event.took_us);
  progress_us_ = now_us;
  Unpin(flight, now_us, out);
  std::optional<KeptResult> input = std::move(flight.input_to_keep);
  flight.phase = Phase::kSending;
  // Two results may be the same buffer.
  std::uint64_t charge_bytes = std::min(event.result_bytes, flight.need_bytes);
  flight.leaving_bytes = event.result_bytes;
  for (const KeptResult& kept : event.kept) {
    if (kept.resident) flight.leaving_bytes -= std::min(flight.leaving_bytes, kept.bytes);
    // Until they are released they must stay, as their bytes are those of the results.
    const auto [entry, is_new] = cache_.AddPinned(kept, now_us, out);
    flight.pinned.push_back({entry});
    if (is_new) charge_bytes -= std::min(charge_bytes, kept.bytes);
    // A result that stays replaces the bytes that were here; one that leaves does not.
    if (is_new || kept.resident) entry.AwaitAnswer(event.flight);
    if (kept.resident) {
      entry.Owe();
      owed_.Add(kept.key, kept.bytes);
    }
  }
  leaving_bytes_ += flight.leaving_bytes;
  SetCharge(flight, charge_bytes);
  if (input && reserved_bytes_ + cache_.bytes() + input->bytes <= limit_bytes_ &&
      !cache_.Contains(input->key) && cache_.IsNewest(input->key)) {
    out.Add(KeepInput{event.flight, input->key});
    cache_.Add(*input, now_us, out);
    out.NoteHeld(input->key);
  }
  out.Add(ReportDone{event.flight, flight.lease});
  if (draining_) owed_.SupplyAll(out);
}

void HandlerCore::On(const TaskFailed& event, std::int64_t now_us, StepActions& out) {
  const auto it = flights_.find(event.flight);
  assert(it != flights_.end());
  progress_us_ = now_us;
  EndWork(it->second);
  Unpin(it->second, now_us, out);
  SetCharge(it->second, 0);
  out.Add(ReportFailed{it->second.lease, event.cause, event.flight});
  flights_.erase(it);
}

void HandlerCore::On(const Released& event, std::int64_t now_us, StepActions& out) {
  const auto it = flights_.find(event.flight);
  if (it == flights_.end()) return;
  leaving_bytes_ -= it->second.leaving_bytes;
  SetCharge(it->second, 0);
  for (const Pinned& result : it->second.pinned) {
    result.entry.EndAwaiting(event.flight, out);
  }
  Unpin(it->second, now_us, out);
  flights_.erase(it);
}

void HandlerCore::On(const ConnectionLost& event, std::int64_t, StepActions& out) {
  link_.Begin(event.bytes_travel);
  // Nobody can have what the space lost with the session: its bytes would cross the link for
  // nothing.
  for (const Key& key : owed_.EndAllBut(event.put_again)) cache_.Release(key, out);
  if (draining_) owed_.SupplyAll(out);
  // The space does not know what we hold: say it again. Tasks in flight run on; their results count
  // if they are the first, whatever became of the leases.
  for (const auto& [key, entry] : cache_.entries()) {
    if (entry.IsAnnounced()) out.NoteHeld(key);
  }
}

void HandlerCore::On(const Drain&, std::int64_t now_us, StepActions& out) {
  draining_ = true;
  owed_.SupplyAll(out);
  for (auto it = flights_.begin(); it != flights_.end();) {
    Flight& flight = it->second;
    if (flight.phase == Phase::kFetching) {
      EndWork(flight);
      Unpin(flight, now_us, out);
      SetCharge(flight, 0);
      out.Add(PutBack{it->first, flight.lease});
      it = flights_.erase(it);
    } else {
      ++it;
    }
  }
}

void HandlerCore::On(const TimePassed&, std::int64_t now_us, StepActions& out) {
  if (now_us >= extend_check_us_) ExtendLeases(now_us, out);
  owed_.SupplyDue(now_us, out);
  if (now_us >= eviction_.NextCheckUs(cache_)) eviction_.DropCold(now_us, cache_, out);
}

void HandlerCore::ExtendLeases(std::int64_t now_us, StepActions& out) {
  extend_check_us_ = tuplespace::kForeverUs;
  for (auto& [id, flight] : flights_) {
    if (flight.timed || flight.phase == Phase::kSending) continue;
    if (now_us >= flight.extend_at_us) {
      flight.extend_at_us = now_us + flight.lease_us / 2;
      if (MayExtend(flight, now_us)) out.Add(ExtendLease{flight.lease, flight.lease_us});
    }
    extend_check_us_ = std::min(extend_check_us_, flight.extend_at_us);
  }
}

bool HandlerCore::MayExtend(const Flight& flight, std::int64_t now_us) const {
  return now_us - progress_us_ < kPatienceLeases * flight.lease_us || DeviceIsIdle();
}

bool HandlerCore::DeviceIsIdle() const {
  return std::none_of(flights_.begin(), flights_.end(),
                      [](const auto& entry) { return entry.second.phase == Phase::kQueued; });
}

// The flight was computed, or will not be computed here.
void HandlerCore::EndWork(Flight& flight) {
  assert(working_ > 0 && flight.phase != Phase::kSending);
  --working_;
  working_flops_ -= flight.flops;
  coming_resident_bytes_ -= std::exchange(flight.resident_bytes, 0);
  if (working_ == 0) extend_check_us_ = tuplespace::kForeverUs;
}

}  // namespace acan
