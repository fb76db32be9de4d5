#include "handler_speeds.h"

#include <gtest/gtest.h>

namespace acan {
namespace {

Report BusyReport(double busy_s, double gflop) {
  Report report;
  report.busy_s = busy_s;
  report.gflop = gflop;
  return report;
}

TEST(HandlerSpeedsTest, AreMeasuredBetweenReports) {
  HandlerSpeeds speeds;
  Capacity claims;
  claims.gflops = 10;
  speeds.See({{"a", claims}, {"b", claims}});
  EXPECT_DOUBLE_EQ(speeds.Gflops(), 20);
  speeds.Note("a", BusyReport(2, 60));
  EXPECT_DOUBLE_EQ(speeds.Gflops(), 30 + 10);
  speeds.Note("a", BusyReport(3, 160));
  EXPECT_DOUBLE_EQ(speeds.Gflops(), 100 + 10);
  EXPECT_DOUBLE_EQ(speeds.busy_s(), 3);
}

// A restarted handler has a new id each time.
TEST(HandlerSpeedsTest, ForgetThoseThatLeftButNotTheirTime) {
  constexpr int kStarts = 3 * static_cast<int>(HandlerSpeeds::kMaxGone);
  HandlerSpeeds speeds;
  for (int i = 0; i < kStarts; ++i) {
    const std::string id = std::to_string(i);
    speeds.See({{id, {}}});
    speeds.Note(id, BusyReport(0.5, 1));
  }
  EXPECT_LE(speeds.remembered(), HandlerSpeeds::kMaxGone + 2);
  EXPECT_DOUBLE_EQ(speeds.busy_s(), 0.5 * kStarts);
}

TEST(HandlerSpeedsTest, WhoComesBackSoonCountsOnce) {
  HandlerSpeeds speeds;
  speeds.See({{"a", {}}});
  speeds.Note("a", BusyReport(5, 1));
  speeds.See({});
  speeds.See({{"a", {}}});
  speeds.Note("a", BusyReport(6, 2));
  EXPECT_DOUBLE_EQ(speeds.busy_s(), 6);
}

}  // namespace
}  // namespace acan
