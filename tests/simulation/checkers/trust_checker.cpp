#include "checkers/trust_checker.h"

#include <algorithm>
#include <string>

#include "fmt/format.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {
constexpr const char* kIsBenched = "gets no tasks for";
constexpr std::int64_t kNotSaidUs = 999;  // it is said in whole milliseconds
constexpr std::int64_t kRememberedUs = kLimits.key_forgiven_us - kLimits.most_bench_us;
}  // namespace

void TrustChecker::OnGet(const ClientId& client, RequestId id) {
  open_gets_.emplace(std::pair(client, id), std::numeric_limits<std::int64_t>::max());
}

void TrustChecker::OnReply(const ClientId& client, RequestId id) {
  open_gets_.erase({client, id});
}

// A new client of a key that offended lately gets one task at a time.
void TrustChecker::OnGrants(const ClientId& client, const Grants& grants,
                            std::int64_t now_us) const {
  const bool on_probation = IsUntried(client) && now_us < offence_us_ + kRememberedUs;
  if (!on_probation || grants.grants.size() <= 1) return;
  context_.report(
      fmt::format("{} has done nothing, and gets {} tasks at once", client, grants.grants.size()));
}

// Its Gets that wait are answered when the time is over that the notice names. A new client of a
// key also waits while another one is tried.
void TrustChecker::OnMistrusted(const Notice& notice, std::int64_t now_us) {
  if (notice.text.find(kIsBenched) == std::string::npos) return;  // a task fails on all
  if (context_.IsLimited(notice.by)) offence_us_ = now_us;
  const std::size_t unit = notice.text.rfind(" ms");
  const std::size_t number = notice.text.rfind(' ', unit - 1) + 1;
  const std::int64_t said_us = 1000 * std::stoll(notice.text.substr(number, unit - number));
  std::int64_t end_us = After(now_us, said_us + kNotSaidUs);
  if (IsUntried(notice.by)) end_us = std::max(end_us, leases_.LastOfKeyUs());
  auto open = open_gets_.lower_bound({notice.by, 0});
  for (; open != open_gets_.end() && open->first.first == notice.by; ++open) {
    open->second = std::min(open->second, end_us);
  }
}

void TrustChecker::OnLost(const ClientId& client) {
  tried_.erase(client);
  std::erase_if(open_gets_, [&](const auto& entry) { return entry.first.first == client; });
}

void TrustChecker::OnTime(std::int64_t now_us) const {
  for (const auto& [get, due_us] : open_gets_) {
    if (due_us >= now_us) continue;
    context_.report(fmt::format("Get {} of {} waits for longer than was said, until {} us ago",
                                get.second, get.first, now_us - due_us));
  }
}

}  // namespace acan::simulation
