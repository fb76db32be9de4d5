#include "acan/manager/present_handlers.h"

#include <algorithm>

#include "acan/manager/excluded.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace acan {
namespace {

constexpr std::int64_t kSettleUs = 500'000;
// The links of some 30 handlers at one broker are measured in this time. The others count as usual
// ones.
constexpr std::int64_t kMeasureUs = 3'000'000;

}  // namespace

void PresentHandlers::OnHandlers(const HandlersSeen& event, std::int64_t now_us) {
  const bool was_empty = handlers_.empty();
  handlers_.clear();
  of_other_jobs_ = event.of_other_jobs;
  missing_ = event.missing;
  for (const auto& [id, capacity] : event.handlers) {
    const bool usable =
        config_.training.precision == Precision::kExact ? capacity.exact : capacity.fast;
    if (usable && !HasClient(config_.quarantined, id)) handlers_.emplace(id, capacity);
  }
  unusable_ = static_cast<int>(event.handlers.size() - handlers_.size());
  idle_.SetPresent(event.handlers);
  left_out_.clear();
  std::erase_if(handlers_, [this](const auto& handler) {
    const bool is_out = idle_.IsLeftOut(handler.first);
    if (is_out) left_out_.insert(handler);
    return is_out;
  });
  if (handlers_.empty()) handlers_.swap(left_out_);  // they are better than none
  if (was_empty && !handlers_.empty()) since_us_ = now_us;
  if (handlers_.size() > most_) {
    most_ = handlers_.size();
    grown_us_ = now_us;
  }
}

bool PresentHandlers::MayOthersCome(std::int64_t now_us) const {
  const std::int64_t settled_us = now_us - grown_us_;
  const bool waits = config_.knows_links && !config_.fixed_handlers;
  if (!waits || settled_us >= kMeasureUs) return false;
  return std::any_of(handlers_.begin(), handlers_.end(), [&](const auto& handler) {
    const Capacity& capacity = handler.second;
    return capacity.bytes_travel && (settled_us < kSettleUs || capacity.link_ns_per_kib == 0);
  });
}

std::string PresentHandlers::WhyNobody() const {
  std::vector<std::string> others;
  if (of_other_jobs_ > 0) {
    others.push_back(fmt::format("{} limited to other jobs by {}", of_other_jobs_,
                                 of_other_jobs_ == 1 ? "its key" : "their keys"));
  }
  if (unusable_ > 0) {
    others.push_back(fmt::format("{} not {}, or quarantined", unusable_,
                                 config_.training.precision == Precision::kExact
                                     ? "exact"
                                     : "able to compute in fast precision"));
  }
  const bool had_some = most_ > 0;
  if (others.empty()) return had_some ? "all handlers are gone" : "no handler has joined yet";
  return fmt::format("no handler {} that can take tasks of this job (there are others: {})",
                     had_some ? "is left" : "has joined", fmt::join(others, "; "));
}

}  // namespace acan
