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

void HandlerSpeeds::SetSpeeds(std::map<std::string, Capacity>* present, std::int64_t now_us) {
  const bool crosses_links = std::any_of(present->begin(), present->end(),
                                         [](const auto& one) { return one.second.bytes_travel; });
  if (!crosses_links) return;
  const bool takes_new = now_us >= next_set_us_;
  for (auto& [id, capacity] : *present) {
    const auto at = reported_.find(id);
    if (at == reported_.end()) continue;
    Reported& reported = at->second;
    if (takes_new && reported.set_speed != reported.last.speed) {
      reported.set_speed = reported.last.speed;
      next_set_us_ = now_us + kSetEveryUs;
    }
    capacity.speed = reported.set_speed;
  }
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
