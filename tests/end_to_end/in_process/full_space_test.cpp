// Runs on a broker with little room for payloads. The manager notices after 10 s that they do not
// advance.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cluster_fixture.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

class FullSpaceTest : public ClusterTest {
 protected:
  // Room for some dozens of steps, but not for the lines of 2,000 steps.
  static constexpr std::uint64_t kRoom = 256 << 10;

  FullSpaceTest() : ClusterTest(kRoom) { AddHandler(1 << 20); }

  // nullopt: it was stopped. `goes_on` is called from time to time, with the steps that are done.
  std::optional<Receipt> RunWhile(const Job& job, bool resume,
                                  const std::function<bool(std::int64_t steps)>& goes_on) {
    std::optional<Manager> manager;
    std::int64_t steps = 0;
    ManagerOptions options;
    options.endpoint = endpoint_;
    options.source = "test";
    options.out_dir = folder_ + "/out";
    options.resume = resume;
    options.expected_handlers = 1;
    options.log = [this](const std::string& line) {
      log_ += line + "\n";
      if (on_line_) on_line_(line);
    };
    options.progress = [&](const Progress& progress) { steps = progress.step; };
    options.alive = [&] {
      if (manager && !goes_on(steps)) manager->Stop(std::chrono::seconds(60));
    };
    manager.emplace(std::move(options), job, LoadData(job));
    return manager->Run();
  }
  static Job TinyJob(int hidden, int steps) {
    return ParseJob("[model]\nlayers = [4, " + std::to_string(hidden) +
                        ", 2]\nactivation = \"tanh\"\nloss = \"mse\"\n"
                        "[data]\ngenerated = \"regression\"\nsamples = 64\n"
                        "[train]\nbatch = 32\nsteps = " +
                        std::to_string(steps),
                    "test", ".", {});
  }
  bool Says(const std::string& text) const { return log_.find(text) != std::string::npos; }

  std::function<void(const std::string& line)> on_line_;  // of the manager's log
};

TEST_F(FullSpaceTest, CopiesOfMetricsDoNotStopARun) {
  const Job job = TinyJob(4, 4000);
  constexpr std::int64_t kFirst = 2500;
  EXPECT_FALSE(RunWhile(job, /*resume=*/false, [](std::int64_t steps) { return steps < kFirst; }));
  EXPECT_TRUE(Says("it keeps only the newest lines")) << log_;
  EXPECT_TRUE(Says("MiB is enough")) << log_;
  // The copies of the lines in its folder have no room either.
  log_.clear();
  const auto receipt = RunWhile(job, /*resume=*/true, [](std::int64_t) { return true; });
  ASSERT_TRUE(receipt.has_value()) << log_;
  EXPECT_TRUE(Says("it keeps only the newest lines")) << log_;
  EXPECT_EQ(receipt->weights_sha256, PlainHash(job));
}

// The handler has no room for a result, and the manager puts nothing meanwhile.
TEST_F(FullSpaceTest, ARunWhoseHandlersWaitForRoomSaysHowMuchIsEnough) {
  const Job job = TinyJob(3000, 4);
  EXPECT_FALSE(
      RunWhile(job, /*resume=*/false, [this](std::int64_t) { return !Says("MiB is enough"); }));
  EXPECT_FALSE(Says("broker at")) << "the manager itself lacks room: " << log_;
}

// Another run may fill the space for a while.
TEST_F(FullSpaceTest, ARunWhoseTasksHaveNoRoomWaits) {
  const Job job = TinyJob(4, 4);
  tuplespace::Client other({.endpoint = endpoint_, .name = "one that fills the space", .id = {}});
  const tuplespace::Key key{"all that there is room for"};
  on_line_ = [&](const std::string& line) {
    if (line.find("plan: ") == 0) {
      const std::uint64_t used = other.GetStatistics()->payload_bytes;
      const std::string payload(kRoom - used, 'x');
      other.Put({{.key = key, .payload = tuplespace::Payload::Copy(payload), .task = {}}});
    } else if (line.find("MiB is enough") != std::string::npos) {
      other.RetireAll(tuplespace::Pattern::Of(key), /*watermark=*/false);
    }
  };
  const auto receipt = RunWhile(job, /*resume=*/false, [](std::int64_t) { return true; });
  ASSERT_TRUE(receipt.has_value()) << log_;
  EXPECT_TRUE(Says("MiB is enough")) << log_;
  EXPECT_FALSE(Says("going back")) << log_;
  EXPECT_EQ(receipt->weights_sha256, PlainHash(job));
}

}  // namespace
}  // namespace acan
