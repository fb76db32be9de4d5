#include "known_handlers.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace acan {

void KnownHandlers::See(const std::map<std::string, Capacity>& present) {
  ++looks_;
  for (const auto& [id, capacity] : present) {
    HandlerSeen& known = handlers_[id];
    known.name = capacity.name;
    known.device = capacity.device;
    known.capacity_bytes = capacity.limit_bytes;
    seen_at_[id] = looks_;
  }
  if (handlers_.size() <= present.size() + kMaxGone) return;
  std::vector<std::pair<std::uint64_t, std::string>> gone;
  for (const auto& [id, seen_at] : seen_at_) {
    if (seen_at != looks_) gone.emplace_back(seen_at, id);
  }
  std::sort(gone.begin(), gone.end());
  gone.resize(gone.size() - kMaxGone);
  for (const auto& [seen_at, id] : gone) PutTogether(id);
}

void KnownHandlers::PutTogether(const std::string& id) {
  const HandlerSeen& one = handlers_.at(id);
  others_.capacity_bytes = std::max(others_.capacity_bytes, one.capacity_bytes);
  others_.peak_bytes = std::max(others_.peak_bytes, one.peak_bytes);
  others_.tasks += one.tasks;
  others_.fetched_bytes += one.fetched_bytes;
  ++other_count_;
  handlers_.erase(id);
  seen_at_.erase(id);
}

void KnownHandlers::OnReport(const std::string& id, const Report& report) {
  const auto at = handlers_.find(id);
  if (at == handlers_.end()) return;
  at->second.peak_bytes = report.peak_bytes;
  at->second.fetched_bytes = report.fetched_bytes;
}

void KnownHandlers::OnTask(const std::string& id) {
  const auto at = handlers_.find(id);
  if (at != handlers_.end()) ++at->second.tasks;
}

std::vector<HandlerSeen> KnownHandlers::All() const {
  std::vector<HandlerSeen> all;
  for (const auto& [id, handler] : handlers_) all.push_back(handler);
  if (other_count_ == 0) return all;
  all.push_back(others_);
  all.back().name = fmt::format("{} others that left earlier", other_count_);
  all.back().device = "several";
  return all;
}

}  // namespace acan
