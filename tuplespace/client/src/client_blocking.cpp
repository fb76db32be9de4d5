#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client_impl.h"

namespace tuplespace {

namespace {

using Duration = Client::Duration;

// How often the caller's interrupt is called.
constexpr std::int64_t kAskEveryUs = 1'000'000;
// How long Take waits for the answer to its Complete, as that is worth a longer wait.
constexpr std::int64_t kCompletePatienceUs = 5'000'000;

std::int64_t WaitUs(Duration wait) {
  return wait == Client::kForever ? kForeverUs : std::max<std::int64_t>(0, wait.count());
}

std::int64_t Later(std::int64_t time_us, std::int64_t wait_us) {
  return wait_us >= kForeverUs - time_us ? kForeverUs : time_us + wait_us;
}

// The answer to a request of this kind must be a Body or a RequestError. Anything else is a fault
// of the broker.
template <typename Body>
std::optional<Body> Expect(std::optional<ReplyBody>&& reply) {
  if (!reply) return std::nullopt;
  if (auto* body = std::get_if<Body>(&*reply)) return std::move(*body);
  throw SpaceError(ErrorCode::kBadRequest, "the broker's answer does not fit the request");
}

}  // namespace

std::optional<ReplyBody> Client::Impl::Call(RequestBody body, Duration wait) {
  std::optional<ReplyBody> answer;
  const std::int64_t deadline_us = Later(MonotonicUs(), WaitUs(wait));
  Share(body);
  const RequestId id = session.Submit(std::move(body), MonotonicUs());
  // `answer` is gone when this returns, so the handler must be gone, too.
  struct Forget {
    Impl& impl;
    RequestId id;
    ~Forget() {
      if (impl.handlers.erase(id) > 0) impl.session.Abandon(id, MonotonicUs());
    }
  } forget{*this, id};
  handlers.emplace(id, [&answer](ReplyBody&& reply) { answer = std::move(reply); });
  for (;;) {
    if (interrupt) interrupt();
    const std::int64_t now_us = MonotonicUs();
    // At least once, so that a wait of 0 still sends and receives.
    Poll(std::clamp(session.GiveUpUs(id, deadline_us), now_us, now_us + kAskEveryUs), -1);
    if (answer) break;
    if (MonotonicUs() >= session.GiveUpUs(id, deadline_us)) return std::nullopt;
  }
  if (const auto* error = std::get_if<RequestError>(&*answer))
    throw SpaceError(error->code, error->text);
  return answer;
}

void Client::SetInterrupt(std::function<void()> check) {
  impl_->interrupt = std::move(check);
}

std::optional<std::vector<PutStatus>> Client::Put(std::vector<Tuple> tuples, Duration wait) {
  auto reply = Expect<PutReply>(impl_->Call(tuplespace::Put{std::move(tuples)}, wait));
  if (!reply) return std::nullopt;
  return std::move(reply->status);
}

std::optional<FoundTuple> Client::ReadOne(const Pattern& pattern, Duration wait) {
  std::vector<FoundTuple> found = ReadAll({pattern}, wait);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

std::vector<FoundTuple> Client::ReadAll(const std::vector<Pattern>& patterns, Duration wait,
                                        bool metadata_only) {
  Read read;
  read.patterns = patterns;
  read.metadata_only = metadata_only;
  read.wait_us = WaitUs(wait);
  auto found = Expect<Found>(impl_->Call(std::move(read), wait));
  if (!found || found->timed_out) return {};
  return std::move(found->tuples);
}

std::vector<FoundTuple> Client::ListAll(const Pattern& pattern, bool metadata_only, Duration wait) {
  List list;
  list.pattern = pattern;
  list.metadata_only = metadata_only;
  list.limit = UINT64_MAX;
  auto found = Expect<Found>(impl_->Call(std::move(list), wait));
  if (!found) return {};
  if (found->truncated) {
    throw SpaceError(ErrorCode::kTooLarge,
                     fmt::format("more tuples match {} than the broker sends at once ({}): list "
                                 "narrower patterns",
                                 pattern.ToString(), found->tuples.size()));
  }
  return std::move(found->tuples);
}

std::optional<std::uint64_t> Client::CountOf(const Pattern& pattern, Duration wait) {
  const auto reply = Expect<CountReply>(impl_->Call(Count{pattern}, wait));
  if (!reply) return std::nullopt;
  return reply->count;
}

std::vector<Grant> Client::GetSome(const tuplespace::Get& get, Duration wait) {
  tuplespace::Get request = get;
  request.wait_us = std::min(request.wait_us, WaitUs(wait));
  auto grants = Expect<Grants>(impl_->Call(std::move(request), wait));
  if (!grants) return {};
  return std::move(grants->grants);
}

std::optional<CompleteReply> Client::CompleteTask(const LeaseRef& lease, std::vector<Tuple> results,
                                                  Duration wait) {
  return Expect<CompleteReply>(impl_->Call(Complete{lease, std::move(results)}, wait));
}

std::optional<FoundTuple> Client::Take(const Pattern& pattern, Duration wait) {
  const std::int64_t deadline_us = Later(MonotonicUs(), WaitUs(wait));
  for (;;) {
    const auto left = [&] {
      return deadline_us == kForeverUs
                 ? kForever
                 : Duration(std::max<std::int64_t>(0, deadline_us - MonotonicUs()));
    };
    tuplespace::Get get;
    get.pattern = pattern;
    std::vector<Grant> grants = GetSome(get, left());
    if (grants.empty()) return std::nullopt;
    Grant& grant = grants.front();
    const std::uint64_t session = impl_->session.session();
    const std::size_t bytes = grant.payload.size();
    const Duration most =
        wait == kForever ? kForever : left() + std::chrono::microseconds(kCompletePatienceUs);
    const auto completed = CompleteTask({grant.key, grant.fence}, {}, most);
    // A new session does not know the lease: its answer is the same whether or not the request
    // arrived in the old one.
    const bool is_lost = session != 0 && session != impl_->session.session();
    if (!completed || (completed->lease == LeaseStatus::kStale && is_lost)) {
      throw SpaceError(ErrorCode::kBusy,
                       fmt::format("{} was granted, but the broker at {} has not said that it was "
                                   "taken{}: it may be gone, or come back when its lease ends",
                                   grant.key.ToString(), impl_->endpoints.endpoint(),
                                   completed ? " before the connection was lost" : ""));
    }
    if (completed->lease == LeaseStatus::kOk) {
      FoundTuple taken;
      taken.key = std::move(grant.key);
      taken.payload = std::move(grant.payload);
      taken.payload_bytes = bytes;
      return taken;
    }
  }
}

std::optional<std::uint64_t> Client::RetireAll(const Pattern& pattern, bool watermark,
                                               Duration wait) {
  const auto reply = Expect<RetireReply>(impl_->Call(Retire{pattern, watermark}, wait));
  if (!reply) return std::nullopt;
  return reply->removed;
}

std::optional<Stats> Client::GetStatistics(Duration wait) {
  return Expect<Stats>(impl_->Call(GetStats{}, wait));
}

}  // namespace tuplespace
