// ReadsInTurn: how many Reads are sent at once, in which order, and what Forget drops.
#include "acan/manager/reads_in_turn.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using tuplespace::Found;
using tuplespace::Read;

class ReadsInTurnTest : public ::testing::Test {
 protected:
  // The waiting time serves as the number of a Read.
  void Add(std::int64_t number) {
    Read read;
    read.wait_us = number;
    reads_.Add(std::move(read), [this, number](Found&&) { answered_.push_back(number); });
  }
  void Answer(std::size_t sent) { thens_.at(sent)(Found{}); }

  std::vector<std::int64_t> sent_;
  std::vector<std::int64_t> answered_;
  std::vector<ReadsInTurn::Then> thens_;
  ReadsInTurn reads_{2, [this](const Read& read, ReadsInTurn::Then then) {
                       sent_.push_back(read.wait_us);
                       thens_.push_back(std::move(then));
                     }};
};

TEST_F(ReadsInTurnTest, AnAnswerSendsTheNext) {
  for (const std::int64_t number : {1, 2, 3, 4}) Add(number);
  EXPECT_THAT(sent_, ElementsAre(1, 2));
  Answer(1);
  EXPECT_THAT(sent_, ElementsAre(1, 2, 3));
  EXPECT_THAT(answered_, ElementsAre(2));
  Answer(0);
  EXPECT_THAT(sent_, ElementsAre(1, 2, 3, 4));
  Answer(3);
  Answer(2);
  Add(5);
  EXPECT_THAT(sent_, ElementsAre(1, 2, 3, 4, 5)) << "there is room again";
  EXPECT_THAT(answered_, ElementsAre(2, 1, 4, 3));
}

TEST_F(ReadsInTurnTest, WhatIsForgottenIsNotSent) {
  for (const std::int64_t number : {1, 2, 3}) Add(number);
  reads_.Forget();
  for (const std::int64_t number : {4, 5, 6}) Add(number);
  EXPECT_THAT(sent_, ElementsAre(1, 2, 4, 5));
  Answer(0);  // it was under way
  EXPECT_THAT(sent_, ElementsAre(1, 2, 4, 5)) << "it makes no room among the new ones";
  EXPECT_THAT(answered_, ElementsAre(1));
  Answer(2);
  EXPECT_THAT(sent_, ElementsAre(1, 2, 4, 5, 6));
}

}  // namespace
}  // namespace acan
