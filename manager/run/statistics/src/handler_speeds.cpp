#include "handler_speeds.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace acan {

void HandlerSpeeds::See(const std::map<std::string, Capacity>& present) {
  present_ = present;
  ++looks_;
  for (auto& [id, reported] : reported_) {
    if (present.contains(id)) reported.seen_at = looks_;
  }
  const std::size_t most = present.size() + kMaxGone;
  if (reported_.size() <= most) return;
  std::vector<std::pair<std::uint64_t, std::string>> gone;
  for (const auto& [id, reported] : reported_) {
    if (reported.seen_at != looks_) gone.emplace_back(reported.seen_at, id);
  }
  std::sort(gone.begin(), gone.end());
  gone.resize(reported_.size() - most);
  for (const auto& [seen_at, id] : gone) reported_.erase(id);
}

void HandlerSpeeds::Note(const std::string& id, const Report& report) {
  Reported& known = reported_[id];
  const double gflop = report.gflop - known.last.gflop;
  const double busy_s = report.busy_s - known.last.busy_s;
  if (gflop > 0 && busy_s > 0) known.gflops = gflop / busy_s;
  busy_s_ += busy_s;
  known.last = report;
  known.seen_at = looks_;
}

double HandlerSpeeds::Gflops() const {
  double sum = 0;
  for (const auto& [id, capacity] : present_) {
    const auto it = reported_.find(id);
    const bool measured = it != reported_.end() && it->second.gflops > 0;
    sum += measured ? it->second.gflops : capacity.gflops;
  }
  return sum;
}

}  // namespace acan
