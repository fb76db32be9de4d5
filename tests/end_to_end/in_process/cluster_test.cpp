// Broker, manager and handlers as threads of this process: handlers join and leave while a job
// runs. The oracle is a plain loop over the same kernels.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "cluster_fixture.h"

namespace acan {
namespace {

TEST_F(ClusterTest, IsThePlainLoopToTheBit) {
  const Job job = SmallJob();
  AddHandler(1 << 20);
  AddHandler(300 << 10);
  const Receipt receipt = Run(job);
  EXPECT_EQ(receipt.weights_sha256, PlainHash(job));
  EXPECT_EQ(receipt.steps, 33);
  EXPECT_EQ(receipt.handlers.size(), 2u);
}

// Text has a vocabulary. The vocabulary of an earlier training in the same folder is removed.
TEST_F(ClusterTest, WritesTheVocabularyOfItsData) {
  const Job job = SmallJob();
  AddHandler(1 << 20);
  const std::string path = folder_ + "/out/vocabulary.json";
  const auto run = [&](const std::string& vocabulary) {
    Data data = LoadData(job);
    data.vocabulary = vocabulary;
    ManagerOptions options;
    options.endpoint = endpoint_;
    options.out_dir = folder_ + "/out";
    Manager(std::move(options), job, std::move(data)).Run();
  };
  run("{}\n");
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{}\n");
  run("");
  EXPECT_FALSE(std::filesystem::exists(path));
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

// With this limit even this small job retires activations and partial sums during their step.
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
  EXPECT_NE(log_.find("new plan for the present handlers"), std::string::npos) << log_;
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

// Results are computed directly in shared memory, whether they are whole buffers or parts.
TEST_F(ClusterTest, ResultsAreMadeWhereTheSpaceFindsThem) {
  const Job job = SmallJob("[tasks]\nsize_bytes = 70000\n");
  AddHandler(64 << 20);
  EXPECT_EQ(Run(job).weights_sha256, PlainHash(job));
  const HandlerReport report = handlers_.front().Stop();
  EXPECT_GT(report.shared_results, 33u);  // at least one per step
  EXPECT_EQ(report.copied_results, 0u);
}

TEST_F(ClusterTest, NoHandlerHoldsMoreThanItsLimit) {
  const std::vector<std::uint64_t> limits = {160 << 10, 200 << 10};
  for (const std::uint64_t limit : limits) AddHandler(limit);
  Run(SmallJob());
  auto limit = limits.begin();
  for (RunningHandler& handler : handlers_) {
    const HandlerReport report = handler.Stop();
    EXPECT_GT(report.tasks, 0u);
    EXPECT_EQ(report.failed, 0u);
    EXPECT_GT(report.peak_bytes, 0u);
    EXPECT_LE(report.peak_bytes, *limit++);
  }
}

}  // namespace
}  // namespace acan
