// In exact precision the trained weights are the same bits, however the work is cut, distributed
// and transported, and whichever process dies.
#include <signal.h>

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

class Hash : public ::testing::Test {
 protected:
  Hash() : job_(WriteRaggedJob(folder_)) {
    const nlohmann::json receipt =
        Train(job_, folder_ / "reference", {"--handlers", "cpu:1@64MiB"});
    if (receipt.is_object()) reference_ = receipt["weights_sha256"];
  }

  void ExpectSame(const std::vector<std::string>& words, const Environment& environment = {}) {
    ASSERT_EQ(reference_.size(), 64u);
    receipt_ = Train(job_, folder_ / "out", words, environment);
    ASSERT_TRUE(receipt_.is_object());
    EXPECT_EQ(receipt_["weights_sha256"], reference_) << ::testing::PrintToString(words);
    EXPECT_EQ(HashOfModelFile(folder_ / "out/model.safetensors"), reference_);
  }

  TestFolder folder_;
  std::string job_;
  std::string reference_;
  nlohmann::json receipt_;  // of the last run that ExpectSame trained
};

TEST_F(Hash, IsTheSameTwice) {
  ExpectSame({"--handlers", "cpu:1@64MiB"});
}

TEST_F(Hash, DoesNotDependOnTheNumberOfHandlersOrTheirThreads) {
  ExpectSame({"--handlers", "6xcpu:1@64MiB"});
  ExpectSame({"--handlers", "cpu:2@64MiB,cpu:1@2MiB"});
}

TEST_F(Hash, DoesNotDependOnTheTaskSize) {
  for (const char* size : {"16KiB", "256KiB", "auto"}) {
    const std::string set = std::string("tasks.size_bytes=") + size;
    ExpectSame({"--handlers", "3xcpu:1@64MiB", "--set", set});
  }
}

TEST_F(Hash, DoesNotDependOnHowTheBatchIsCut) {
  // A batch of 37 can be cut only with smaller blocks, such as 16. The block changes the bits, so
  // this test has its own reference.
  const auto blocks = [](const std::string& handlers) -> std::vector<std::string> {
    return {"--set", "train.block=16", "--handlers", handlers};
  };
  // For one handler only the necessary cuts are made.
  const nlohmann::json whole = Train(job_, folder_ / "whole", blocks("cpu:1@64MiB"));
  ASSERT_TRUE(whole.is_object());
  EXPECT_NE(whole["weights_sha256"], reference_) << "the block is part of the definition";
  for (const char* rows : {"16", "32"}) {
    std::vector<std::string> words = blocks("2xcpu:1@64MiB");
    words.insert(words.end(), {"--set", std::string("tasks.batch_rows=") + rows});
    const nlohmann::json cut = Train(job_, folder_ / "cut", words);
    ASSERT_TRUE(cut.is_object());
    EXPECT_EQ(cut["weights_sha256"], whole["weights_sha256"]) << rows;
    EXPECT_GT(cut["tasks_done"].get<int>(), whole["tasks_done"].get<int>());
  }
}

TEST_F(Hash, DoesNotDependOnThePolicy) {
  for (const std::string policy : {"paper", "gss", "factoring", "fixed", "auto"}) {
    ExpectSame({"--handlers", "3xcpu:1@64MiB", "--set", "tasks.size_bytes=16KiB", "--set",
                "tasks.policy=" + policy});
  }
}

TEST_F(Hash, DoesNotDependOnTimeoutsThatAreTooShort) {
  // Under each policy, every task that takes longer than a millisecond is issued again. With the
  // throttle, most tasks take longer on any machine.
  for (const std::string policy : {"paper", "fixed", "auto"}) {
    ExpectSame({"--handlers", "3xcpu:1@64MiB", "--set", "tasks.size_bytes=16KiB", "--set",
                "tasks.policy=" + policy, "--set", "tasks.timeout_ms=1", "--set", "tasks.pouch=20"},
               {{"ACAN_THROTTLE", "0.2"}});
    EXPECT_GT(receipt_["tasks_reissued"], 0) << policy;
  }
}

TEST_F(Hash, DoesNotDependOnTheHandlersMemory) {
  ExpectSame({"--handlers", "3xcpu:1@128KiB"});
  ExpectSame({"--handlers", "cpu:1@128KiB,cpu:1@1MiB,cpu:1@64MiB"});
}

TEST_F(Hash, DoesNotDependOnTheTransport) {
  ExpectSame({"--handlers", "2xcpu:1@64MiB", "--transport", "ipc"});
  ExpectSame({"--handlers", "2xcpu:1@64MiB", "--transport", "tcp"});
  for (const char* transport : {"ipc", "tcp"}) {
    ExpectSame({"--handlers", "2xcpu:1@64MiB,cpu:1@512KiB", "--transport", transport},
               {{"ACAN_SHARED_MEMORY", "off"}});
  }
}

class HashByInstructions : public Hash, public ::testing::WithParamInterface<const char*> {};

TEST_P(HashByInstructions, IsTheSame) {
  const Environment environment = {{"ACAN_CPU_ISA", GetParam()}};
  const Result devices = RunAcan({"devices", "--json"}, environment);
  const std::string lacks = std::string(" does not support ") + GetParam() + ";";
  if (devices.code == 2 && devices.err.find(lacks) != std::string::npos) {
    GTEST_SKIP() << "this processor has no " << GetParam();
  }
  ASSERT_EQ(devices.code, 0) << devices.err;
  ExpectSame({"--handlers", "2xcpu:1@64MiB"}, environment);
}

INSTANTIATE_TEST_SUITE_P(Cpu, HashByInstructions, ::testing::Values("avx512", "avx2", "portable"),
                         [](const auto& parameter) { return std::string(parameter.param); });

class HashOfKilled : public Hash, public ::testing::WithParamInterface<const char*> {};

TEST_P(HashOfKilled, IsTheSame) {
  const std::vector<std::string> longer = {"--set", "train.epochs=20"};
  const nlohmann::json quiet = Train(job_, folder_ / "quiet", longer);
  ASSERT_TRUE(quiet.is_object());

  std::vector<std::string> words = {"train",         job_,     "--out",
                                    folder_ / "out", "--json", "--handlers",
                                    "3xcpu:1@64MiB", "--set",  "tasks.timeout_ms=500"};
  words.insert(words.end(), longer.begin(), longer.end());
  Program train(words, {{"ACAN_SHARED_MEMORY", GetParam()}});
  int killed = 0;
  for (const long step : {5, 30, 60, 90}) {
    ASSERT_TRUE(train.WaitForFiles({folder_.path(), folder_ / "out"}, [&] {
      const std::string metrics = ReadFile(folder_ / "out/metrics.jsonl");
      return std::count(metrics.begin(), metrics.end(), '\n') >= step;
    }));
    for (const pid_t pid : train.Descendants()) {
      const std::string words_of = ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
      if (words_of.find("handler") == std::string::npos) continue;
      killed += SignalProcess(pid, SIGKILL) ? 1 : 0;
      break;
    }
  }
  ASSERT_EQ(train.Wait(), 0) << train.err();
  EXPECT_GT(killed, 0);
  EXPECT_EQ(nlohmann::json::parse(LastLine(train.out()))["weights_sha256"],
            quiet["weights_sha256"]);
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, HashOfKilled, ::testing::Values("on", "off"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace acan::testing
