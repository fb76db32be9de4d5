#include "acan/handler/pace.h"

#include <algorithm>

namespace acan {
namespace {

constexpr double kGain = 1.0 / 8;
constexpr std::size_t kFetchesKept = 16;
constexpr std::size_t kInputsKept = 32;  // at least as many as a step has tasks that read little
constexpr std::int64_t kFetchMargin = 2;
// A task whose tile another handler holds is reserved for that one for a while, and threads wake
// late on a busy machine.
constexpr std::int64_t kSlackUs = 10'000;
// The sizes of inputs differ, and the speed of a link changes.
constexpr std::int64_t kPartOfRun = 4;
constexpr double kMostRunUs = 1e13;  // sums of these fit into 64 bits

}  // namespace

void Pace::NoteRun(std::uint64_t flops, std::int64_t took_us) {
  const auto took = static_cast<double>(std::max<std::int64_t>(1, took_us));
  mean_us_ += (mean_us_ == 0 ? 1 : kGain) * (took - mean_us_);
  if (flops == 0) return;
  const double gain = counted_flops_ == 0 ? 1 : kGain;
  counted_us_ += gain * (took - counted_us_);
  counted_flops_ += gain * (static_cast<double>(flops) - counted_flops_);
}

void Pace::NoteFetch(std::int64_t took_us) {
  fetches_us_.push_back(took_us);
  if (fetches_us_.size() > kFetchesKept) fetches_us_.pop_front();
}

void Pace::NoteInputs(std::int64_t took_us) {
  inputs_us_.push_back(took_us);
  if (inputs_us_.size() > kInputsKept) inputs_us_.pop_front();
}

std::int64_t Pace::RunUs(std::uint64_t flops) const {
  if (counted_flops_ == 0) return 0;
  const double us = counted_us_ / counted_flops_ * static_cast<double>(flops);
  return static_cast<std::int64_t>(std::min(us, kMostRunUs));
}

std::int64_t Pace::LeadUs(std::int64_t run_us) const {
  std::int64_t fetch_us = 0;
  if (!fetches_us_.empty()) fetch_us = *std::min_element(fetches_us_.begin(), fetches_us_.end());
  std::int64_t inputs_us = 0;
  if (!inputs_us_.empty()) inputs_us = *std::max_element(inputs_us_.begin(), inputs_us_.end());
  return std::max(kFetchMargin * fetch_us + inputs_us + kSlackUs, run_us / kPartOfRun);
}

}  // namespace acan
