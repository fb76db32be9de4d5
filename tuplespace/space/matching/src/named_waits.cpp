#include "named_waits.h"

#include <algorithm>

namespace tuplespace::internal {

namespace {

// Each task that another client takes cuts the time for which later tasks are reserved to a
// quarter; each task that the client itself takes doubles the time.
constexpr std::uint32_t kKeptLessIfNotTaken = 2;
constexpr std::uint32_t kMaxKeptLess = 20;
// Without keys a client can use any number of ids; beyond this number the oldest are forgotten.
constexpr std::size_t kMaxRemembered = 4096;

}  // namespace

void NamedWaits::Begin(ClientState& client) const {
  for (auto at = remembered_.lower_bound({client.principal, std::string()});
       at != remembered_.end() && at->first.first == client.principal; ++at) {
    const std::uint32_t left = Left(at->second);
    if (left > 0) client.kept_less.emplace(at->first.second, left);
  }
}

// A client that leaves while tasks are reserved for it did not come for them. The clients of a key
// do not add up: many that die at work are no worse than one.
void NamedWaits::End(ClientState& client, const std::set<std::string>& waited_for_by) {
  for (const std::string& judge : waited_for_by) NoteDidNotCome(client, judge);
  for (const auto& [judge, kept_less] : client.kept_less) {
    Remembered& of = remembered_[{client.principal, judge}];
    of = {std::max(Left(of), kept_less), state_.now_us};
    ForgetSome();
  }
}

std::int64_t NamedWaits::KeptUs(const ClientState& client, std::string_view judge,
                                std::int64_t prefer_us) const {
  const auto at = client.kept_less.find(judge);
  const std::uint32_t kept_less = at == client.kept_less.end() ? 0 : at->second;
  return std::min(prefer_us, state_.limits.most_prefer_us) >> kept_less;
}

void NamedWaits::NoteCame(ClientState& client, std::string_view judge) {
  const auto at = client.kept_less.find(judge);
  if (at != client.kept_less.end() && --at->second == 0) client.kept_less.erase(at);
}

void NamedWaits::NoteDidNotCome(ClientState& client, std::string_view judge) {
  std::uint32_t& kept_less = client.kept_less[std::string(judge)];
  kept_less = std::min(kept_less + kKeptLessIfNotTaken, kMaxKeptLess);
}

std::uint32_t NamedWaits::Left(const Remembered& of) const {
  const std::int64_t forgiven = (state_.now_us - of.since_us) / state_.limits.key_forgiven_us;
  return forgiven >= of.kept_less ? 0 : of.kept_less - static_cast<std::uint32_t>(forgiven);
}

void NamedWaits::ForgetSome() {
  if (remembered_.size() <= kMaxRemembered) return;
  std::erase_if(remembered_, [this](const auto& entry) { return Left(entry.second) == 0; });
  if (remembered_.size() <= kMaxRemembered) return;
  remembered_.erase(std::ranges::min_element(
      remembered_, {}, [](const auto& entry) { return entry.second.since_us; }));
}

}  // namespace tuplespace::internal
