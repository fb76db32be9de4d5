// Handlers that are so slow that a step is shorter without them take nothing from the others, and
// continue the run without them.
#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

using ::testing::HasSubstr;

class Unequal : public ::testing::Test {
 protected:
  Unequal()
      : job_(WriteRaggedJob(folder_)),
        endpoint_("ipc://" + (folder_ / "space")),
        broker_({"broker", "--listen", endpoint_}),
        fast_(HandlerWords()),
        slow_(HandlerWords({"--throttle", "0.02"})) {  // half a second or so for a step
    EXPECT_TRUE(fast_.WaitForErr("joined"));
    EXPECT_TRUE(slow_.WaitForErr("joined"));
  }
  std::vector<std::string> HandlerWords(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"handler", "--connect", endpoint_, "--device",
                                      "cpu:1",   "--memory",  "64MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> ManagerWords(const std::string& epochs) const {
    return {"manager", "--connect", endpoint_,
            job_,      "--out",     folder_ / "out",
            "--json",  "--set",     "train.epochs=" + epochs};
  }
  // The receipt of the manager's run, which must have the weights of a run by one handler.
  nlohmann::json ReceiptOf(Program& manager, const std::string& epochs) const {
    EXPECT_EQ(manager.Wait(), 0) << manager.err();
    const nlohmann::json alone = Train(
        job_, folder_ / "alone", {"--handlers", "cpu:1@64MiB", "--set", "train.epochs=" + epochs});
    nlohmann::json receipt = nlohmann::json::parse(LastLine(manager.out()));
    EXPECT_EQ(receipt["weights_sha256"], alone["weights_sha256"]);
    return receipt;
  }
  static int TasksOf(const nlohmann::json& receipt, const Program& program) {
    const std::string pid = "pid " + std::to_string(program.pid());
    for (const nlohmann::json& handler : receipt["handlers"]) {
      if (handler["name"].get<std::string>().ends_with(pid)) return handler["tasks"].get<int>();
    }
    return 0;
  }

  TestFolder folder_;
  std::string job_;
  std::string endpoint_;
  Program broker_;
  Program fast_, slow_;
};

TEST_F(Unequal, AFarSlowerHandlerGetsNoTaskWhileAnotherOneWorks) {
  Program manager(ManagerWords("2"));
  const nlohmann::json receipt = ReceiptOf(manager, "2");
  EXPECT_THAT(manager.err(), HasSubstr("is far slower than other handlers"));
  EXPECT_EQ(TasksOf(receipt, slow_), 0);
  EXPECT_EQ(TasksOf(receipt, fast_), receipt["tasks_done"].get<int>());
}

TEST_F(Unequal, AFarSlowerHandlerContinuesWhenTheOthersAreKilled) {
  Program manager(ManagerWords("300"));
  ASSERT_TRUE(manager.WaitForErr("epoch 1/300 done"));
  fast_.Signal(SIGKILL);
  ASSERT_TRUE(manager.WaitForErr("new plan for the present handlers"));
  Program again(HandlerWords());
  const nlohmann::json receipt = ReceiptOf(manager, "300");
  EXPECT_GT(TasksOf(receipt, slow_), 0);
  EXPECT_GT(TasksOf(receipt, again), 0);
}

}  // namespace
}  // namespace acan::testing
