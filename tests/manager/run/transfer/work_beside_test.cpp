// Long work in parallel with a client that must keep responding. These tests need no broker.
#include "acan/manager/work_beside.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

namespace acan {
namespace {

class WorkBesideTest : public testing::Test {
 protected:
  WorkBesideTest() : client_({.endpoint = "ipc:///nowhere/space", .name = "test", .id = {}}) {}

  tuplespace::Client client_;
};

// The work ends only after the client was polled and `check` called while it ran.
TEST_F(WorkBesideTest, ChecksGoOnWhileItRuns) {
  std::promise<void> checked_twice;
  int checks = 0;
  bool worked = false;
  WorkBeside(
      client_,
      [&] {
        if (++checks == 2) checked_twice.set_value();
      },
      [&](const std::function<void()>& go_on) {
        checked_twice.get_future().wait();
        go_on();
        worked = true;
      });
  EXPECT_TRUE(worked);
  EXPECT_GE(checks, 2);
}

TEST_F(WorkBesideTest, WhatTheWorkThrowsLeaves) {
  EXPECT_THROW(WorkBeside(
                   client_, [] {}, [](const auto&) { throw std::runtime_error("no space"); }),
               std::runtime_error);
}

// The next call of go_on ends the work, and WorkBeside throws what `check` threw.
TEST_F(WorkBesideTest, WhatACheckThrowsEndsTheWork) {
  struct Stopped {};
  bool ended = false;
  const auto work = [&](const std::function<void()>& go_on) {
    try {
      for (;;) go_on();
    } catch (...) {
      ended = true;
      throw;
    }
  };
  EXPECT_THROW(WorkBeside(
                   client_, [] { throw Stopped{}; }, work),
               Stopped);
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace acan
