// In a small job, one process is killed at the n-th call with an outside effect (a send; an fsync,
// a rename, a truncation or a removal of a file), for n = 1, 2, ... until the process ends
// unharmed. After a restart the job must always end with the weights of the undisturbed run.
//
// By default this tests each n up to 8 and then increasingly fewer; ACAN_ALL_CRASH_POINTS=1 tests
// all.
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

constexpr const char* kCrashingJob = R"([model]
layers = [5, 33, 2]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 60
[train]
batch = 20
epochs = 2
optimizer = "momentum"
block = 16
[snapshots]
every_steps = 2
)";

enum class Victim { kBroker, kManager, kHandler };

// `shared`: messages go through shared memory, and the victim dies where it polls for messages.
// Otherwise it dies at its sends.
struct CrashPoints {
  Victim victim;
  bool shared;
};

class CrashPointsTest : public ::testing::TestWithParam<CrashPoints> {
 protected:
  using Process = std::unique_ptr<Program>;

  Environment DyingAt(Victim victim, int call) const {
    Environment environment = {{"ACAN_SHARED_MEMORY", GetParam().shared ? "on" : "off"}};
    if (GetParam().victim != victim || call == 0) return environment;
    environment["LD_PRELOAD"] = ACAN_DIE_AT_CALL;
    environment["DIE_AT_CALL"] = std::to_string(call);
    environment["COUNTED_CALLS"] = counted_calls_;
    return environment;
  }
  Process Broker(int call) const {
    return std::make_unique<Program>(std::vector<std::string>{"broker", "--listen", endpoint_},
                                     DyingAt(Victim::kBroker, call));
  }
  Process Handler(int call) const {
    return std::make_unique<Program>(
        std::vector<std::string>{"handler", "--connect", endpoint_, "--memory", "4MiB"},
        DyingAt(Victim::kHandler, call));
  }
  Process Manager(int call, bool resume) const {
    std::vector<std::string> words = {"manager", "--connect", endpoint_, job_,
                                      "--out",   out_,        "--json"};
    if (resume) words.emplace_back("--resume");
    return std::make_unique<Program>(words, DyingAt(Victim::kManager, call));
  }

  // Returns the hash of the weights. `died`: whether the victim was killed at its `call`-th counted
  // call.
  std::string Train(int call, bool* died) const {
    std::filesystem::remove_all(out_);
    Process broker = Broker(call);
    Process handler = Handler(call);
    // No second handler beside a victim handler: it might do all the work.
    const Process other = GetParam().victim == Victim::kHandler ? nullptr : Handler(0);
    Process manager = Manager(call, false);
    const Victim who = GetParam().victim;
    Process& victim = who == Victim::kBroker ? broker : who == Victim::kManager ? manager : handler;
    siginfo_t ended{};
    ::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT);
    *died = ended.si_code == CLD_KILLED && ended.si_pid == victim->pid();
    if (*died) {
      victim->Wait();
      if (who == Victim::kBroker) broker = Broker(0);
      if (who == Victim::kHandler) handler = Handler(0);
      if (who == Victim::kManager) manager = Manager(0, true);
    }
    EXPECT_EQ(manager->Wait(), 0) << manager->err();
    const auto receipt = nlohmann::json::parse(LastLine(manager->out()), nullptr, false);
    return receipt.is_object() ? receipt["weights_sha256"].get<std::string>() : "none";
  }

  TestFolder folder_;
  std::string job_ = folder_.Write("job.toml", kCrashingJob);
  std::string out_ = folder_ / "out";
  std::string counted_calls_ = folder_ / "counted_calls";
  std::string endpoint_ = "ipc://" + (folder_ / "space");
};

TEST_P(CrashPointsTest, EachEndsWithTheSameWeights) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer wants to be the first library of a process";
#endif
  bool died = false;
  const std::string undisturbed = Train(0, &died);
  ASSERT_FALSE(died);
  const bool all = std::getenv("ACAN_ALL_CRASH_POINTS") != nullptr;
  int points = 0;
  for (int call = 1;; call += all || call < 8 ? 1 : call / 4) {
    const std::string hash = Train(call, &died);
    ASSERT_EQ(hash, undisturbed) << "killed at call " << call;
    if (!died) break;
    ++points;
  }
  EXPECT_GT(points, 8);
  if (GetParam().victim == Victim::kManager) {
    const std::string counted = "\n" + ReadFile(counted_calls_);
    for (const char* function : {"rename", "fsync", "remove"}) {
      EXPECT_THAT(counted, ::testing::HasSubstr("\n" + std::string(function) + "\n"));
    }
  }
  std::cout << points << " crash points\n";
}

std::string VictimName(const ::testing::TestParamInfo<CrashPoints>& tested) {
  const std::string names[] = {"Broker", "Manager", "Handler"};
  return names[static_cast<int>(tested.param.victim)] +
         (tested.param.shared ? "InSharedMemory" : "OverSockets");
}

INSTANTIATE_TEST_SUITE_P(
    Of, CrashPointsTest,
    ::testing::Values(CrashPoints{Victim::kBroker, true}, CrashPoints{Victim::kManager, true},
                      CrashPoints{Victim::kHandler, true}, CrashPoints{Victim::kBroker, false},
                      CrashPoints{Victim::kManager, false}, CrashPoints{Victim::kHandler, false}),
    VictimName);

// Without the receipt that shows that it is done, --resume would train the earlier run again. It is
// one with another seed, whose folder the new run takes.
TEST(CrashWhileBeginningTest, LeavesNoJobOfAnEarlierRunWithoutItsReceipt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer wants to be the first library of a process";
#endif
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", kCrashingJob);
  const std::string earlier = folder / "earlier", out = folder / "out";
  const std::string endpoint = "ipc://" + (folder / "space");
  const Result trained = RunAcan(
      {"train", job, "--set", "train.seed=5", "--handlers", "cpu:1@4MiB", "--out", earlier});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string earlier_job = ReadFile(earlier + "/job.json");
  int points = 0;
  for (const char* function : {"remove", "fsync", "rename"}) {
    for (int call = 1;; ++call) {
      std::filesystem::remove_all(out);
      std::filesystem::copy(earlier, out, std::filesystem::copy_options::recursive);
      Program broker({"broker", "--listen", endpoint});
      Program handler({"handler", "--connect", endpoint, "--memory", "4MiB"});
      Program manager({"manager", "--connect", endpoint, job, "--out", out},
                      {{"LD_PRELOAD", ACAN_DIE_AT_CALL},
                       {"DIE_AT_CALL", std::to_string(call)},
                       {"DIE_AT_FUNCTION", function}});
      const int code = manager.Wait();
      const bool has_job = std::filesystem::exists(out + "/job.json");
      if (has_job && ReadFile(out + "/job.json") != earlier_job) break;  // the new run has begun
      ASSERT_EQ(code, -SIGKILL) << manager.err();
      ++points;
      EXPECT_TRUE(!has_job || std::filesystem::exists(out + "/receipt.json"))
          << "killed at call " << call << " of " << function;
    }
  }
  EXPECT_GT(points, 4);
}

}  // namespace
}  // namespace acan::testing
