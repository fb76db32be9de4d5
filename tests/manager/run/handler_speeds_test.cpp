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

Report SpeedReport(double speed) {
  Report report;
  report.speed = speed;
  return report;
}

TEST(HandlerSpeedsTest, AreSetAsReportedWhereBytesCrossLinks) {
  HandlerSpeeds speeds;
  std::map<std::string, Capacity> handlers = {{"near", {}}, {"far", {}}, {"silent", {}}};
  handlers["far"].bytes_travel = true;
  speeds.Note("near", SpeedReport(0.5));
  speeds.Note("far", SpeedReport(0.25));
  speeds.SetSpeeds(&handlers, 1);
  EXPECT_EQ(handlers["near"].speed, 0.5);
  EXPECT_EQ(handlers["far"].speed, 0.25);
  EXPECT_EQ(handlers["silent"].speed, 1);
  std::map<std::string, Capacity> local = {{"near", {}}};
  speeds.SetSpeeds(&local, 1);
  EXPECT_EQ(local["near"].speed, 1);
}

// Each new speed makes the manager place tasks anew.
TEST(HandlerSpeedsTest, AreNotSetAnewAllTheTime) {
  HandlerSpeeds speeds;
  Capacity far;
  far.bytes_travel = true;
  const auto at = [&](std::int64_t now_us) {
    std::map<std::string, Capacity> handlers = {{"a", far}, {"b", far}};
    speeds.SetSpeeds(&handlers, now_us);
    return std::pair{handlers["a"].speed, handlers["b"].speed};
  };
  speeds.Note("a", SpeedReport(0.5));
  EXPECT_EQ(at(1), std::pair(0.5, 1.0));
  speeds.Note("a", SpeedReport(1));
  speeds.Note("b", SpeedReport(0.25));
  EXPECT_EQ(at(HandlerSpeeds::kSetEveryUs), std::pair(0.5, 1.0));
  EXPECT_EQ(at(HandlerSpeeds::kSetEveryUs + 1), std::pair(1.0, 0.25));
  EXPECT_EQ(at(HandlerSpeeds::kSetEveryUs + 2), std::pair(1.0, 0.25));
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
