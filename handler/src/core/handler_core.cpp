#include "acan/handler/handler_core.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/handler/planted.h"
#include "fmt/format.h"

namespace acan {

using tuplespace::Key;

namespace {

Flight FlightOf(const TaskGranted& event, std::int64_t now_us) {
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

// Without the cache entries that the flight uses at the time. Whole ones stay until it ends; pieces
// stay in addition to the buffers that it computes with.
std::uint64_t ChargeOf(const TaskGranted& event, const Flight& flight) {
  std::uint64_t pinned_bytes = 0, whole_bytes = 0;
  for (const Flight::Pinned& pinned : flight.pinned) {
    pinned_bytes += pinned.entry.bytes();
    if (pinned.whole) whole_bytes += pinned.entry.bytes();
  }
  return std::max(event.gathering_bytes - std::min(event.gathering_bytes, pinned_bytes),
                  event.computing_bytes - std::min(event.computing_bytes, whole_bytes));
}

}  // namespace

std::vector<HandlerAction> HandlerCore::Start() {
  std::vector<HandlerAction> out;
  demand_.Ask(WorkloadAt(0), 0, out);
  return out;
}

std::vector<HandlerAction> HandlerCore::Step(const HandlerEvent& event, std::int64_t now_us) {
  StepActions step;
  std::visit([&](const auto& e) { On(e, now_us, step); }, event);
  assert(HeldBytes() <= limit_bytes_);
  ShrinkCache(step);
  std::vector<HandlerAction> out = step.Take();
  if (draining_ || flights_.leaving_bytes() >= kMaxLeavingBytes) {
    demand_.StopAsking(out);
  } else {
    demand_.Ask(WorkloadAt(now_us), now_us, out);
  }
  owed_.NoteIdle(flights_.empty(), link_, now_us);
  return out;
}

std::int64_t HandlerCore::NextDeadlineUs() const {
  return std::min(
      {demand_.next_us(), leases_.NextUs(), owed_.NextUs(), eviction_.NextCheckUs(cache_)});
}

// If there are many tasks, which are then short, the average stands for each, as this runs after
// every event.
Workload HandlerCore::WorkloadAt(std::int64_t now_us) const {
  Workload work{flights_.working(), 0, 0, flights_.empty(), FreeBytes(), reserved_bytes(),
                link_.ns_per_kib()};
  const Pace& pace = demand_.pace();
  if (flights_.working() > depth_) {
    work.all_us = pace.RunUs(flights_.working_flops());
    work.longest_us = pace.MeanUs();
    return work;
  }
  bool runs = true;  // the first one; tasks run in the order in which they came
  const std::int64_t since_progress_us = now_us - leases_.progress_us();
  for (const auto& [id, flight] : flights_.by_id()) {
    if (flight.phase == Flight::Phase::kSending) continue;
    const std::int64_t run_us = pace.RunUs(flight.flops);
    work.all_us += runs ? std::max<std::int64_t>(0, run_us - since_progress_us) : run_us;
    work.longest_us = std::max(work.longest_us, run_us);
    runs = false;
  }
  return work;
}

// ---- memory ------------------------------------------------------------------------------------

std::uint64_t HandlerCore::FreeBytes() const {
  return limit_bytes_ - std::min(limit_bytes_, HeldBytes());
}

void HandlerCore::ShrinkCache(StepActions& out) {
  const std::uint64_t most_bytes = limit_bytes_ - std::min(limit_bytes_, reserved_bytes());
  CacheEviction::ShrinkTo(most_bytes, cache_, out);
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
  flight.charge_bytes = ChargeOf(event, flight);
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
    flights_.SetCharge(flight, flight.charge_bytes - charged_bytes);
    flight.pinned.push_back({cache_.AddPinned({key, bytes}, now_us, out).first, i, whole});
    out.NoteHeld(key);
    kept.push_back(i);
  }
  ShrinkCache(out);
  for (const std::size_t i : kept) out.Add(KeepArrived{id, i, flight.inputs[i]});
}

void HandlerCore::Unpin(Flight& flight, std::int64_t now_us, StepActions& out) {
  for (const Flight::Pinned& pinned : flight.pinned) cache_.Unpin(pinned.entry, now_us, out);
  flight.pinned.clear();
}

// ---- tasks -------------------------------------------------------------------------------------

void HandlerCore::On(const TaskGranted& event, std::int64_t now_us, StepActions& out) {
  const bool is_wanted = demand_.NoteGrant(event, now_us);
  if (flights_.working() == 0) leases_.NoteProgress(now_us);
  const FlightId id = flights_.NextId();
  Flight flight = FlightOf(event, now_us);
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
  leases_.NoteGranted(flight);
  if (MayBeResident(event.resident_bytes)) flight.resident_bytes = event.resident_bytes;
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
  Flight& added = flights_.Add(id, std::move(flight));
  KeepInputs(id, added, arrived, now_us, out);
  if (missing.empty()) {
    out.Add(RunTask{id, added.resident_bytes > 0});
  } else {
    added.phase = Flight::Phase::kFetching;
    out.Add(FetchInputs{id, std::move(missing)});
  }
  FetchSome(event.ahead, out);
}

void HandlerCore::On(const GetEnded&, std::int64_t, StepActions&) {
  demand_.NoteGetEnded();
}

void HandlerCore::On(const InputsArrived& event, std::int64_t now_us, StepActions& out) {
  Flight* const flight = flights_.Find(event.flight);
  if (flight == nullptr) return;
  if (flights_.DeviceIsIdle()) leases_.NoteProgress(now_us);  // it begins with this task
  flight->phase = Flight::Phase::kQueued;
  // The next inputs should travel while this task is computed.
  if (!event.bytes.empty()) demand_.NoteInputs(now_us - flight->granted_us);
  KeepInputs(event.flight, *flight, event.bytes, now_us, out);
  out.Add(RunTask{event.flight, flight->resident_bytes > 0});
}

// Tuples that arrive reduce the offer, so the two largest tasks must fit beside them, as beside
// results.
void HandlerCore::FetchSome(const std::vector<Ahead>& ahead, StepActions& out) {
  for (const auto& [key, bytes] : ahead) {
    if (coming_.IsFull()) return;
    const std::uint64_t taken = std::min(limit_bytes_, HeldBytes() + MostNeeded());
    if (bytes == 0 || bytes > limit_bytes_ - taken || cache_.Contains(key)) continue;
    if (!coming_.Add(key, bytes)) continue;
    out.Add(FetchAhead{key, bytes});
  }
}

// The tuple is kept if no other entry has to go for it, until a task needs it or its room.
void HandlerCore::On(const AheadArrived& event, std::int64_t now_us, StepActions& out) {
  const std::uint64_t bytes = coming_.End(event.key);
  if (event.bytes != bytes || draining_ || cache_.Contains(event.key)) return;
  if (reserved_bytes() + cache_.bytes() + bytes > limit_bytes_) return;
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
  const Flight* const flight = flights_.Find(event.flight);
  if (flight == nullptr) return;
  assert(flight->phase == Flight::Phase::kSending);
  for (const Flight::Pinned& result : flight->pinned) {
    result.entry.Accept(event.flight);
  }
}

void HandlerCore::On(const GivenUp& event, std::int64_t now_us, StepActions& out) {
  Flight* const flight = flights_.Find(event.flight);
  if (flight == nullptr) return;
  EndWork(*flight);
  Unpin(*flight, now_us, out);
  out.Add(PutBack{event.flight, flight->lease});
  flights_.Erase(event.flight);
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
  Flight* const found = flights_.Find(event.flight);
  assert(found != nullptr && found->phase == Flight::Phase::kQueued);
  if (const auto problem = ProblemOf(event.kept)) {
    return On(TaskFailed{event.flight, *problem}, now_us, out);
  }
  Flight& flight = *found;
  EndWork(flight);
  demand_.NoteRun(flight.flops, event.took_us);
  leases_.NoteProgress(now_us);
  Unpin(flight, now_us, out);
  std::optional<KeptResult> input = std::move(flight.input_to_keep);
  flight.phase = Flight::Phase::kSending;
  // Two results may be the same buffer.
  std::uint64_t charge_bytes = std::min(event.result_bytes, flight.need_bytes);
  std::uint64_t leaving_bytes = event.result_bytes;
  for (const KeptResult& kept : event.kept) {
    if (kept.resident) leaving_bytes -= std::min(leaving_bytes, kept.bytes);
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
  flights_.SetLeaving(flight, leaving_bytes);
  flights_.SetCharge(flight, charge_bytes);
  if (input && reserved_bytes() + cache_.bytes() + input->bytes <= limit_bytes_ &&
      !cache_.Contains(input->key) && cache_.IsNewest(input->key)) {
    out.Add(KeepInput{event.flight, input->key});
    cache_.Add(*input, now_us, out);
    out.NoteHeld(input->key);
  }
  out.Add(ReportDone{event.flight, flight.lease});
  if (draining_) owed_.SupplyAll(out);
}

void HandlerCore::On(const TaskFailed& event, std::int64_t now_us, StepActions& out) {
  Flight* const flight = flights_.Find(event.flight);
  assert(flight != nullptr);
  leases_.NoteProgress(now_us);
  EndWork(*flight);
  Unpin(*flight, now_us, out);
  out.Add(ReportFailed{flight->lease, event.cause, event.flight});
  flights_.Erase(event.flight);
}

void HandlerCore::On(const Released& event, std::int64_t now_us, StepActions& out) {
  Flight* const flight = flights_.Find(event.flight);
  if (flight == nullptr) return;
  for (const Flight::Pinned& result : flight->pinned) {
    result.entry.EndAwaiting(event.flight, out);
  }
  Unpin(*flight, now_us, out);
  flights_.Erase(event.flight);
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
  for (auto it = flights_.by_id().begin(); it != flights_.by_id().end();) {
    Flight& flight = it->second;
    if (flight.phase == Flight::Phase::kFetching) {
      EndWork(flight);
      Unpin(flight, now_us, out);
      out.Add(PutBack{it->first, flight.lease});
      it = flights_.Erase(it);
    } else {
      ++it;
    }
  }
}

void HandlerCore::On(const TimePassed&, std::int64_t now_us, StepActions& out) {
  leases_.ExtendDue(flights_, now_us, out);
  owed_.SupplyDue(now_us, out);
  if (now_us >= eviction_.NextCheckUs(cache_)) eviction_.DropCold(now_us, cache_, out);
}

void HandlerCore::EndWork(Flight& flight) {
  flights_.EndWork(flight);
  if (flights_.working() == 0) leases_.NoteNoWork();
}

}  // namespace acan
