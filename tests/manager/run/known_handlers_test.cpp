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
