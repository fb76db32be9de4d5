#include "checkers/trust_checker.h"

#include <algorithm>
#include <string>

#include "fmt/format.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {
constexpr const char* kIsBenched = "receives no tasks";
constexpr const char* kBenchedApart = "receives no tasks of key";  // but all others
constexpr std::int64_t kNotSaidUs = 999;  // notices round to whole milliseconds
constexpr std::int64_t kRememberedUs = kLimits.key_forgiven_us - kLimits.most_bench_us;
}  // namespace

void TrustChecker::OnGet(const ClientId& client, RequestId id, const Get& get) {
  open_gets_.emplace(std::pair(client, id), OpenGet{get.pattern, get.offer_bytes});
}

void TrustChecker::OnReply(const ClientId& client, RequestId id) {
  open_gets_.erase({client, id});
}

// On probation, a new client of a key that offended recently gets one task at a time.
void TrustChecker::OnGrants(const ClientId& client, RequestId id, const Grants& grants,
                            std::int64_t now_us) {
  if (const auto get = open_gets_.find({client, id}); get != open_gets_.end()) {
    Asked& asked = asked_for_[client];
    const auto begin = asked.patterns.begin(), end = asked.patterns.end();
    const bool is_new = std::find(begin, end, get->second.pattern) == end;
    if (is_new) asked.patterns.push_back(std::move(get->second.pattern));
    asked.offer_bytes = std::max(asked.offer_bytes, get->second.offer_bytes);
    open_gets_.erase(get);
  }
  if (!IsOnProbation(client, now_us) || grants.grants.size() <= 1) return;
  context_.report(
      fmt::format("{} has done nothing, and gets {} tasks at once", client, grants.grants.size()));
}

bool TrustChecker::IsOnProbation(const ClientId& client, std::int64_t now_us) const {
  return IsUntried(client) && now_us < offence_us_ + kRememberedUs;
}

// Another client could certainly take the task if it asked for such tasks before with enough
// memory, was never benched, and has no key whose other clients could have been benched.
Extensions TrustChecker::ExtensionsOf(const ClientId& client, const Key& key, const TaskSpec* task,
                                      std::int64_t now_us) const {
  Extensions extensions;
  if (!HasKey(client) && !mistrusted_.contains(client)) {
    extensions.least = kLimits.lease_extensions;
  }
  if (IsUntried(client)) extensions.most = kLimits.untried_extensions;
  // What it did with the tasks of others does not count for those that are judged apart.
  const bool probation = !context_.IsJudgedApart(key) && IsOnProbation(client, now_us);
  if (probation) extensions.most = kLimits.untried_extensions / 2;
  if (task == nullptr) return extensions;  // its needs are unknown
  const auto asks = [&](const Pattern& pattern) { return pattern.Matches(key); };
  const auto could_take = [&](const auto& other) {
    return other.first != client && !HasKey(other.first) && !mistrusted_.contains(other.first) &&
           other.second.offer_bytes >= task->need_bytes &&
           std::any_of(other.second.patterns.begin(), other.second.patterns.end(), asks);
  };
  extensions.another_could_take =
      task->not_by.empty() && std::any_of(asked_for_.begin(), asked_for_.end(), could_take);
  return extensions;
}

// The broker must answer the client's waiting Gets once the time that the notice names has passed.
void TrustChecker::OnMistrusted(const Notice& notice, std::int64_t now_us) {
  if (notice.text.find(kIsBenched) == std::string::npos) return;  // it is about a task
  const bool apart = notice.text.find(kBenchedApart) != std::string::npos;
  if (apart != context_.IsJudgedApart(notice.key)) {
    context_.report(fmt::format("{} gets {} because of what it did with {}", notice.by,
                                apart ? "only tasks of others" : "no tasks at all",
                                notice.key.ToString()));
  }
  mistrusted_.insert(notice.by);
  if (apart) return;  // Gets wait longer if the client is benched for all tasks, too
  if (context_.IsLimited(notice.by)) offence_us_ = now_us;
  const std::size_t unit = notice.text.rfind(" ms");
  const std::size_t number = notice.text.rfind(' ', unit - 1) + 1;
  const std::int64_t said_us = 1000 * std::stoll(notice.text.substr(number, unit - number));
  const std::int64_t end_us = After(now_us, said_us + kNotSaidUs);
  auto open = open_gets_.lower_bound({notice.by, 0});
  for (; open != open_gets_.end() && open->first.first == notice.by; ++open) {
    open->second.due_us = std::min(open->second.due_us, end_us);
  }
}

void TrustChecker::OnLost(const ClientId& client) {
  tried_.erase(client);
  asked_for_.erase(client);
  std::erase_if(open_gets_, [&](const auto& entry) { return entry.first.first == client; });
}

void TrustChecker::OnTime(std::int64_t now_us) const {
  for (const auto& [get, open] : open_gets_) {
    if (open.due_us >= now_us) continue;
    context_.report(fmt::format("Get {} of {} waits for longer than was said, until {} us ago",
                                get.second, get.first, now_us - open.due_us));
  }
}

}  // namespace acan::simulation
