#include "acan/handler/handler_core.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/names.h"
#include "acan/handler/planted.h"

namespace acan {

using tuplespace::Key;

namespace {
// What is not asked for again here goes when it was not used for so long.
constexpr std::int64_t kColdUs = 10'000'000;
constexpr std::uint64_t kShortTasksFit = 4;  // the memory for many tasks must hold so many
}  // namespace

std::vector<HandlerAction> HandlerCore::Start() {
  Actions out;
  Ask(0, out);
  return out;
}

std::vector<HandlerAction> HandlerCore::Step(const HandlerEvent& event, std::int64_t now_us) {
  Actions out;
  std::visit([&](const auto& e) { On(e, now_us, out); }, event);
  MakeRoom(out);
  FlushHolds(out);
  Ask(now_us, out);
  NoteIdle(now_us);
  assert(reserved_bytes_ + owed_bytes_ <= limit_bytes_);
  assert(reserved_bytes_ + cached_bytes_ <= limit_bytes_);
  return out;
}

std::int64_t HandlerCore::NextDeadlineUs() const {
  const std::int64_t next = std::min({ask_at_us_, extend_check_us_, idle_until_us_});
  return cache_.empty() ? next : std::min(next, cold_check_us_);
}

// What is left to compute of the tasks that are here, 0 while that is not known; and the longest of
// them. Of many, which are short, the mean stands for each: this is asked after every event.
HandlerCore::Queued HandlerCore::QueuedWork(std::int64_t now_us) const {
  if (working_ > depth_) return {pace_.RunUs(working_flops_), pace_.MeanUs()};
  Queued queued;
  bool runs = true;  // the first one; tasks run in the order in which they came
  for (const auto& [id, flight] : flights_) {
    if (flight.phase == Phase::kSending) continue;
    const std::int64_t run_us = pace_.RunUs(flight.flops);
    queued.all_us += runs ? std::max<std::int64_t>(0, run_us - (now_us - progress_us_)) : run_us;
    queued.longest_us = std::max(queued.longest_us, run_us);
    runs = false;
  }
  return queued;
}

// What to take now. Sets ask_at_us_ if it is nothing, but will be something later.
HandlerCore::Want HandlerCore::Wanted(std::int64_t now_us) {
  const std::uint64_t free_bytes = FreeBytes();
  if (draining_ || free_bytes == 0) return {};
  if (chunk_left_ > 0) {
    return {static_cast<std::uint32_t>(std::min(chunk_left_, kMostAskedAtOnce)), free_bytes, false};
  }
  // The next chunk comes while the last task of this one runs.
  if (chunked_ && working_ >= 2) return {};
  const auto [queued_us, longest_us] = QueuedWork(now_us);
  const std::int64_t lead_us = pace_.LeadUs(longest_us);
  // Of short tasks: as many as fill the time, once half of it, or of the most, is gone.
  const std::uint64_t half_bytes =
      std::min(free_bytes, limit_bytes_ / 2 - std::min(limit_bytes_ / 2, reserved_bytes_));
  if (!chunked_ && pace_.MeanUs() > 0 && 2 * queued_us < lead_us &&
      2 * working_ <= kMostAskedAtOnce && half_bytes >= kShortTasksFit * largest_need_bytes_) {
    const std::int64_t most = kMostAskedAtOnce - working_;
    const std::int64_t count = std::min((lead_us - queued_us) / pace_.MeanUs(), most);
    if (count > 1) return {static_cast<std::uint32_t>(count), half_bytes, true};
  }
  if (working_ >= depth_) return {};
  if (working_ == 0 || queued_us <= lead_us) return {1, free_bytes, false};
  ask_at_us_ = now_us + queued_us - lead_us;
  return {};
}

void HandlerCore::Ask(std::int64_t now_us, Actions& out) {
  ask_at_us_ = tuplespace::kForeverUs;
  const Want want = Wanted(now_us);
  if (want.count == 0) {
    if (asking_) out.push_back(StopAsking{});
    asking_ = false;
    return;
  }
  // A larger offer is worth a message only if the open one keeps a task of the usual size away.
  const bool too_small = asked_offer_bytes_ < largest_need_bytes_ || flights_.empty();
  if (asking_ && (want.offer_bytes <= asked_offer_bytes_ || !too_small)) return;
  asking_ = true;
  asked_offer_bytes_ = want.offer_bytes;
  asked_us_ = now_us;
  out.push_back(AskForTask{want.offer_bytes, want.count, want.share});
}

bool HandlerCore::MayExtend(const Flight& flight, std::int64_t now_us) const {
  return now_us - progress_us_ < kPatienceLeases * flight.lease_us;
}

void HandlerCore::NoteProgress(std::int64_t now_us) {
  progress_us_ = now_us;
}

void HandlerCore::SetCharge(Flight& flight, std::uint64_t bytes) {
  reserved_bytes_ = reserved_bytes_ - flight.charge_bytes + bytes;
  flight.charge_bytes = bytes;
}

void HandlerCore::On(const TaskGranted& event, std::int64_t now_us, Actions& out) {
  if (event.current) {
    asking_ = false;
    pace_.NoteFetch(now_us - asked_us_);
  }
  chunked_ = event.chunk > 0;
  chunk_left_ = chunk_left_ > 0 ? chunk_left_ - 1 : std::max(0, event.chunk - 1);
  bool idle = true;
  for (const auto& [other, flight] : flights_) idle = idle && flight.phase == Phase::kSending;
  if (idle) NoteProgress(now_us);
  largest_need_bytes_ = std::max(largest_need_bytes_, event.need_bytes);
  const FlightId id = next_flight_++;
  Flight& flight = flights_[id];
  flight.lease = event.lease;
  flight.lease_us = event.lease_us;
  flight.extend_at_us = now_us + event.lease_us / 2;
  flight.timed = event.timed;
  flight.flops = event.flops;
  if (!event.inputs.empty()) DropOlder(event.inputs.front(), out);
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < event.inputs.size(); ++i) {
    const auto cached = cache_.find(event.inputs[i]);
    if (!event.sent[i] && cached == cache_.end()) missing.push_back(i);
    if (event.sent[i] || cached == cache_.end()) continue;
    // What a task uses from the cache is part of its need, so it no longer counts as cached.
    Pin(cached->second);
    cached->second.last_used_us = now_us;
    flight.pinned.push_back(event.inputs[i]);
  }
  if (event.keep_input && event.sent[*event.keep_input] &&
      cache_.count(event.inputs[*event.keep_input]) == 0) {
    flight.input_to_keep =
        KeptResult{event.inputs[*event.keep_input], event.input_bytes[*event.keep_input]};
  }
  const bool fits = event.need_bytes <= FreeBytes() || IsPlanted(HandlerBug::kBudgetIsIgnored);
  if (!fits || draining_) {
    // Granted against an older, larger offer, or while stopping: it goes back untouched.
    Unpin(flight, now_us, out);
    out.push_back(PutBack{id, flight.lease});
    flights_.erase(id);
    return;
  }
  ++working_;
  working_flops_ += flight.flops;
  if (!flight.timed) extend_check_us_ = std::min(extend_check_us_, flight.extend_at_us);
  SetCharge(flight, event.need_bytes);
  if (MayBeResident(event.resident_bytes))
    resident_bytes_ += flight.resident_bytes = event.resident_bytes;
  MakeRoom(out);
  if (missing.empty()) {
    out.push_back(RunTask{id, flight.resident_bytes > 0});
  } else {
    flight.phase = Phase::kFetching;
    out.push_back(FetchInputs{id, std::move(missing)});
  }
}

void HandlerCore::On(const GetEnded&, std::int64_t, Actions&) {
  asking_ = false;
}

void HandlerCore::On(const InputsArrived& event, std::int64_t, Actions& out) {
  const auto it = flights_.find(event.flight);
  if (it == flights_.end()) return;
  it->second.phase = Phase::kQueued;
  out.push_back(RunTask{event.flight, it->second.resident_bytes > 0});
}

void HandlerCore::On(const GivenUp& event, std::int64_t now_us, Actions& out) {
  const auto it = flights_.find(event.flight);
  if (it == flights_.end()) return;
  EndWork(it->second);
  Unpin(it->second, now_us, out);
  SetCharge(it->second, 0);
  out.push_back(PutBack{event.flight, it->second.lease});
  flights_.erase(it);
}

void HandlerCore::On(const TaskFinished& event, std::int64_t now_us, Actions& out) {
  const auto it = flights_.find(event.flight);
  assert(it != flights_.end() && it->second.phase == Phase::kQueued);
  Flight& flight = it->second;
  EndWork(flight);
  pace_.NoteRun(flight.flops, event.took_us);
  NoteProgress(now_us);
  Unpin(flight, now_us, out);
  std::optional<KeptResult> input = std::move(flight.input_to_keep);
  SetCharge(flight, event.result_bytes);
  flight.phase = Phase::kSending;
  for (const KeptResult& kept : event.kept) {
    AddCached(kept, 1, now_us, out);  // its bytes are in the charge until they are released
    flight.pinned.push_back(kept.key);
    if (kept.resident) AddOwed(kept.key);
  }
  if (input && reserved_bytes_ + cached_bytes_ + input->bytes <= limit_bytes_ &&
      IsNewest(input->key)) {
    out.push_back(KeepInput{event.flight, input->key});
    AddCached(*input, 0, now_us, out);
    newly_held_.push_back(input->key);
  }
  out.push_back(ReportDone{event.flight, flight.lease});
  if (draining_) SupplyAll(out);
}

void HandlerCore::On(const TaskFailed& event, std::int64_t now_us, Actions& out) {
  const auto it = flights_.find(event.flight);
  assert(it != flights_.end());
  NoteProgress(now_us);
  EndWork(it->second);
  Unpin(it->second, now_us, out);
  SetCharge(it->second, 0);
  out.push_back(ReportFailed{it->second.lease, event.cause});
  flights_.erase(it);
}

void HandlerCore::On(const Released& event, std::int64_t now_us, Actions& out) {
  const auto it = flights_.find(event.flight);
  if (it == flights_.end()) return;
  SetCharge(it->second, 0);
  Unpin(it->second, now_us, out);
  flights_.erase(it);
}

void HandlerCore::On(const ConnectionLost&, std::int64_t, Actions& out) {
  // A space that was started anew does not know what we hold: say it again. Tasks in flight run on;
  // their results count if they are the first, whatever became of the leases.
  for (const auto& [key, cached] : cache_) {
    if (!cached.doomed) newly_held_.push_back(key);
  }
  // It has forgotten what we owe it, but for what it hears of only now.
  SupplyAll(out);
}

void HandlerCore::On(const Drain&, std::int64_t now_us, Actions& out) {
  draining_ = true;
  SupplyAll(out);
  for (auto it = flights_.begin(); it != flights_.end();) {
    Flight& flight = it->second;
    if (flight.phase == Phase::kFetching) {
      EndWork(flight);
      Unpin(flight, now_us, out);
      SetCharge(flight, 0);
      out.push_back(PutBack{it->first, flight.lease});
      it = flights_.erase(it);
    } else {
      ++it;
    }
  }
}

void HandlerCore::On(const TimePassed&, std::int64_t now_us, Actions& out) {
  if (now_us >= extend_check_us_) ExtendLeases(now_us, out);
  if (now_us >= idle_until_us_) SupplyAll(out);
  if (now_us < cold_check_us_) return;
  cold_check_us_ = now_us + kColdUs / 4;
  std::vector<Key> cold;
  for (const auto& [key, cached] : cache_) {
    if (cached.pins == 0 && !cached.owed && now_us >= cached.last_used_us + kColdUs) {
      cold.push_back(key);
    }
  }
  for (const Key& key : cold) RemoveCached(key, out);
}

void HandlerCore::ExtendLeases(std::int64_t now_us, Actions& out) {
  extend_check_us_ = tuplespace::kForeverUs;
  for (auto& [id, flight] : flights_) {
    if (flight.timed || flight.phase == Phase::kSending) continue;
    if (now_us >= flight.extend_at_us) {
      flight.extend_at_us = now_us + flight.lease_us / 2;
      if (MayExtend(flight, now_us)) out.push_back(ExtendLease{flight.lease, flight.lease_us});
    }
    extend_check_us_ = std::min(extend_check_us_, flight.extend_at_us);
  }
}

// It was computed, or will not be here.
void HandlerCore::EndWork(Flight& flight) {
  assert(working_ > 0 && flight.phase != Phase::kSending);
  --working_;
  working_flops_ -= flight.flops;
  resident_bytes_ -= std::exchange(flight.resident_bytes, 0);
  if (working_ == 0) extend_check_us_ = tuplespace::kForeverUs;
}

void HandlerCore::Pin(Cached& cached) {
  if (cached.pins++ > 0) return;
  cached_bytes_ -= cached.bytes;
  if (cached.owed) owed_bytes_ -= cached.bytes;
}

void HandlerCore::Unpin(Flight& flight, std::int64_t now_us, Actions& out) {
  for (const Key& key : flight.pinned) {
    const auto it = cache_.find(key);
    assert(it != cache_.end() && it->second.pins > 0);
    it->second.last_used_us = now_us;
    if (--it->second.pins > 0) continue;
    cached_bytes_ += it->second.bytes;
    if (it->second.owed) owed_bytes_ += it->second.bytes;
    if (it->second.doomed) RemoveCached(key, out);
  }
  flight.pinned.clear();
}

void HandlerCore::AddCached(const KeptResult& kept, int pins, std::int64_t now_us, Actions& out) {
  // A newer version takes the place of the older one: nobody will ask this handler for that again.
  const std::string identity = WithoutStep(kept.key);
  const auto older = newest_.find(identity);
  if (older != newest_.end() && older->second != kept.key) {
    const auto it = cache_.find(older->second);
    assert(it != cache_.end());
    if (it->second.owed) {
      // The space says when nobody needs it.
    } else if (it->second.pins > 0) {
      it->second.doomed = true;
      newly_dropped_.push_back(older->second);
    } else {
      const Key key = older->second;  // RemoveCached erases what `older` points to
      RemoveCached(key, out);
    }
  }
  newest_[identity] = kept.key;
  const auto [it, is_new] = cache_.try_emplace(kept.key);
  Cached& cached = it->second;
  assert(is_new || cached.bytes == kept.bytes);
  cached.bytes = kept.bytes;
  if (is_new) cached_bytes_ += kept.bytes;
  for (int i = 0; i < pins; ++i) Pin(cached);
  cached.last_used_us = now_us;
}

bool HandlerCore::IsNewest(const Key& key) const {
  const auto newest = newest_.find(WithoutStep(key));
  return newest == newest_.end() || newest->second < key;
}

// What earlier steps left will hardly be asked for again once a task of a later one is here. Its
// memory is often another handler's, who waits for it.
void HandlerCore::DropOlder(const Key& input, Actions& out) {
  if (step_ && input.bytes().compare(0, step_->bytes().size(), step_->bytes()) == 0) return;
  std::optional<Key> step = StepOf(input);
  if (!step) return;
  step_ = std::move(step);
  std::vector<Key> older;
  const auto end = cache_.lower_bound(*step_);
  for (auto it = cache_.lower_bound(RunOf(*step_)); it != end; ++it) {
    if (it->second.pins == 0 && !it->second.owed) older.push_back(it->first);
  }
  for (const Key& key : older) RemoveCached(key, out);
}

void HandlerCore::RemoveCached(const Key& key, Actions& out) {
  const auto it = cache_.find(key);
  assert(it != cache_.end() && it->second.pins == 0 && !it->second.owed);
  cached_bytes_ -= it->second.bytes;
  if (!it->second.doomed) newly_dropped_.push_back(key);
  const auto newest = newest_.find(WithoutStep(key));
  if (newest != newest_.end() && newest->second == key) newest_.erase(newest);
  out.push_back(DropCached{key});
  cache_.erase(it);
}

void HandlerCore::MakeRoom(Actions& out) {
  while (reserved_bytes_ + cached_bytes_ > limit_bytes_) {
    auto coldest = cache_.end();
    for (auto it = cache_.begin(); it != cache_.end(); ++it) {
      if (it->second.pins > 0 || it->second.owed) continue;
      if (coldest == cache_.end() || it->second.last_used_us < coldest->second.last_used_us) {
        coldest = it;
      }
    }
    assert(coldest != cache_.end());
    const Key key = coldest->first;
    RemoveCached(key, out);
  }
}

void HandlerCore::FlushHolds(Actions& out) {
  if (newly_held_.empty() && newly_dropped_.empty()) return;
  out.push_back(AnnounceHeld{std::move(newly_held_), std::move(newly_dropped_)});
  newly_held_.clear();
  newly_dropped_.clear();
}

}  // namespace acan
