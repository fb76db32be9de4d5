#include "known_handlers.h"

#include <gtest/gtest.h>

namespace acan {
namespace {

std::map<std::string, Capacity> Present(const std::vector<std::string>& ids) {
  std::map<std::string, Capacity> present;
  for (const std::string& id : ids) {
    present[id].name = "handler " + id;
    present[id].limit_bytes = 100;
  }
  return present;
}

// A handler that restarts repeatedly has a new id each time.
TEST(KnownHandlersTest, OfThoseThatLeftLongAgoOnlyTheSumIsKept) {
  constexpr std::int64_t kStarts = 3 * static_cast<std::int64_t>(KnownHandlers::kMaxGone);
  KnownHandlers known;
  for (std::int64_t i = 0; i < kStarts; ++i) {
    const std::string id = "looping " + std::to_string(i);
    known.See(Present({"steady", id}));
    for (const std::string& each : {std::string("steady"), id}) known.OnTask(each);
    Report report;
    report.peak_bytes = static_cast<std::uint64_t>(i);
    report.fetched_bytes = 2;
    known.OnReport(id, report);
  }
  known.See(Present({"steady"}));
  EXPECT_EQ(known.by_id().size(), KnownHandlers::kMaxGone + 1);
  EXPECT_EQ(known.by_id().at("steady").tasks, kStarts);
  EXPECT_TRUE(known.by_id().contains("looping " + std::to_string(kStarts - 1)));
  EXPECT_FALSE(known.by_id().contains("looping 0"));
  const std::vector<HandlerSeen> all = known.All();
  ASSERT_EQ(all.size(), KnownHandlers::kMaxGone + 2);
  EXPECT_EQ(all.back().name, "2000 others that left earlier");
  EXPECT_EQ(all.back().tasks, 2000);
  EXPECT_EQ(all.back().peak_bytes, 1999u);
  EXPECT_EQ(all.back().fetched_bytes, 4000u);
  EXPECT_EQ(all.back().capacity_bytes, 100u);
}

TEST(KnownHandlersTest, GoOnInTheNextLife) {
  KnownHandlers first;
  first.See(Present({"a", "b"}));
  first.OnTask("a");
  first.OnTask("b");
  KnownHandlers second;
  second.GoOnFrom(first.Totals());
  second.See(Present({"b", "c"}));
  second.OnTask("b");
  second.OnTask("c");
  ASSERT_EQ(second.by_id().size(), 3u);
  EXPECT_EQ(second.by_id().at("a").tasks, 1);
  EXPECT_EQ(second.by_id().at("a").name, "handler a");
  EXPECT_EQ(second.by_id().at("b").tasks, 2);
  EXPECT_EQ(second.Totals().tasks(), 4);
}

TEST(KnownHandlersTest, ForTheNextLifeOnlyTheSumOfManyIsKept) {
  constexpr std::size_t kMore = 30;
  KnownHandlers known;
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < HandlerTotals::kMaxKept; ++i) ids.push_back(std::to_string(i));
  known.See(Present(ids));
  known.OnTask("7");
  std::vector<std::string> later;
  for (std::size_t i = 0; i < kMore; ++i) later.push_back("later " + std::to_string(i));
  known.See(Present(later));
  known.OnTask("later 3");
  const HandlerTotals totals = known.Totals();
  EXPECT_EQ(totals.by_id.size(), HandlerTotals::kMaxKept);
  EXPECT_TRUE(totals.by_id.contains("later 3"));
  EXPECT_EQ(totals.other_count, static_cast<std::int64_t>(kMore));
  EXPECT_EQ(totals.tasks(), 2);
  EXPECT_EQ(known.by_id().size(), HandlerTotals::kMaxKept + kMore) << "it keeps them itself";
}

TEST(KnownHandlersTest, WithoutManyThatLeftEachIsKeptByItself) {
  KnownHandlers known;
  known.See(Present({"a", "b"}));
  known.See(Present({"b"}));
  known.OnTask("a");
  known.OnTask("unknown");
  known.OnReport("unknown", {});
  const std::vector<HandlerSeen> all = known.All();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "handler a");
  EXPECT_EQ(all[0].tasks, 1);
}

}  // namespace
}  // namespace acan
