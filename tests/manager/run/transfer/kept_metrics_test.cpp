// KeptMetrics with a real broker in this process: one manager puts, another one reads.
#include "acan/manager/kept_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "slow_link.h"
#include "space_fixture.h"

namespace acan {
namespace {

class KeptMetricsTest : public SpaceTest {
 protected:
  KeptMetrics Keep(const std::string& run) { return {Submit(), "job", run}; }
  MetricsLines Read(const std::string& run) {
    return KeptMetrics::Read(*client_, "job", run, [] {});
  }
  std::uint64_t Tuples(const std::string& run) {
    return client_->CountOf(KeptMetrics::AllOf("job", run)).value();
  }
  static std::string Line(std::int64_t step, const std::string& what = "loss") {
    return "{\"step\":" + std::to_string(step) + ",\"" + what + "\":0.5}\n";
  }
};

TEST_F(KeptMetricsTest, EveryStepIsThereWithTheEvaluationBeforeIt) {
  KeptMetrics kept = Keep("run");
  constexpr std::int64_t kSteps = 3 * KeptMetrics::kStepsOfOneTuple + 7;
  MetricsLines expected;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    if (step % 100 == 50) {
      kept.AddEvaluation(Line(step, "test_loss"));
      expected[step] = Line(step, "test_loss");
    }
    kept.AddStep(step, Line(step));
    expected[step] += Line(step);
  }
  EXPECT_EQ(Read("run"), expected);
  EXPECT_EQ(Tuples("run"), 3u + 7u);
  EXPECT_EQ(Read("another"), MetricsLines());
}

TEST_F(KeptMetricsTest, WhoGoesOnKeepsWhatThereWasWithItsHoles) {
  MetricsLines earlier;
  for (std::int64_t step = 0; step < 1000; ++step) {
    if (step < 300 || step > 310) earlier[step] = Line(step);
  }
  KeptMetrics kept = Keep("second");
  kept.AddEarlier(earlier);
  for (std::int64_t step = 1000; step < 1010; ++step) {
    kept.AddStep(step, Line(step));
    earlier[step] = Line(step);
  }
  EXPECT_EQ(Read("second"), earlier);
}

TEST_F(KeptMetricsTest, ASingleStepOfAnEarlierLifeStays) {
  MetricsLines lines;
  for (std::int64_t step = 0; step <= KeptMetrics::kStepsOfOneTuple; ++step) {
    lines[step] = Line(step);
  }
  KeptMetrics kept = Keep("run");
  kept.AddEarlier(lines);
  for (std::int64_t i = 0; i < KeptMetrics::kStepsOfOneTuple; ++i) {
    const std::int64_t step = std::ssize(lines);
    kept.AddStep(step, Line(step));
    lines[step] = Line(step);
  }
  EXPECT_EQ(Read("run"), lines);
  EXPECT_EQ(Tuples("run"), 3u);
}

TEST_F(KeptMetricsTest, LinesThatArriveSlowlyAreNotDropped) {
  SlowLink link(1'200'000);
  MetricsLines lines;
  for (std::int64_t step = 0; step < 5; ++step) {
    lines[step] = "{\"step\":" + std::to_string(step) + ",\"loss\":1,\"pad\":\"" +
                  std::string(1'000'000, 'x') + "\"}\n";
  }
  KeptMetrics kept(
      [&](tuplespace::RequestBody body) { link.near().Submit(std::move(body), nullptr); }, "job",
      "run");
  for (const auto& [step, line] : lines) kept.AddStep(step, line);
  while (link.near().unanswered() > 0) link.near().Poll(std::chrono::milliseconds(100));
  int checked = 0;
  EXPECT_EQ(KeptMetrics::Read(link.far(), "job", "run", [&] { ++checked; }), lines);
  EXPECT_GT(checked, 1);
}

TEST_F(KeptMetricsTest, TheOldestGoWhenThereIsTooMuch) {
  KeptMetrics kept = Keep("run");
  const std::string pad(20'000, 'x');
  const std::int64_t steps = static_cast<std::int64_t>(KeptMetrics::kMaxBytes / pad.size()) +
                             2 * KeptMetrics::kStepsOfOneTuple;
  std::size_t bytes = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    kept.AddStep(step,
                 "{\"step\":" + std::to_string(step) + ",\"loss\":1,\"pad\":\"" + pad + "\"}\n");
  }
  const MetricsLines lines = Read("run");
  for (const auto& [step, text] : lines) bytes += text.size();
  EXPECT_LE(bytes, KeptMetrics::kMaxBytes + KeptMetrics::kStepsOfOneTuple * 2 * pad.size());
  EXPECT_GT(lines.begin()->first, 0);
  EXPECT_EQ(lines.rbegin()->first, steps - 1);
  EXPECT_EQ(static_cast<std::int64_t>(lines.size()), steps - lines.begin()->first);
}

TEST_F(KeptMetricsTest, AFullSpaceKeepsOnlyTheNewestAndNothingOldThatArrivesLater) {
  constexpr std::int64_t kTuple = KeptMetrics::kStepsOfOneTuple;
  KeptMetrics kept = Keep("run");
  EXPECT_FALSE(kept.KeepOnlyNewest()) << "there is nothing";
  MetricsLines earlier;
  for (std::int64_t step = 0; step < 4 * kTuple; ++step) earlier[step] = Line(step);
  kept.AddEarlier(earlier);
  kept.AddStep(4 * kTuple, Line(4 * kTuple));
  EXPECT_EQ(Tuples("run"), 4u + 1u);
  EXPECT_TRUE(kept.KeepOnlyNewest());
  EXPECT_EQ(Read("run"), (MetricsLines{{4 * kTuple, Line(4 * kTuple)}}));
  EXPECT_FALSE(kept.KeepOnlyNewest());
  Keep("run").AddEarlier(earlier);  // as puts that waited for room
  EXPECT_EQ(Tuples("run"), 1u);
  for (std::int64_t step = 4 * kTuple + 1; step < 7 * kTuple; ++step) {
    kept.AddStep(step, Line(step));
  }
  EXPECT_EQ(Tuples("run"), 1u) << "it must not grow again";
}

}  // namespace
}  // namespace acan
