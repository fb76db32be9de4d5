#include "acan/handler/owed_results.h"

#include <algorithm>

namespace acan {

using tuplespace::Key;

namespace {
// Results are supplied when the handler has been idle for this long.
constexpr std::int64_t kIdleUs = 50'000;
// And for this many times as long as the supplies take: over a link, a handler mostly waits for the
// bytes of others. A device that is much faster than its host is idle in each step and owes all
// weights.
constexpr std::int64_t kIdleSupplies = 4;
// A limit, as work may come, and the thread that takes it also fetches the bytes from the device.
constexpr std::uint64_t kSuppliedAtOnceBytes = 16u << 20;
}  // namespace

void OwedResults::Add(const Key& key, std::uint64_t bytes) {
  if (results_.try_emplace(key, Result{bytes}).second) bytes_ += bytes;
}

bool OwedResults::End(const Key& key) {
  const auto at = results_.find(key);
  const bool is_owed = at != results_.end();
  if (is_owed) Erase(at);
  if (under_way_ == 0 && failed_ == 0) EndPause();
  return is_owed;
}

std::vector<Key> OwedResults::EndAllBut(const std::set<Key>& keys) {
  std::vector<Key> ended;
  for (auto at = results_.begin(); at != results_.end();) {
    if (keys.contains(at->first)) {
      Change(at->second.supply, Supply::kNone);
      ++at;
    } else {
      ended.push_back(at->first);
      at = Erase(at);
    }
  }
  EndPause();
  return ended;
}

OwedResults::Results::iterator OwedResults::Erase(Results::iterator at) {
  Change(at->second.supply, Supply::kNone);
  bytes_ -= at->second.bytes;
  return results_.erase(at);
}

// ---- supplies ----------------------------------------------------------------------------------

void OwedResults::Change(Supply& supply, Supply next) {
  under_way_ -= supply == Supply::kUnderWay ? 1 : 0;
  failed_ -= supply == Supply::kFailed ? 1 : 0;
  under_way_ += next == Supply::kUnderWay ? 1 : 0;
  failed_ += next == Supply::kFailed ? 1 : 0;
  supply = next;
}

bool OwedResults::BeginSupply(const Key& key) {
  const auto at = results_.find(key);
  if (at == results_.end() || at->second.supply == Supply::kUnderWay) return false;
  Change(at->second.supply, Supply::kUnderWay);
  return true;
}

void OwedResults::StopSupply(const Key& key) {
  const auto at = results_.find(key);
  if (at != results_.end()) Change(at->second.supply, Supply::kNone);
}

void OwedResults::FailSupply(const Key& key, std::int64_t now_us) {
  const auto at = results_.find(key);
  if (at == results_.end() || at->second.supply != Supply::kUnderWay) return;
  Change(at->second.supply, Supply::kFailed);
  if (SuppliesPause()) return;
  pause_us_ = std::clamp(2 * pause_us_, kRetrySupplyUs, kMaxRetrySupplyUs);
  again_us_ = now_us + pause_us_;
}

void OwedResults::EndPause() {
  again_us_ = tuplespace::kForeverUs;
  pause_us_ = 0;
}

void OwedResults::Begin(const Key& key, Supply& supply, StepActions& out) {
  Change(supply, Supply::kUnderWay);
  out.Add(SupplyKept{key});
}

void OwedResults::SupplyAll(StepActions& out) {
  EndPause();
  for (auto& [key, result] : results_) {
    if (result.supply != Supply::kUnderWay) Begin(key, result.supply, out);
  }
}

void OwedResults::SupplyDue(std::int64_t now_us, StepActions& out) {
  if (now_us >= again_us_) SupplyFailedAgain(out);
  if (now_us >= NextUnaskedUs()) SupplySome(out);
}

void OwedResults::SupplyFailedAgain(StepActions& out) {
  again_us_ = tuplespace::kForeverUs;
  for (auto& [key, result] : results_) {
    if (result.supply == Supply::kFailed) Begin(key, result.supply, out);
  }
}

void OwedResults::SupplySome(StepActions& out) {
  std::uint64_t bytes = 0;
  for (auto& [key, result] : results_) {
    if (bytes >= kSuppliedAtOnceBytes) return;
    if (result.supply != Supply::kNone) continue;
    Begin(key, result.supply, out);
    bytes += result.bytes;
  }
}

std::int64_t OwedResults::NextUs() const {
  return std::min(again_us_, NextUnaskedUs());
}

void OwedResults::NoteIdle(bool is_idle, const LinkPace& link, std::int64_t now_us) {
  const bool all_were_tried = under_way_ + failed_ == results_.size();
  if (!is_idle || all_were_tried) {
    idle_until_us_ = tuplespace::kForeverUs;
  } else if (idle_until_us_ == tuplespace::kForeverUs) {
    idle_until_us_ = now_us + std::max(kIdleUs, kIdleSupplies * link.UsFor(bytes_));
  }
}

}  // namespace acan
