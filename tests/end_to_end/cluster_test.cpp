// Broker, manager and handlers as threads of this process: what happens when handlers come and go
// while a job runs. The oracle is a plain loop over the same kernels.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <list>
#include <mutex>
#include <thread>

#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/manager.h"
#include "plain_loop.h"
#include "tuplespace/broker.h"

namespace acan {
namespace {

// A handler on a thread.
class RunningHandler {
 public:
  RunningHandler(const std::string& endpoint, std::uint64_t memory_bytes)
      : handler_(Options(endpoint, memory_bytes)), thread_([this] { report_ = handler_.Run(); }) {}
  ~RunningHandler() { Stop(); }
  HandlerReport Stop() {
    if (thread_.joinable()) {
      handler_.Stop();
      thread_.join();
    }
    return report_;
  }

  static HandlerOptions Options(const std::string& endpoint, std::uint64_t memory_bytes) {
    HandlerOptions options;
    options.endpoint = endpoint;
    options.name = "test handler of " + std::to_string(memory_bytes) + " bytes";
    options.device = MakeCpuDevice({.threads = 1, .memory_limit_bytes = memory_bytes, .isa = {}});
    return options;
  }

 private:
  HandlerReport report_;
  Handler handler_;
  std::thread thread_;
};

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "acan-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    tuplespace::BrokerOptions options;
    options.listen = {"ipc://" + folder_ + "/space"};
    broker_ = std::make_unique<tuplespace::Broker>(std::move(options));
    endpoint_ = broker_->endpoints().front();
    broker_thread_ = std::thread([this] { broker_->Run(); });
  }
  ~ClusterTest() override {
    handlers_.clear();
    broker_->Stop();
    broker_thread_.join();
    broker_.reset();
    std::filesystem::remove_all(folder_);
  }

  static Job SmallJob(const std::string& more = "") {
    return ParseJob(
        "[model]\nlayers = [97, 211, 53, 10]\nactivation = \"tanh\"\nloss = \"mse\"\n"
        "[data]\ngenerated = \"regression\"\nsamples = 400\n"
        "[train]\nbatch = 37\nepochs = 3\nlearning_rate = 0.05\noptimizer = \"momentum\"\n" +
            more,
        "test", ".", {});
  }
  static std::string PlainHash(const Job& job) {
    const Data data = LoadData(job);
    const auto device = MakeCpuDevice({.threads = 1, .memory_limit_bytes = 1ull << 30, .isa = {}});
    bench::PlainLoop loop(*device, job, data.train);
    for (std::int64_t step = 0; step < loop.total_steps(); ++step) loop.Step(step);
    return loop.WeightsSha256();
  }
  void AddHandler(std::uint64_t memory_bytes) { handlers_.emplace_back(endpoint_, memory_bytes); }

  // Runs the job; `at_step` is called on this thread after each step.
  Receipt Run(const Job& job, std::function<void(const Progress&)> at_step = nullptr) {
    ManagerOptions options;
    options.endpoint = endpoint_;
    options.source = "test";
    options.expected_handlers = static_cast<int>(handlers_.size());
    options.least_removed_bytes = least_removed_bytes_;
    options.progress = std::move(at_step);
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    return *Manager(std::move(options), job, LoadData(job)).Run();
  }

  std::string folder_, endpoint_, log_;
  std::uint64_t least_removed_bytes_ = ManagerOptions().least_removed_bytes;
  std::unique_ptr<tuplespace::Broker> broker_;
  std::thread broker_thread_;
  std::list<RunningHandler> handlers_;
};

TEST_F(ClusterTest, IsThePlainLoopToTheBit) {
  const Job job = SmallJob();
  AddHandler(1 << 20);
  AddHandler(300 << 10);
  const Receipt receipt = Run(job);
  EXPECT_EQ(receipt.weights_sha256, PlainHash(job));
  EXPECT_EQ(receipt.steps, 33);
  EXPECT_EQ(receipt.handlers.size(), 2u);
}

TEST_F(ClusterTest, OneThreadServesSeveralHandlersInTurn) {
  const Job job = SmallJob();
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    Handler first(RunningHandler::Options(endpoint_, 1 << 20));
    Handler second(RunningHandler::Options(endpoint_, 300 << 10));
    bool more = true;
    while (more) {
      if (stop) first.Stop(), second.Stop();
      const bool first_goes_on = first.Turn(std::chrono::microseconds(100));
      more = second.Turn(std::chrono::microseconds(100)) || first_goes_on;
    }
  });
  const Receipt receipt = Run(job);
  stop = true;
  thread.join();
  EXPECT_EQ(receipt.weights_sha256, PlainHash(job));
  EXPECT_EQ(receipt.handlers.size(), 2u);
}

// Activations and partial sums go while their step goes on, with those of this small job, too.
TEST_F(ClusterTest, IsThePlainLoopAlsoIfResultsGoWhenTheyAreSpent) {
  least_removed_bytes_ = 1;
  const Job job = SmallJob("[tasks]\nsize_bytes = 20000\n");
  AddHandler(1 << 20);
  AddHandler(300 << 10);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  EXPECT_EQ(log_.find("corruption"), std::string::npos) << log_;
}

TEST_F(ClusterTest, AdamwAndGeluAreThePlainLoopToTheBit) {
  const Job job = ParseJob(
      "[model]\nlayers = [97, 211, 53, 10]\nactivation = \"gelu\"\nloss = \"mse\"\n"
      "[data]\ngenerated = \"regression\"\nsamples = 200\n"
      "[train]\nbatch = 130\nepochs = 3\nlearning_rate = 0.01\noptimizer = \"adamw\"\nschedule = "
      "\"cosine\"\n"
      "[tasks]\nsize_bytes = 20000\nbatch_rows = 64\n",
      "test", ".", {});
  AddHandler(1 << 20);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
}

TEST_F(ClusterTest, GoesOnWithSmallerBoxesWhenTheLargeHandlerLeaves) {
  const Job job = SmallJob();
  AddHandler(64 << 20);
  bool changed = false;
  const Receipt receipt = Run(job, [&](const Progress& progress) {
    if (progress.step != 12 || changed) return;
    changed = true;
    AddHandler(160 << 10);
    handlers_.front().Stop();
  });
  ASSERT_TRUE(changed);
  EXPECT_NE(log_.find("cutting anew"), std::string::npos) << log_;
  EXPECT_EQ(receipt.weights_sha256, PlainHash(job));
}

TEST_F(ClusterTest, HandlersComeAndGoWithoutATrace) {
  const Job job = SmallJob("[tasks]\nsize_bytes = 20000\n");
  AddHandler(512 << 10);
  const Receipt receipt = Run(job, [&](const Progress& progress) {
    if (progress.step % 5 == 2) AddHandler(512 << 10);
    if (progress.step % 5 == 0 && handlers_.size() > 1) handlers_.pop_front();
  });
  EXPECT_EQ(receipt.weights_sha256, PlainHash(job));
}

TEST_F(ClusterTest, JobsOneAfterTheOtherDoNotDisturbEachOther) {
  AddHandler(1 << 20);
  const Job first = SmallJob();
  const Job second = SmallJob("seed = 5\n");
  const std::string hash = Run(first).weights_sha256;
  EXPECT_NE(Run(second).weights_sha256, hash);
  EXPECT_EQ(Run(first).weights_sha256, hash) << "the same job again, in the same space";
}

// Whole buffers and parts of them alike.
TEST_F(ClusterTest, ResultsAreMadeWhereTheSpaceFindsThem) {
  const Job job = SmallJob("[tasks]\nsize_bytes = 70000\n");
  AddHandler(64 << 20);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  const HandlerReport report = handlers_.front().Stop();
  EXPECT_GT(report.shared_results, 33u);  // one a step at least
  EXPECT_EQ(report.copied_results, 0u);
}

TEST_F(ClusterTest, NoHandlerHoldsMoreThanItsLimit) {
  AddHandler(160 << 10);
  AddHandler(200 << 10);
  Run(SmallJob());
  for (RunningHandler& handler : handlers_) {
    const HandlerReport report = handler.Stop();
    EXPECT_GT(report.tasks, 0u);
    EXPECT_EQ(report.failed, 0u);
    EXPECT_LE(report.peak_bytes, 200u << 10);
  }
}

}  // namespace
}  // namespace acan
