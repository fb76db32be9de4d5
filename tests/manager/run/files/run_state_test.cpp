#include "acan/manager/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "acan/manager/contributors.h"

namespace acan {
namespace {

RunState StateWithHandlers() {
  RunState state;
  state.version = 12;
  state.tasks_done = 34;
  state.seconds = 1.5;
  state.failures = 2;
  state.losses = 1;
  state.handlers.by_id = {{"k/1", {"one \"quoted\"", "cpu:1", 1 << 30, 12345, 7, 99}},
                          {"k/2", {"two", "cuda:0", 5, 4, 3, 0}}};
  state.handlers.others = {"", "", 8, 7, 20, 1};
  state.handlers.other_count = 3;
  state.tasks_reissued = 5;
  state.tasks_duplicated = 6;
  return state;
}

TEST(RunStateTest, SurvivesItsText) {
  const RunState state = StateWithHandlers();
  const auto back = ParseRunState(TextOf(state));
  ASSERT_TRUE(back);
  EXPECT_EQ(TextOf(*back), TextOf(state));
  EXPECT_EQ(back->failures, 2);
  EXPECT_EQ(back->losses, 1);
  EXPECT_EQ(back->handlers.by_id.at("k/1").name, "one \"quoted\"");
  EXPECT_EQ(back->handlers.by_id.at("k/1").fetched_bytes, 99u);
  EXPECT_EQ(back->handlers.other_count, 3);
  EXPECT_EQ(back->handlers.tasks(), 30);
  EXPECT_EQ(back->tasks_reissued, 5);
  EXPECT_EQ(back->tasks_duplicated, 6);
}

TEST(RunStateTest, OfAnEarlierReleaseIsRead) {
  const auto state = ParseRunState(R"({"version":7,"tasks_done":12,"seconds":1.5,"failures":3})");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->version, 7);
  EXPECT_EQ(state->losses, 3);
  EXPECT_TRUE(state->handlers.by_id.empty());
  EXPECT_EQ(state->tasks_reissued, 0);
  // It does not say who contributed to the weights.
  EXPECT_EQ(state->audit_share, 0);
  EXPECT_TRUE(state->unnamed_contributors);
  EXPECT_TRUE(state->MayDependOn({"wrong"}));
  EXPECT_FALSE(state->MayDependOn({}));
}

TEST(RunStateTest, KnowsOnWhomTheWeightsDepend) {
  RunState state;
  state.version = 3;
  state.contributors = {"a", "key/1"};
  state.audit_share = 0.25;
  state.audited = false;
  const auto back = ParseRunState(TextOf(state));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->audit_share, 0.25);
  EXPECT_FALSE(back->audited);
  EXPECT_FALSE(back->unnamed_contributors);
  EXPECT_TRUE(back->MayDependOn({"a"}));
  EXPECT_TRUE(back->MayDependOn({"key/"}));
  EXPECT_FALSE(back->MayDependOn({"b", "key/2", "other/"}));
  state.unnamed_contributors = true;
  const auto unnamed = ParseRunState(TextOf(state));
  ASSERT_TRUE(unnamed);
  EXPECT_TRUE(unnamed->MayDependOn({"b"}));
}

TEST(RunStateTest, KnowsWhichKeysConfirmedThemselves) {
  RunState state;
  state.version = 3;
  state.failures = 4;
  state.contributors = {"key/", "other/1"};
  const auto back = ParseRunState(TextOf(state));
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->HasUnconfirmedOf({{"key/", 4}}));
  EXPECT_FALSE(back->HasUnconfirmedOf({{"key/", 3}})) << "it is of a later life";
  EXPECT_FALSE(back->HasUnconfirmedOf({{"other/", 4}})) << "its part is named";
  EXPECT_TRUE(back->MayDependOn({"key/"}));
  EXPECT_FALSE(back->MayDependOn({"key/1"}));
}

TEST(RunStateTest, KnowsOnWhichKeysClientsTheWeightsDepend) {
  RunState state;
  state.version = 3;
  const std::string all = Contributors::AllClientsOf("key/1");
  state.contributors = {all, "other/1"};
  const auto back = ParseRunState(TextOf(state));
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->MayDependOn({"key/77"}));
  EXPECT_TRUE(back->MayDependOn({"key/"}));
  EXPECT_FALSE(back->MayDependOn({"other/2", "key", "third/1"}));
  EXPECT_FALSE(back->HasUnconfirmedOf({{"key/", 9}})) << "others may have confirmed it";
  EXPECT_EQ(back->ContributorsAmong({all, "key/2", "other/1", "other/2"}),
            (std::set<std::string>{all, "key/2", "other/1"}));
  // Any client of the key may be the wrong one.
  state.contributors = {"key/1"};
  EXPECT_TRUE(state.MayDependOn({all}));
  state.contributors = {"key/"};
  EXPECT_FALSE(state.MayDependOn({all})) << "its clients have confirmed each other";
  state.contributors = {Contributors::AllClientsOf("without a key")};
  EXPECT_TRUE(state.MayDependOn({"a"}));
  EXPECT_FALSE(state.MayDependOn({"key/1"}));
}

TEST(RunStateTest, WithAnImpossibleShareOfAuditsIsNone) {
  for (const char* bad : {"-0.1", "1.5", "\"x\"", "null"}) {
    EXPECT_FALSE(ParseRunState(
        std::string(R"({"version":7,"tasks_done":1,"seconds":1,"failures":0,"audit_share":)") +
        bad + "}"))
        << bad;
  }
}

TEST(RunStateTest, WithImpossibleCountsIsNone) {
  const std::string good = TextOf(StateWithHandlers());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return ParseRunState(text.replace(at, from.size(), to)).has_value();
  };
  EXPECT_TRUE(with("\"tasks\":7", "\"tasks\":8"));
  for (const char* bad : {"-1", "0.5", "18446744073709551615", "\"x\"", "null"}) {
    EXPECT_FALSE(with("\"tasks\":7", std::string("\"tasks\":") + bad)) << bad;
    EXPECT_FALSE(with("\"tasks_reissued\":5", std::string("\"tasks_reissued\":") + bad)) << bad;
  }
  EXPECT_FALSE(with("\"id\":\"k/1\",", ""));
  EXPECT_FALSE(
      ParseRunState(R"({"version":7,"tasks_done":12,"seconds":1.5,"failures":0,"handlers":3})"));
}

TEST(RunStateTest, SumsOfManyHandlersStayCounts) {
  HandlerTotals totals;
  constexpr std::int64_t kMany = std::int64_t{1} << 61;
  for (int i = 0; i < 100; ++i) totals.by_id[std::to_string(i)].tasks = kMany;
  EXPECT_EQ(totals.tasks(), 2 * kMany);
  for (int i = 0; i < 99; ++i) totals.PutTogether(std::to_string(i));
  EXPECT_EQ(totals.others.tasks, 2 * kMany);
  EXPECT_EQ(totals.other_count, 99);
  RunState state;
  state.handlers = totals;
  EXPECT_TRUE(ParseRunState(TextOf(state)));
}

}  // namespace
}  // namespace acan
