// The endpoints at which a client's broker may be, and the order in which the client tries them.
#include "endpoint_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EndpointList, CommasSeparateWhereASchemeFollows) {
  EXPECT_THAT(EndpointsIn("tcp://a:1"), ElementsAre("tcp://a:1"));
  EXPECT_THAT(EndpointsIn("tcp://a:1,ipc:///b,c,tcp://d:2"),
              ElementsAre("tcp://a:1", "ipc:///b,c", "tcp://d:2"));
  EXPECT_THAT(EndpointsIn(",tcp://a:1"), ElementsAre("", "tcp://a:1"));
}

TEST(EndpointList, TriesThePlaceOfTheLastAnswerOnceMoreAndThenTheOthersInTurn) {
  EndpointList list("tcp://a:1,tcp://b:1,tcp://c:1", true);
  std::vector<std::string> tried;
  const auto attempt = [&] {
    list.BeginAttempt();
    tried.push_back(list.endpoint().substr(6, 1));
  };
  for (int i = 0; i < 5; ++i) attempt();
  EXPECT_THAT(tried, ElementsAre("a", "b", "c", "a", "b"));
  list.Answered();
  tried.clear();
  for (int i = 0; i < 3; ++i) attempt();
  EXPECT_THAT(tried, ElementsAre("b", "c", "a"));
}

TEST(EndpointList, OfOneAlwaysTriesThatOne) {
  EndpointList list("tcp://localhost:1", true);
  for (int i = 0; i < 3; ++i) {
    list.BeginAttempt();
    EXPECT_EQ(list.endpoint(), "tcp://localhost:1");
    EXPECT_EQ(list.address(), "tcp://127.0.0.1:1");  // in the form that ZeroMQ accepts
  }
}

TEST(EndpointList, RefusesWhatNoClientCanConnectTo) {
  const auto problem = [](const std::string& endpoints) {
    return EndpointProblem(endpoints).value_or("");
  };
  EXPECT_EQ(problem("tcp://a:1,ipc:///b"), "");
  EXPECT_THAT(problem("tcp://a:1,tcp://b:0"), HasSubstr("\"tcp://b:0\" has the port \"0\""));
  EXPECT_THAT(problem("tcp://a:1,inproc://b"), HasSubstr("cannot stand beside others"));
  EXPECT_THAT(problem(",tcp://a:1"), HasSubstr("does not begin with"));
  std::string many = "tcp://a:1";
  for (int i = 1; i < 16; ++i) many += ",tcp://a:1";
  EXPECT_EQ(problem(many), "");
  EXPECT_THAT(problem(many + ",tcp://a:1"), HasSubstr("17 endpoints were given"));
}

}  // namespace
}  // namespace tuplespace
