// Results that stay on devices with their own memory: the bits are the same, whatever is lost with
// a device.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/load_data.h"
#include "cluster_fixture.h"
#include "own_memory_device.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ResidentTest : public ClusterTest {
 protected:
  ResidentTest() { least_removed_bytes_ = 1; }
  static Job ResidentJob(const std::string& more = "") {
    return SmallJob("[tasks]\nresident_steps = 7\n" + more);
  }
  void AddOwnMemory(std::uint64_t memory_bytes, const std::atomic<bool>* lost = nullptr) {
    AddHandler(test::MakeOwnMemoryDevice(
        {.threads = 1, .memory_limit_bytes = memory_bytes, .isa = {}}, lost));
  }
  // A handler as on another host: on a CPU, or with `lost` on a device as above.
  void AddOverLink(std::uint64_t memory_bytes, const std::atomic<bool>* lost = nullptr) {
    HandlerOptions options = RunningHandler::Options(endpoint_, memory_bytes);
    options.shared_memory = false;
    options.bytes_travel = true;
    options.holds_from_bytes = 1;
    if (lost != nullptr) {
      options.device = test::MakeOwnMemoryDevice(
          {.threads = 1, .memory_limit_bytes = memory_bytes, .isa = {}}, lost);
    }
    handlers_.emplace_back(std::move(options));
  }
};

TEST_F(ResidentTest, OneHandlerKeepsNearlyEverything) {
  const Job job = ResidentJob();
  AddOwnMemory(64 << 20);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  const HandlerReport report = handlers_.front().Stop();
  EXPECT_GT(report.resident_results, 10 * report.supplied_results);
  EXPECT_GT(report.resident_results, 500u);
}

TEST_F(ResidentTest, HandlersAskEachOtherForWhatTheyKeep) {
  const Job job = ResidentJob("size_bytes = 20000\n");
  AddOwnMemory(1 << 20);
  AddOwnMemory(1 << 20);
  AddHandler(1 << 20);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  EXPECT_THAT(log_, Not(HasSubstr("going back")));
  std::uint64_t stayed = 0;
  std::uint64_t supplied = 0;
  for (RunningHandler& handler : handlers_) {
    const HandlerReport report = handler.Stop();
    stayed += report.resident_results;
    supplied += report.supplied_results;
  }
  EXPECT_GT(stayed, 0u);
  // The manager asks, too. If one handler was given nearly all tasks, only the manager does.
  EXPECT_GT(supplied, 0u);
}

TEST_F(ResidentTest, WithLittleMemoryToo) {
  const Job job = ResidentJob("size_bytes = 20000\n");
  const std::vector<std::uint64_t> limits = {200 << 10, 160 << 10};
  for (const std::uint64_t limit : limits) AddOwnMemory(limit);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  auto limit = limits.begin();
  for (RunningHandler& handler : handlers_) {
    const std::uint64_t peak_bytes = handler.Stop().peak_bytes;
    EXPECT_GT(peak_bytes, 0u);
    EXPECT_LE(peak_bytes, *limit++);
  }
}

TEST_F(ResidentTest, ALostDeviceCostsAFewSteps) {
  // Of 33 steps. Late steps are left out: the handler may have done everything before the test
  // hears of them.
  for (const std::int64_t at : {2, 12, 20, 26}) {
    log_.clear();
    const Job job = ResidentJob();
    std::atomic<bool> lost{false};
    handlers_.clear();
    AddOwnMemory(64 << 20, &lost);
    std::vector<std::int64_t> steps;
    const Receipt receipt = Run(job, [&](const Progress& progress) {
      steps.push_back(progress.step);
      if (progress.step != at || lost.exchange(true)) return;
      AddOwnMemory(64 << 20);
    });
    ASSERT_TRUE(lost);
    EXPECT_EQ(receipt.weights_sha256, PlainHash(job)) << at;
    EXPECT_THAT(log_, HasSubstr("going back")) << at;
    // Each evaluation is reported with the step before it.
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end())) << "no step is told of again";
  }
}

// The tiles of the last step are on the device; the snapshot fetches them.
TEST_F(ResidentTest, AStopSavesWhatStaysOnADevice) {
  const Job job = ResidentJob();
  AddOwnMemory(64 << 20);
  for (const std::int64_t at : {9, 12, 20}) {
    Manager* running = nullptr;
    std::int64_t last = 0;
    ManagerOptions options;
    options.endpoint = endpoint_;
    options.out_dir = folder_ + "/out";
    options.source = "test";
    options.expected_handlers = 1;
    options.least_removed_bytes = least_removed_bytes_;
    options.resume = at > 9;
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    options.progress = [&](const Progress& progress) {
      last = progress.step;
      if (progress.step == at) running->Stop(std::chrono::hours(1));
    };
    Manager manager(std::move(options), job, LoadData(job));
    running = &manager;
    EXPECT_FALSE(manager.Run());
    EXPECT_THAT(log_,
                HasSubstr("stopped after step " + std::to_string(last) + ": no work is lost"));
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/out/snapshots/step-0000000000" +
                                        (last < 10 ? "0" : "") + std::to_string(last) +
                                        ".safetensors"));
  }
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
}

// ---- over links: on any device, large results and inputs stay with the handler ------------------

TEST_F(ResidentTest, HandlersOverLinksKeepWhatOthersDoNotNeed) {
  const Job job = ResidentJob("size_bytes = 20000\n");
  for (int i = 0; i < 3; ++i) AddOverLink(16 << 20);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  EXPECT_THAT(log_, Not(HasSubstr("going back")));
  std::uint64_t stayed = 0;
  std::uint64_t supplied = 0;
  for (RunningHandler& handler : handlers_) {
    const HandlerReport report = handler.Stop();
    stayed += report.resident_results;
    supplied += report.supplied_results;
  }
  EXPECT_GT(stayed, 500u);
  EXPECT_LT(supplied, stayed);
}

TEST_F(ResidentTest, NearAndFarHandlersTogether) {
  const Job job = ResidentJob("size_bytes = 20000\n");
  AddOverLink(200 << 10);
  AddOverLink(16 << 20);
  AddHandler(1 << 20);
  AddOwnMemory(1 << 20);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  EXPECT_LE(handlers_.front().Stop().peak_bytes, 200u << 10);
}

TEST_F(ResidentTest, AHandlerLostWithItsLinkCostsAFewSteps) {
  for (const std::int64_t at : {2, 12, 31}) {
    log_.clear();
    const Job job = ResidentJob("size_bytes = 20000\n");
    handlers_.clear();
    std::atomic<bool> lost{false};
    // A single handler, so that all resident results are lost with it.
    AddOverLink(64 << 20, &lost);
    const Receipt receipt = Run(job, [&](const Progress& progress) {
      if (progress.step != at || lost.exchange(true)) return;
      AddOverLink(64 << 20);
      AddOverLink(64 << 20);
    });
    ASSERT_TRUE(lost);
    EXPECT_EQ(receipt.weights_sha256, PlainHash(job)) << at;
    EXPECT_THAT(log_, HasSubstr("going back")) << at;
  }
}

// What the only handler says about itself.
Capacity CapacityOf(tuplespace::Client& client) {
  const auto found = client.ReadOne(AllHandlers());
  const auto capacity = found ? CapacityFromJson(std::string(found->payload.text())) : std::nullopt;
  EXPECT_TRUE(capacity);
  return capacity.value_or(Capacity{});
}

// Simultaneous measurements would share the broker's link, and plans would assume slow links.
TEST_F(ResidentTest, AHandlerMeasuresItsLinkWhenNobodyElseDoes) {
  tuplespace::Client other({.endpoint = endpoint_, .name = "measures", .id = {}});
  tuplespace::Get get;
  get.pattern = tuplespace::Pattern::Of(ProbeTurnKey());
  get.lease_us = 3'600'000'000;
  const auto turn = other.GetSome(get);
  ASSERT_EQ(turn.size(), 1u);
  AddOverLink(1 << 20);
  EXPECT_EQ(CapacityOf(other).link_ns_per_kib, 0u) << "it is there, but has not measured";
  while (other.GetStatistics()->open_gets < 2) {  // for the turn and for a task
  }
  EXPECT_TRUE(other.ListAll(AllProbes()).empty());
  EXPECT_EQ(CapacityOf(other).link_ns_per_kib, 0u);
  bool is_released = false;
  other.Submit(tuplespace::Release{{turn[0].key, turn[0].fence}},
               [&](tuplespace::ReplyBody&&) { is_released = true; });
  while (!is_released) other.Poll(std::chrono::seconds(1));
  while (CapacityOf(other).link_ns_per_kib == 0) {
  }
  EXPECT_TRUE(other.ListAll(AllProbes()).empty());
  EXPECT_EQ(other.GetSome(get).size(), 1u) << "it has given the turn back";
}

// All join at once. Each measures alone, and finally all have measured.
TEST_F(ResidentTest, HandlersThatJoinTogetherMeasureOneAfterTheOther) {
  constexpr std::size_t kHandlers = 6;
  for (std::size_t i = 0; i < kHandlers; ++i) AddOverLink(1 << 20);
  tuplespace::Client other({.endpoint = endpoint_, .name = "looks", .id = {}});
  for (std::size_t measured = 0; measured < kHandlers;) {
    std::set<std::string> measure;
    for (const tuplespace::FoundTuple& probe : other.ListAll(AllProbes(), /*metadata_only=*/true)) {
      measure.insert(probe.put_by);
    }
    EXPECT_LE(measure.size(), 1u);
    measured = 0;
    for (const tuplespace::FoundTuple& found : other.ListAll(AllHandlers())) {
      const auto capacity = CapacityFromJson(std::string(found.payload.text()));
      measured += capacity && capacity->link_ns_per_kib > 0 ? 1 : 0;
    }
  }
}

TEST_F(ResidentTest, WhoLeavesTakesNothingAlong) {
  const Job job = ResidentJob();
  AddOwnMemory(64 << 20);
  bool left = false;
  const Receipt receipt = Run(job, [&](const Progress& progress) {
    if (progress.step != 12 || left) return;
    left = true;
    AddHandler(64 << 20);
    handlers_.front().Stop();
  });
  ASSERT_TRUE(left);
  EXPECT_EQ(receipt.weights_sha256, PlainHash(job));
  EXPECT_THAT(log_, Not(HasSubstr("going back")));
}

}  // namespace
}  // namespace acan
