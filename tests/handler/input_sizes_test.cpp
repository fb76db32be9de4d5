// Inputs whose makers say that they have another size than the task says.
#include "input_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace acan {
namespace {

using tuplespace::Key;

const Key kLeft{"job", 1, "left"}, kRight{"job", 1, "right"};

// A task with two inputs, of 4 x 8 and 8 x 16 floats, and its grant, which has neither of them.
class InputSizes : public ::testing::Test {
 protected:
  InputSizes() {
    task_.buffers = {{4, 8}, {8, 16}};
    task_.pieces.resize(2);
    for (std::size_t i = 0; i < 2; ++i) {
      task_.pieces[i].input = static_cast<std::uint32_t>(i);
      task_.pieces[i].buffer = static_cast<std::uint32_t>(i);
      task_.pieces[i].rows = task_.buffers[i].rows;
      task_.pieces[i].cols = task_.buffers[i].cols;
    }
    grant_.task.emplace();
    grant_.task->inputs = {kLeft, kRight};
    grant_.inputs.resize(2);
    grant_.input_sent = {false, false};
    for (std::size_t i = 0; i < 2; ++i) {
      grant_.inputs[i].key = grant_.task->inputs[i];
      grant_.inputs[i].payload_bytes = task_.buffers[i].bytes();
    }
  }
  std::optional<std::string> Problem() const {
    return ProblemOfInputs(task_, grant_, [this](const Key& key) { return key == here_; });
  }

  Task task_;
  tuplespace::Grant grant_;
  Key here_{"nothing"};
};

TEST_F(InputSizes, WhatTheTaskSaysIsRight) {
  EXPECT_EQ(Problem(), std::nullopt);
}

TEST_F(InputSizes, AnotherSizeIsNamedWithItsMaker) {
  grant_.inputs[1].payload_bytes = std::uint64_t{1} << 30;
  grant_.inputs[1].put_by = "evil/1";
  ASSERT_TRUE(Problem());
  EXPECT_THAT(*Problem(), ::testing::HasSubstr("of evil/1 has 1073741824 bytes, must have 512"));
}

TEST_F(InputSizes, WhatIsHereOrHasComeIsNotFetched) {
  grant_.inputs[1].payload_bytes = 7;
  here_ = kRight;
  EXPECT_EQ(Problem(), std::nullopt);
  here_ = kLeft;
  grant_.input_sent[1] = true;
  EXPECT_EQ(Problem(), std::nullopt);
}

// Otherwise one client could make a task fail on all others, which ends the run.
TEST_F(InputSizes, WhatStaysWithAClientMayStillBeLost) {
  grant_.inputs[1].payload_bytes = 7;
  grant_.inputs[1].resident = true;
  EXPECT_EQ(Problem(), std::nullopt);
}

TEST_F(InputSizes, AnUnknownSizeIsNoProblem) {
  grant_.inputs[0].payload_bytes = 0;
  EXPECT_EQ(Problem(), std::nullopt);
}

// The handler sets no memory aside for it, whether it came with the grant or is fetched.
TEST_F(InputSizes, AnInputThatNoMatrixHasIsRefused) {
  task_.pieces.resize(1);
  for (const bool sent : {false, true}) {
    grant_.input_sent[1] = sent;
    ASSERT_TRUE(Problem()) << sent;
    EXPECT_THAT(*Problem(), ::testing::HasSubstr(kRight.ToString() + " is no part of"));
  }
}

}  // namespace
}  // namespace acan
