#include "known_handlers.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace acan {

void KnownHandlers::GoOnFrom(HandlerTotals earlier) {
  totals_ = std::move(earlier);
  for (const auto& [id, handler] : totals_.by_id) seen_at_[id] = 0;
}

void KnownHandlers::See(const std::map<std::string, Capacity>& present) {
  ++looks_;
  for (const auto& [id, capacity] : present) {
    HandlerSeen& known = totals_.by_id[id];
    known.name = capacity.name;
    known.device = capacity.device;
    known.capacity_bytes = capacity.limit_bytes;
    seen_at_[id] = looks_;
  }
  const std::size_t most = present.size() + kMaxGone;
  if (totals_.by_id.size() <= most) return;
  for (const std::string& id : FirstSeen(totals_.by_id.size() - most)) {
    totals_.PutTogether(id);
    seen_at_.erase(id);
  }
}

std::vector<std::string> KnownHandlers::FirstSeen(std::size_t count) const {
  std::vector<std::pair<std::uint64_t, std::string>> all;
  for (const auto& [id, seen_at] : seen_at_) all.emplace_back(seen_at, id);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(all.begin(), end, all.end());
  std::vector<std::string> ids;
  for (auto at = all.begin(); at != end; ++at) ids.push_back(std::move(at->second));
  return ids;
}

void KnownHandlers::OnReport(const std::string& id, const Report& report) {
  const auto at = totals_.by_id.find(id);
  if (at == totals_.by_id.end()) return;
  at->second.peak_bytes = report.peak_bytes;
  at->second.fetched_bytes = report.fetched_bytes;
}

void KnownHandlers::OnTask(const std::string& id) {
  const auto at = totals_.by_id.find(id);
  if (at != totals_.by_id.end()) ++at->second.tasks;
}

std::vector<HandlerSeen> KnownHandlers::All() const {
  std::vector<HandlerSeen> all;
  for (const auto& [id, handler] : totals_.by_id) all.push_back(handler);
  if (totals_.other_count == 0) return all;
  all.push_back(totals_.others);
  all.back().name = fmt::format("{} others that left earlier", totals_.other_count);
  all.back().device = "several";
  return all;
}

HandlerTotals KnownHandlers::Totals() const {
  HandlerTotals totals = totals_;
  const std::size_t count = totals.by_id.size();
  if (count <= HandlerTotals::kMaxKept) return totals;
  for (const std::string& id : FirstSeen(count - HandlerTotals::kMaxKept)) totals.PutTogether(id);
  return totals;
}

}  // namespace acan
