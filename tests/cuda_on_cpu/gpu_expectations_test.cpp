// Tests the verdicts of gpu_bench on measured figures.
#include "gpu_expectations.h"

#include <gtest/gtest.h>

namespace acan::bench {
namespace {

Figure Of(const std::string& name, double rate, double expected, Counters counters = {}) {
  return {name, rate, "a limit", 10, expected, std::move(counters)};
}

TEST(SlowerThanExpected, NamesWhatIsBelowAndNothingElse) {
  const auto slower =
      SlowerThanExpected({Of("just enough", 5, 0.5), Of("a little less", 4.9, 0.5),
                          Of("faster than its limit", 12, 0.9), Of("far below", 1, 0.7)});
  ASSERT_EQ(slower.size(), 2u);
  EXPECT_EQ(slower[0].figure.name, "far below") << "the furthest below comes first";
  EXPECT_EQ(slower[1].figure.name, "a little less");
  EXPECT_DOUBLE_EQ(slower[0].share, 0.1);
}

TEST(SlowerThanExpected, NamesTheLowestCounter) {
  const auto slower = SlowerThanExpected(
      {Of("product", 1, 0.5, {{"blocks", 1.0}, {"local_memory", 0.7}, {"waves", 0.3}}),
       Of("kernel", 2, 0.5, {{"warps", 0.9}}), Of("copy", 3, 0.5)});
  ASSERT_EQ(slower.size(), 3u);
  EXPECT_EQ(SentenceOf(slower[0]), "product: 0.10 of a limit, expected 0.50; counter waves: 0.30");
  EXPECT_EQ(SentenceOf(slower[1]),
            "kernel: 0.20 of a limit, expected 0.50; no counter of gpu_bench is low");
  EXPECT_EQ(slower[2].counter, "");
}

TEST(ShareOfWaves, IsLowWhereTheLastWaveIsNearlyEmpty) {
  EXPECT_DOUBLE_EQ(ShareOfWaves(264, 132, 2), 1.0);
  EXPECT_DOUBLE_EQ(ShareOfWaves(265, 132, 2), 265.0 / 528.0);
  EXPECT_DOUBLE_EQ(ShareOfWaves(33, 132, 1), 0.25);
}

TEST(Expectations, AreOfLargeCopiesAndNamedKernels) {
  EXPECT_FALSE(ExpectedOfCopy("upload", 1000).has_value());
  EXPECT_TRUE(ExpectedOfCopy("upload", 4e6).has_value());
  EXPECT_FALSE(ExpectedOfCopy("host_memcpy", 4e6).has_value()) << "a limit, not acan's own";
  EXPECT_TRUE(ExpectedOfKernel("kNorm").has_value());
  EXPECT_FALSE(ExpectedOfKernel("kAttention").has_value()) << "its limit is not memory";
}

}  // namespace
}  // namespace acan::bench
