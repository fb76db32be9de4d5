// HandlerCore compared with a model of the device's memory: the device never holds more than the
// limit, and a task that fits the offer always runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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

// A task, as far as its memory is concerned.
struct ModelTask {
  TaskGranted grant;
  std::vector<std::uint64_t> input_bytes;
  std::uint64_t assembled_bytes = 0;  // buffers that pieces are copied into
  std::uint64_t other_bytes = 0;      // buffers that it makes, including results
  std::vector<KeptResult> results;    // all results; those with an empty key are not kept
  std::set<std::size_t> cached;       // inputs that are in the cache while it runs
  enum class Phase { kWaiting, kGathering, kComputing, kSending } phase = Phase::kWaiting;
};

// Drives a core as a space and a device would, in random order, and counts what the device holds.
class ModelDevice {
 public:
  explicit ModelDevice(std::uint32_t seed)
      : random_(seed),
        limit_bytes_(250 + random_() % 350),
        core_(limit_bytes_, 1 + static_cast<int>(random_() % 4)) {
    Take(core_.Start());
  }

  void Step() {
    now_ += static_cast<std::int64_t>(random_() % 100);
    const unsigned what = random_() % 6;
    if (what == 0 && offer_) return GrantOne();
    if (what == 1) return Advance();
    if (what == 2 && !fetching_.empty()) {
      const FlightId flight = *fetching_.begin();
      fetching_.erase(fetching_.begin());
      return Take(core_.Step(InputsArrived{flight}, now_));
    }
    if (what == 3 && !owed_.empty()) return EndOwed();
    Take(core_.Step(TimePassed{}, now_));
  }

  // Ends everything in progress.
  void Finish() {
    while (!tasks_.empty() || !owed_.empty()) {
      if (!owed_.empty()) EndOwed();
      for (const FlightId flight : fetching_) Take(core_.Step(InputsArrived{flight}, now_));
      fetching_.clear();
      Advance();
    }
  }

  // What the core finally offers if nothing happens.
  std::uint64_t OfferWhenIdle() {
    for (int i = 0; i < 4; ++i) {
      now_ = std::min(core_.NextDeadlineUs(), now_ + kOfferInVainUs);
      Take(core_.Step(TimePassed{}, now_));
    }
    return offer_ ? *offer_ : 0;
  }

  std::uint64_t HeldBytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [key, of_key] : cache_) bytes += of_key;
    for (const auto& [flight, task] : tasks_) bytes += HeldBy(task);
    return bytes;
  }
  const HandlerCore& core() const { return core_; }
  std::uint64_t limit_bytes() const { return limit_bytes_; }
  int put_back() const { return put_back_; }
  int taken() const { return taken_; }

 private:
  using Phase = ModelTask::Phase;

  // Bytes that the task holds outside the cache.
  static std::uint64_t HeldBy(const ModelTask& task) {
    std::uint64_t bytes = 0;
    if (task.phase == Phase::kSending) {
      for (const KeptResult& result : task.results) bytes += result.bytes;
      return bytes;
    }
    for (std::size_t i = 0; i < task.input_bytes.size(); ++i) {
      const bool gone = task.phase == Phase::kComputing && !task.grant.whole[i];
      if (!gone && !task.cached.contains(i)) bytes += task.input_bytes[i];
    }
    if (task.phase != Phase::kWaiting) bytes += task.assembled_bytes;
    if (task.phase == Phase::kComputing) bytes += task.other_bytes;
    return bytes;
  }

  // The size of a tile depends only on its number.
  KeptResult AnyTile(std::int64_t first) {
    const std::int64_t number = static_cast<std::int64_t>(random_() % 6);
    return {Tile(first + static_cast<std::int64_t>(random_() % 3), number),
            20 + 37 * static_cast<std::uint64_t>(number)};
  }

  ModelTask AnyTask() {
    ModelTask task;
    std::map<Key, std::uint64_t> inputs;
    for (unsigned i = random_() % 4; i > 0; --i) {
      const KeptResult tile = AnyTile(0);
      inputs[tile.key] = tile.bytes;
    }
    std::vector<Key> keys;
    for (const auto& [key, bytes] : inputs) keys.push_back(key);
    task.grant = Grant(0, keys, ++fence_);
    std::uint64_t gathering = 0, computing = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool whole = random_() % 2 == 0;
      task.grant.whole.push_back(whole);
      task.input_bytes.push_back(inputs[keys[i]]);
      gathering += inputs[keys[i]];
      (whole ? computing : task.assembled_bytes) += inputs[keys[i]];
      task.grant.sent[i] = !core_.IsCached(keys[i]) && random_() % 4 != 0;
      if (task.grant.sent[i] && whole && random_() % 2 == 0) task.grant.keep_input = i;
    }
    task.grant.input_bytes = task.input_bytes;
    if (random_() % 2 == 0) task.assembled_bytes += random_() % 200;
    for (unsigned i = random_() % 3; i > 0; --i) {
      KeptResult result = AnyTile(3);
      if (random_() % 3 == 0) result.key = {};
      task.results.push_back(result);
      task.other_bytes += result.bytes;
    }
    task.other_bytes += random_() % 200;
    task.grant.gathering_bytes = gathering + task.assembled_bytes;
    task.grant.computing_bytes = computing + task.assembled_bytes + task.other_bytes;
    task.grant.need_bytes = std::max(task.grant.gathering_bytes, task.grant.computing_bytes);
    if (random_() % 3 == 0) task.grant.resident_bytes = task.other_bytes;
    return task;
  }

  void GrantOne() {
    ModelTask task = AnyTask();
    if (task.grant.need_bytes > *offer_) return;
    offer_.reset();
    const FlightId flight = core_.last_flight() + 1;
    for (std::size_t i = 0; i < task.grant.inputs.size(); ++i) {
      if (!task.grant.sent[i] && cache_.contains(task.grant.inputs[i])) task.cached.insert(i);
    }
    const auto& added = tasks_[flight] = std::move(task);
    const TaskGranted grant = added.grant;
    Take(core_.Step(grant, now_));
  }

  // Moves a random task to its next phase.
  void Advance() {
    if (tasks_.empty()) return;
    auto it = tasks_.begin();
    std::advance(it, random_() % tasks_.size());
    auto& [flight, task] = *it;
    if (fetching_.contains(flight)) return;
    switch (task.phase) {
      case Phase::kWaiting:
        task.phase = Phase::kGathering;
        return;
      case Phase::kGathering:
        task.phase = Phase::kComputing;
        return;
      case Phase::kComputing:
        return EndRun(flight, task);
      case Phase::kSending:
        return EndSending(flight);
    }
  }

  // The space has stored its results.
  void EndSending(FlightId flight) {
    tasks_.erase(flight);
    Take(core_.Step(ResultsCount{flight}, now_));
    Take(core_.Step(Released{flight}, now_));
  }

  void EndRun(FlightId flight, ModelTask& task) {
    if (random_() % 10 == 0) {
      tasks_.erase(flight);
      return Take(core_.Step(TaskFailed{flight, "seeded"}, now_));
    }
    task.phase = Phase::kSending;
    TaskFinished finished{flight, 0, {}};
    std::vector<KeptResult> leaving;  // not in the cache
    for (const KeptResult& result : task.results) {
      finished.result_bytes += result.bytes;
      const auto same = [&](const KeptResult& kept) { return kept.key == result.key; };
      const bool twice = std::any_of(finished.kept.begin(), finished.kept.end(), same);
      if (result.key == Key{} || twice || cache_.contains(result.key)) {
        leaving.push_back(result);
        continue;
      }
      const bool resident = staying_.contains(flight);
      finished.kept.push_back({result.key, result.bytes, resident});
      if (resident) owed_.insert(result.key);
    }
    for (const KeptResult& kept : finished.kept) cache_[kept.key] = kept.bytes;
    task.results = leaving;
    Take(core_.Step(finished, now_));
  }

  void EndOwed() {
    auto it = owed_.begin();
    std::advance(it, random_() % owed_.size());
    const Key key = *it;
    owed_.erase(it);
    if (random_() % 2 == 0) return Take(core_.Step(KeptReleased{key}, now_));
    Take(core_.Step(KeptSupplied{key}, now_));
  }

  void Take(const std::vector<HandlerAction>& actions) {
    for (const HandlerAction& action : actions) {
      if (const auto* ask = std::get_if<AskForTask>(&action)) {
        offer_ = ask->offer_bytes;
      } else if (const auto* run = std::get_if<RunTask>(&action)) {
        if (run->resident) staying_.insert(run->flight);
      } else if (const auto* fetch = std::get_if<FetchInputs>(&action)) {
        fetching_.insert(fetch->flight);
      } else if (const auto* drop = std::get_if<DropCached>(&action)) {
        EXPECT_EQ(cache_.erase(drop->key), 1u);
      } else if (const auto* take = std::get_if<TakeCached>(&action)) {
        ++taken_;
        ModelTask& task = tasks_.at(take->flight);
        EXPECT_EQ(cache_.erase(task.grant.inputs[take->input]), 1u);
        EXPECT_EQ(task.cached.erase(take->input), 1u);
      } else if (const auto* keep = std::get_if<KeepInput>(&action)) {
        const ModelTask& task = tasks_.at(keep->flight);
        cache_[keep->key] = task.input_bytes[*task.grant.keep_input];
      } else if (const auto* back = std::get_if<PutBack>(&action)) {
        tasks_.erase(back->flight);
        ++put_back_;
      }
    }
  }

  std::mt19937 random_;
  std::uint64_t limit_bytes_;
  HandlerCore core_;
  std::int64_t now_ = 0;
  std::uint64_t fence_ = 0;
  int put_back_ = 0, taken_ = 0;
  std::optional<std::uint64_t> offer_;  // the open one
  std::map<FlightId, ModelTask> tasks_;
  std::map<Key, std::uint64_t> cache_;
  std::set<FlightId> fetching_, staying_;
  std::set<Key> owed_;
};

TEST(HandlerMemoryTest, TheDeviceNeverHoldsMoreAndWhatFitsTheOfferRuns) {
  int taken = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ModelDevice device(seed);
    for (int i = 0; i < 1500; ++i) {
      device.Step();
      const HandlerCore& core = device.core();
      const std::uint64_t charged = core.reserved_bytes() + core.cached_bytes();
      ASSERT_LE(charged, device.limit_bytes());
      ASSERT_LE(device.HeldBytes(), charged) << "bytes that count nowhere";
      ASSERT_EQ(device.put_back(), 0) << "a task that fits the offer";
    }
    device.Finish();
    EXPECT_EQ(device.core().reserved_bytes(), 0u);
    // Kept results must not prevent a task forever.
    EXPECT_EQ(device.OfferWhenIdle(), device.limit_bytes());
    taken += device.taken();
  }
  EXPECT_GE(taken, 10) << "few tasks were as large as this is about";
}

}  // namespace
}  // namespace acan
