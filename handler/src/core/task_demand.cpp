#include "acan/handler/task_demand.h"

#include <algorithm>

#include "acan/core/names.h"

namespace acan {

namespace {
constexpr std::uint64_t kShortTasksFit = 4;  // the memory for many tasks must hold this many
}  // namespace

// What a task uses counts, because it may declare any need.
bool TaskDemand::NoteGrant(const TaskGranted& event, std::int64_t now_us) {
  if (event.current) {
    asking_ = false;
    pace_.NoteFetch(now_us - asked_us_);
  }
  largest_need_.Note(event.lease.key, std::max(event.gathering_bytes, event.computing_bytes));
  if (!TakesPart(event)) return false;
  chunked_ = event.chunk > 0;
  return true;
}

// Counts a task of the chunk in progress, or begins another chunk. Returns whether to keep it.
bool TaskDemand::TakesPart(const TaskGranted& event) {
  const tuplespace::Key& task = event.lease.key;
  if (chunk_left_ > 0 && task.bytes().starts_with(chunk_run_.bytes())) {
    --chunk_left_;
    return true;
  }
  if (rest_ == Rest::kEnded) return false;
  if (rest_ == Rest::kAskedFor) rest_ = Rest::kEnded;
  chunk_left_ = std::max(0, event.chunk - 1);
  if (chunk_left_ > 0) chunk_run_ = RunOf(task);
  return true;
}

// Whether a waiting task may need more than the open get offers.
bool TaskDemand::OffersLess(const Workload& work) const {
  return work.working == 0 && asking_ && asked_.offer_bytes < work.free_bytes;
}

bool TaskDemand::IsInVain(const Workload& work, std::int64_t now_us) const {
  return OffersLess(work) && now_us >= asked_us_ + kOfferInVainUs;
}

// What to take now. If nothing, but something later, sets ask_at_us_.
TaskDemand::Want TaskDemand::Wanted(const Workload& work, std::int64_t now_us) {
  if (work.free_bytes == 0) return {};
  if (chunk_left_ > 0) {
    return {static_cast<std::uint32_t>(std::min(chunk_left_, kMaxAskedAtOnce)), work.free_bytes,
            false};
  }
  // The next chunk is requested while the last task of this one runs.
  if (chunked_ && work.working >= 2) return {};
  const std::int64_t lead_us = pace_.LeadUs(work.longest_us);
  // Short tasks: as many as fill the lead time, once less than half of that work, or of the maximum
  // number, is left.
  const std::uint64_t half_bytes =
      std::min(work.free_bytes, limit_bytes_ / 2 - std::min(limit_bytes_ / 2, work.reserved_bytes));
  if (!chunked_ && pace_.MeanUs() > 0 && 2 * work.all_us < lead_us &&
      2 * work.working <= kMaxAskedAtOnce && half_bytes >= kShortTasksFit * largest_need_bytes() &&
      !IsInVain(work, now_us)) {
    const std::int64_t most = kMaxAskedAtOnce - work.working;
    const std::int64_t count = std::min((lead_us - work.all_us) / pace_.MeanUs(), most);
    if (count > 1) return {static_cast<std::uint32_t>(count), half_bytes, true};
  }
  if (work.working >= depth_) return {};
  if (work.working == 0 || work.all_us <= lead_us) return {1, work.free_bytes, false};
  ask_at_us_ = now_us + work.all_us - lead_us;
  return {};
}

void TaskDemand::Ask(const Workload& work, std::int64_t now_us, std::vector<HandlerAction>& out) {
  ask_at_us_ = tuplespace::kForeverUs;
  const Want want = Wanted(work, now_us);
  if (want.count == 0) return EndGet(out);
  // A larger offer is worth a message only if the open one excludes a task of the usual size, or is
  // not taken up.
  const bool too_small = asked_.offer_bytes < largest_need_bytes() || work.is_empty;
  if (!asking_ ||
      (want.offer_bytes > asked_.offer_bytes && (too_small || IsInVain(work, now_us)))) {
    asking_ = true;
    asked_ = {want.offer_bytes, want.count, want.share, work.ns_per_kib};
    asked_us_ = now_us;
    rest_ = chunk_left_ > 0 ? Rest::kAskedFor : Rest::kNotAskedFor;
    out.emplace_back(asked_);
  }
  if (OffersLess(work)) ask_at_us_ = asked_us_ + kOfferInVainUs;
}

void TaskDemand::StopAsking(std::vector<HandlerAction>& out) {
  ask_at_us_ = tuplespace::kForeverUs;
  EndGet(out);
}

void TaskDemand::EndGet(std::vector<HandlerAction>& out) {
  if (asking_) out.emplace_back(acan::StopAsking{});
  asking_ = false;
}

}  // namespace acan
