#include "acan/manager/response_times.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace acan {
namespace {

// The constants of RFC 6298.
constexpr double kMeanGain = 1.0 / 8;
constexpr double kDeviationGain = 1.0 / 4;
constexpr double kDeviations = 4;
constexpr double kMinDeviationUs = 1000;  // if all took the same time
// Fewer bytes leave the device within a fraction of the shortest lease.
constexpr std::uint64_t kFewBytes = 1 << 20;

}  // namespace

Work WorkOf(const Task& task) {
  Work work{task.kind, Flops(task)};
  for (const Output& output : task.outputs) {
    if (!output.may_be_resident) work.leaving_bytes += output.view.bytes();
  }
  return work;
}

void ResponseTimes::Estimate::Note(double took_us) {
  if (!known) {
    known = true;
    mean_us = took_us;
    deviation_us = took_us / 2;
    return;
  }
  // A single task of a handler that was stopped, or was slow on purpose, must not make all leases
  // long. A real slowdown is still learned within a few tasks.
  took_us = std::min(took_us, mean_us + kDeviations * std::max(deviation_us, kMinDeviationUs));
  deviation_us += kDeviationGain * (std::fabs(mean_us - took_us) - deviation_us);
  mean_us += kMeanGain * (took_us - mean_us);
}

ResponseTimes::Class ResponseTimes::ClassOf(const Work& work) {
  return {work.kind, std::bit_width(work.flops), std::bit_width(work.leaving_bytes / kFewBytes)};
}

void ResponseTimes::Note(const Work& work, std::int64_t took_us) {
  const double took = static_cast<double>(std::max<std::int64_t>(0, took_us));
  classes_[ClassOf(work)].Note(took);
  all_.Note(took);
}

std::int64_t ResponseTimes::LeaseUs(const Work& work) const {
  const auto it = classes_.find(ClassOf(work));
  if (it == classes_.end()) return kFirstLeaseUs;
  const double lease_us = it->second.mean_us + kDeviations * it->second.deviation_us;
  return std::clamp(static_cast<std::int64_t>(lease_us), kMinLeaseUs, kMaxLeaseUs);
}

}  // namespace acan
