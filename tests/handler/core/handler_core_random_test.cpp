// HandlerCore with random events, which a seed draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "handler_core_fixture.h"

namespace acan {
namespace {

using tuplespace::Key;

template <typename T>
T TakeFirst(std::deque<T>& from) {
  T first = std::move(from.front());
  from.pop_front();
  return first;
}

// A handler's core, and a space and a device that answer it in random order. Tasks use few
// different tiles, so that they share inputs and replace each other's results.
class RandomHandler {
 public:
  explicit RandomHandler(std::uint32_t seed)
      : random_(seed),
        limit_bytes_(500 + random_() % 2000),
        part_(random_() % 2 == 0 ? 1 : 10),
        core_(limit_bytes_, 1 + static_cast<int>(random_() % 4)) {
    Take(core_.Start());
  }

  // Executes a random event out of the possible ones.
  void Step() {
    now_ += static_cast<std::int64_t>(random_() % 100);
    const unsigned what = random_() % 8;
    if (random_() % 50 == 0) return LoseSession();
    if (what == 0 && offer_bytes_) return GrantOne();
    if (what == 1 && !running_.empty()) return EndRun();
    if (what == 2 && !sending_.empty()) return Release();
    if (what == 3 && !fetching_.empty()) return EndFetch();
    if (what == 4 && !owed_.empty()) return AskForKept();
    if (what == 5 && !supplies_.empty()) return EndSupply();
    if (what == 6 && !coming_.empty()) return EndAhead();
    Take(core_.Step(TimePassed{}, now_));
  }

  // Ends everything in progress, and drains the handler.
  void Finish() {
    while (!fetching_.empty()) Take(core_.Step(GivenUp{TakeFirst(fetching_)}, now_));
    while (!running_.empty()) {
      Take(core_.Step(TaskFailed{TakeFirst(running_).first, "end"}, now_));
    }
    while (!sending_.empty()) Release();
    while (!coming_.empty()) Take(core_.Step(AheadArrived{TakeFirst(coming_).key, 0}, now_));
    Take(core_.Step(Drain{}, now_));
    while (!supplies_.empty()) Take(core_.Step(KeptSupplied{TakeFirst(supplies_)}, now_));
  }

  const HandlerCore& core() const { return core_; }
  std::uint64_t limit_bytes() const { return limit_bytes_; }
  std::uint64_t granted() const { return granted_; }
  std::uint64_t ended() const { return ended_; }
  std::uint64_t used_ahead() const { return used_ahead_; }

 private:
  Key AnyTile(std::int64_t first) {
    const auto version = static_cast<std::int64_t>(random_() % 3);
    return Tile(first + version, static_cast<std::int64_t>(random_() % 5));
  }

  // A tuple from elsewhere, which some tasks read.
  Key AnyData() {
    return Key{"job", 2 + static_cast<std::int64_t>(random_() % 2), "data",
               static_cast<std::int64_t>(random_() % 2)};
  }
  // Of an input, whatever task reads it.
  static std::uint64_t BytesOf(const Key& input) {
    return 5 + 10 * static_cast<std::uint64_t>(std::get<std::int64_t>(input.Fields()[3]));
  }

  void Take(const std::vector<HandlerAction>& actions) {
    for (const HandlerAction& action : actions) {
      if (const auto* ask = std::get_if<AskForTask>(&action)) {
        offer_bytes_ = ask->offer_bytes;
      } else if (const auto* run = std::get_if<RunTask>(&action)) {
        running_.emplace_back(run->flight, grants_[run->flight]);
        if (run->resident) staying_.insert(run->flight);
      } else if (const auto* supply = std::get_if<SupplyKept>(&action)) {
        supplies_.push_back(supply->key);
      } else if (const auto* fetch = std::get_if<FetchInputs>(&action)) {
        fetching_.push_back(fetch->flight);
      } else if (const auto* ahead = std::get_if<FetchAhead>(&action)) {
        coming_.push_back({ahead->key, BytesOf(ahead->key)});
      } else if (std::holds_alternative<PutBack>(action) ||
                 std::holds_alternative<ReportFailed>(action)) {
        ++ended_;
      }
    }
  }

  void GrantOne() {
    const Key tile = AnyTile(0);
    const std::uint64_t need_bytes = std::max<std::uint64_t>(
        1 + random_() % std::max<std::uint64_t>(1, *offer_bytes_ / part_), 4 * BytesOf(tile));
    if (need_bytes > *offer_bytes_) return;
    TaskGranted grant = Grant(need_bytes, {tile}, ++fence_);
    grant.input_bytes = {BytesOf(tile)};
    grant.sent = {!core_.IsCached(grant.inputs[0]) && random_() % 4 != 0};
    if (grant.sent[0]) grant.keep_input = 0;
    if (random_() % 2 == 0) AddData(&grant);
    const Key ahead = AnyData();
    if (random_() % 2 == 0) grant.ahead = {{ahead, BytesOf(ahead)}};
    if (random_() % 2 == 0) grant.resident_bytes = need_bytes / 4;
    offer_bytes_.reset();
    ++granted_;
    // Records the flight before the core's actions are processed.
    grants_[core_.last_flight() + 1] = grant;
    Take(core_.Step(grant, now_));
  }

  // Adds an input that is so small that all results still fit.
  void AddData(TaskGranted* grant) {
    const Key data = AnyData();
    const std::uint64_t bytes = BytesOf(data);
    if (grant->need_bytes < bytes || grant->need_bytes + bytes > *offer_bytes_) return;
    grant->need_bytes += bytes;
    grant->gathering_bytes = grant->computing_bytes = grant->need_bytes;
    grant->inputs.push_back(data);
    grant->sent.push_back(false);
    grant->input_bytes.push_back(0);
    used_ahead_ += core_.IsCached(data) ? 1 : 0;
  }

  void EndRun() {
    const auto [flight, grant] = TakeFirst(running_);
    if (random_() % 10 == 0) return Take(core_.Step(TaskFailed{flight, "seeded"}, now_));
    TaskFinished finished{flight, grant.need_bytes / 2, {}};
    const Key result = AnyTile(3);
    if (grant.need_bytes >= 4 && !core_.IsCached(result)) {
      const bool resident = staying_.contains(flight);
      finished.kept = {{result, grant.need_bytes / 4, resident}};
      if (resident) owed_.push_back(result);
    }
    Take(core_.Step(finished, now_));
    sending_.push_back(flight);
  }

  void Release() {
    const FlightId flight = TakeFirst(sending_);
    Take(core_.Step(ResultsCount{flight}, now_));
    Take(core_.Step(Released{flight}, now_));
    ++ended_;
  }

  void EndFetch() {
    const FlightId flight = TakeFirst(fetching_);
    if (random_() % 3 == 0) return Take(core_.Step(GivenUp{flight}, now_));
    Take(core_.Step(InputsArrived{flight}, now_));
  }

  void EndAhead() {
    const Ahead ahead = TakeFirst(coming_);
    const bool comes = random_() % 4 != 0;
    Take(core_.Step(AheadArrived{ahead.key, comes ? ahead.bytes : 0}, now_));
  }

  void AskForKept() {
    const Key key = TakeFirst(owed_);
    if (random_() % 2 == 0) return Take(core_.Step(KeptReleased{key}, now_));
    Take(core_.Step(KeptWanted{key}, now_));
  }

  // The space has not answered some of the puts.
  void LoseSession() {
    std::deque<Key> left = std::exchange(supplies_, {});
    left.insert(left.end(), owed_.begin(), owed_.end());
    owed_.clear();
    ConnectionLost lost;
    for (const Key& key : left) {
      if (random_() % 2 == 0 && lost.put_again.insert(key).second) owed_.push_back(key);
    }
    const auto actions = core_.Step(lost, now_);
    for (const HandlerAction& action : actions) {
      EXPECT_FALSE(std::holds_alternative<SupplyKept>(action));
    }
    Take(actions);
  }

  void EndSupply() {
    const Key key = TakeFirst(supplies_);
    if (random_() % 4 == 0) return Take(core_.Step(SupplyFailed{key}, now_));
    Take(core_.Step(KeptSupplied{key}, now_));
  }

  std::mt19937 random_;
  std::uint64_t limit_bytes_;
  std::uint64_t part_;  // a task needs at most this part of the offer
  HandlerCore core_;
  std::int64_t now_ = 0;
  std::uint64_t fence_ = 0, granted_ = 0, ended_ = 0, used_ahead_ = 0;
  std::optional<std::uint64_t> offer_bytes_;  // the open one
  std::map<FlightId, TaskGranted> grants_;
  std::deque<std::pair<FlightId, TaskGranted>> running_;
  std::deque<FlightId> sending_, fetching_;
  std::deque<Ahead> coming_;
  std::set<FlightId> staying_;       // flights whose results stay on the device
  std::deque<Key> supplies_, owed_;  // kept results that are wanted, or may still be wanted
};

// The bytes that tasks reserve plus those that are kept never exceed the limit (Step asserts that),
// every task ends, and nothing is reserved at the end.
TEST(HandlerCoreTest, RandomEventsNeverPassTheLimit) {
  std::uint64_t used_ahead = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomHandler handler(seed);
    for (int i = 0; i < 400; ++i) {
      handler.Step();
      const HandlerCore& core = handler.core();
      ASSERT_LE(core.reserved_bytes() + core.cached_bytes(), handler.limit_bytes());
    }
    handler.Finish();
    EXPECT_TRUE(handler.core().drained());
    EXPECT_EQ(handler.core().reserved_bytes(), 0u);
    EXPECT_EQ(handler.granted(), handler.ended());
    used_ahead += handler.used_ahead();
  }
  EXPECT_GT(used_ahead, 100u);
}

}  // namespace
}  // namespace acan
