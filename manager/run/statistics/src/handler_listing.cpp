#include "handler_listing.h"

#include <algorithm>
#include <iterator>
#include <variant>

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::FoundTuple;
using tuplespace::Pattern;
using tuplespace::ReplyBody;

constexpr std::uint32_t kMaxListed = 65'536;  // as many as a broker admits
// Large numbers of handlers are listed less often, so that the cost does not grow with them.
constexpr std::int64_t kPauseOfTupleUs = 1'000;
constexpr std::int64_t kPauseOfKibUs = 250;  // of payloads read
// The listings of this many managers together take a twentieth of the broker's time. More managers
// list less often. A listing with a shorter pause does not ask how many there are.
constexpr std::uint64_t kFullRateManagers = 25;
constexpr std::int64_t kLongPauseUs = 100'000;

// A handler puts each report before it retires the one before it.
Pattern ReportsOf(const tuplespace::ClientId& id) {
  Pattern pattern = AllReports();
  pattern.fields[1] = FieldPattern::Exact(id);
  return pattern;
}

bool IsDamaged(const tuplespace::ReplyBody& reply) {
  const auto* error = std::get_if<tuplespace::RequestError>(&reply);
  return error != nullptr && error->code == tuplespace::ErrorCode::kDamaged;
}

}  // namespace

void HandlerListing::Begin() {
  again_ = busy();
  if (busy()) return;
  phase_ = Phase::kCapacities;
  cost_us_ = 0;
  Ask(tuplespace::List{AllHandlers(), kMaxListed, /*metadata_only=*/true},
      &HandlerListing::OnListed);
}

HandlerListing::Version HandlerListing::VersionOf(const FoundTuple& tuple) {
  return {tuple.put_by, tuple.payload_bytes, tuple.hash};
}

void HandlerListing::OnListed(Tuples&& listed) {
  cost_us_ += kPauseOfTupleUs * static_cast<std::int64_t>(listed.size());
  const auto earlier = std::exchange(capacities_, {});
  Tuples unread;
  for (FoundTuple& tuple : listed) {
    const Version version = VersionOf(tuple);
    const auto at = earlier.find(tuple.key);
    if (at != earlier.end() && at->second.version == version) {
      capacities_.insert(*at);
    } else if (tuple.payload_bytes <= kMaxCapacityBytes && !tuple.resident) {
      unread.push_back(std::move(tuple));
    }
  }
  ReadShortest(std::move(unread));
}

void HandlerListing::TakeCapacity(const FoundTuple& read) {
  capacities_[read.key] = {VersionOf(read), CapacityFromJson(std::string(read.payload.text()))};
}

void HandlerListing::Announce() {
  HandlersSeen seen;
  for (const auto& [key, known] : capacities_) {
    if (!known.capacity) continue;
    if (job_id_.starts_with(known.capacity->jobs)) {
      seen.handlers.emplace(known.version.put_by, *known.capacity);
    } else {  // the broker gives it no tasks of this job
      ++seen.of_other_jobs;
    }
  }
  std::erase_if(reports_, [&](const auto& one) { return !seen.handlers.contains(one.first); });
  tuplespace::Read reports;
  reports.metadata_only = true;
  for (const auto& [id, capacity] : seen.handlers) {
    reports.patterns.push_back(ReportsOf(id));
    reports_.try_emplace(id);
  }
  notify_.handlers(std::move(seen));
  if (reports.patterns.empty()) return End();
  phase_ = Phase::kReports;
  Ask(std::move(reports), &HandlerListing::OnReportsListed);
}

void HandlerListing::OnReportsListed(Tuples&& listed) {
  std::erase_if(listed, [this](const FoundTuple& tuple) {
    const auto at = reports_.find(tuple.put_by);
    const bool is_new =
        at != reports_.end() && at->second != KnownReport{tuple.key, VersionOf(tuple)};
    return !is_new || tuple.payload_bytes > kMaxReportBytes || tuple.resident;
  });
  ReadShortest(std::move(listed));
}

void HandlerListing::TakeReport(const FoundTuple& read) {
  const auto at = reports_.find(read.put_by);
  if (at == reports_.end()) return;  // put again, by another client
  at->second = {read.key, VersionOf(read)};
  const auto report = ReportFromJson(std::string(read.payload.text()));
  if (report) notify_.report(read.put_by, *report);
}

void HandlerListing::ReadShortest(Tuples&& tuples) {
  std::stable_sort(tuples.begin(), tuples.end(), [](const FoundTuple& a, const FoundTuple& b) {
    return a.payload_bytes < b.payload_bytes;
  });
  std::uint64_t bytes = 0;
  const auto end = std::find_if(tuples.begin(), tuples.end(), [&bytes](const FoundTuple& tuple) {
    bytes += tuple.payload_bytes;
    return bytes > kMaxBytesAtOnce;
  });
  tuples.erase(end, tuples.end());
  cost_us_ += kPauseOfKibUs * static_cast<std::int64_t>(std::min(bytes, kMaxBytesAtOnce) >> 10);
  unread_.clear();
  if (!tuples.empty()) unread_.push_back(std::move(tuples));
  ReadNext();
}

void HandlerListing::ReadNext() {
  if (unread_.empty()) return phase_ == Phase::kCapacities ? Announce() : End();
  Tuples asked = std::move(unread_.back());
  unread_.pop_back();
  tuplespace::Read read;  // does not wait for tuples that are gone
  for (const FoundTuple& tuple : asked) read.patterns.push_back(Pattern::Of(tuple.key));
  submit_(std::move(read), [this, asked = std::move(asked)](ReplyBody&& reply) mutable {
    OnRead(std::move(asked), std::move(reply));
  });
}

// One payload that does not have the hash with which it was put spoils the whole answer, so that
// the halves are read again until it is found.
void HandlerListing::OnRead(Tuples&& asked, ReplyBody&& reply) {
  if (const auto* found = std::get_if<tuplespace::Found>(&reply)) {
    for (const FoundTuple& tuple : found->tuples) Take(tuple);
  } else if (!IsDamaged(reply)) {
    return End();
  } else if (asked.size() == 1) {
    Take(asked.front());  // which has no payload
  } else {
    const auto middle = asked.begin() + static_cast<std::ptrdiff_t>(asked.size() / 2);
    unread_.emplace_back(std::make_move_iterator(middle), std::make_move_iterator(asked.end()));
    asked.erase(middle, asked.end());
    unread_.push_back(std::move(asked));
  }
  ReadNext();
}

void HandlerListing::Take(const FoundTuple& read) {
  return phase_ == Phase::kCapacities ? TakeCapacity(read) : TakeReport(read);
}

void HandlerListing::Ask(tuplespace::RequestBody request, void (HandlerListing::*then)(Tuples&&)) {
  submit_(std::move(request), [this, then](ReplyBody&& reply) {
    auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return End();
    (this->*then)(std::move(found->tuples));
  });
}

void HandlerListing::End() {
  if (cost_us_ < kLongPauseUs) return EndWith(1);
  phase_ = Phase::kManagers;
  submit_(tuplespace::Count{AllLeaders()}, [this](ReplyBody&& reply) {
    // Each manager holds its lead under a lease. A key that is limited to some jobs sees only
    // theirs.
    const auto* count = std::get_if<tuplespace::CountReply>(&reply);
    EndWith(count != nullptr && count->tasks ? count->tasks->leased : 1);
  });
}

void HandlerListing::EndWith(std::uint64_t managers) {
  phase_ = Phase::kIdle;
  const std::uint64_t share = std::clamp<std::uint64_t>(managers, kFullRateManagers, kMaxListed);
  pause_us_ =
      cost_us_ * static_cast<std::int64_t>(share) / static_cast<std::int64_t>(kFullRateManagers);
  if (std::exchange(again_, false)) Begin();
}

}  // namespace acan
