// What a handler measures about its link when it joins.
#include "acan/handler/link_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"

namespace acan {
namespace {

// Measures a link with these properties, behind a switch that takes some bytes at once.
std::vector<std::uint64_t> Measure(LinkProbe& probe, double ns_per_kib, std::int64_t round_trip_us,
                                   double at_once_bytes) {
  std::vector<std::uint64_t> sizes;
  while (const auto bytes = probe.Next()) {
    sizes.push_back(*bytes);
    const double behind = std::max(0.0, static_cast<double>(*bytes) - at_once_bytes);
    probe.Note(round_trip_us + static_cast<std::int64_t>(behind / 1024 * ns_per_kib / 1000));
  }
  return sizes;
}

TEST(LinkProbeTest, AFastLinkIsMeasuredWithManyBytes) {
  LinkProbe probe;
  const std::vector<std::uint64_t> sizes = Measure(probe, 8'192, 150, 0);
  EXPECT_EQ(sizes.back(), LinkProbe::kMaxBytes);
  EXPECT_EQ(probe.round_trip_us(), 150u);
  EXPECT_NEAR(probe.ns_per_kib(), 8'192, 10);
}

TEST(LinkProbeTest, ASlowLinkIsNotFilledForLong) {
  LinkProbe probe;
  const std::vector<std::uint64_t> sizes = Measure(probe, 8'192'000, 20'000, 0);  // 1 Mbit/s
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{1, 1, 1, 1, 1, 1, 1, 1, 64 << 10}));
  EXPECT_NEAR(probe.ns_per_kib(), 8'192'000, 1000);
}

TEST(LinkProbeTest, WhatASwitchTakesAtOnceIsNotTakenForTheLink) {
  LinkProbe probe;
  Measure(probe, 81'920, 200, 256 << 10);  // 100 Mbit/s
  EXPECT_GT(probe.ns_per_kib(), 60'000u);
  EXPECT_LE(probe.ns_per_kib(), 81'920u);
}

TEST(LinkProbeTest, TheLeastOfSomeRoundTripsCounts) {
  LinkProbe probe;
  for (const std::int64_t us : {900, 300, 500}) probe.Note(us);
  EXPECT_EQ(probe.round_trip_us(), 300u);
  EXPECT_EQ(probe.ns_per_kib(), 0u) << "not measured yet";
}

TEST(LinkProbeTest, TheBestOfTheLargestCounts) {
  LinkProbe probe;
  std::vector<std::int64_t> of_largest{90'200, 33'000, 70'200};
  while (const auto bytes = probe.Next()) {
    std::int64_t us = bytes == 1u ? 200 : 200 + static_cast<std::int64_t>(*bytes / 1024) * 8;
    if (bytes == LinkProbe::kMaxBytes) {
      us = of_largest.back();
      of_largest.pop_back();
    }
    probe.Note(us);
  }
  EXPECT_TRUE(of_largest.empty());
  EXPECT_NEAR(probe.ns_per_kib(), 32'800 * 1000 / 4096, 1);
}

TEST(LinkProbeTest, HandlersMeasureOneAfterTheOther) {
  const tuplespace::Key a_waits = ProbeKey("a", kWaitsToMeasure);
  const tuplespace::Key b_waits = ProbeKey("b", kWaitsToMeasure);
  const auto turn = [](const std::vector<tuplespace::Key>& probes, const std::string& id) {
    return TurnOf(probes, id, /*claims=*/false);
  };
  EXPECT_EQ(turn({}, "a"), ProbeTurn::kClaim);
  EXPECT_EQ(turn({a_waits, b_waits}, "a"), ProbeTurn::kClaim);
  EXPECT_EQ(turn({a_waits, b_waits}, "b"), ProbeTurn::kWait);
  EXPECT_EQ(turn({a_waits, ProbeKey("b", kMeasures)}, "a"), ProbeTurn::kWait) << "b was first";
  EXPECT_EQ(turn({a_waits, ProbeKey("b", 7)}, "a"), ProbeTurn::kWait) << "b does not say so";
  EXPECT_EQ(turn({ProbeKey("a", 7), b_waits}, "a"), ProbeTurn::kClaim) << "its own";
}

TEST(LinkProbeTest, OfTwoThatClaimTheTurnTheSmallerIdGetsIt) {
  const auto turn = [](const std::vector<tuplespace::Key>& probes, const std::string& id) {
    return TurnOf(probes, id, /*claims=*/true);
  };
  const tuplespace::Key a = ProbeKey("a", kMeasures), b = ProbeKey("b", kMeasures);
  EXPECT_EQ(turn({a, b}, "b"), ProbeTurn::kWait);
  EXPECT_EQ(turn({a, b}, "a"), ProbeTurn::kClaim) << "b may have begun";
  EXPECT_EQ(turn({a, ProbeKey("b", kWaitsToMeasure)}, "a"), ProbeTurn::kMeasure);
  EXPECT_EQ(turn({ProbeKey("a", kWaitsToMeasure), b}, "b"), ProbeTurn::kMeasure) << "b said first";
}

// Handlers look and announce in any order: no two may measure at once, and finally all have
// measured.
TEST(LinkProbeTest, NoTwoMeasureAtOnce) {
  for (std::uint32_t seed = 1; seed <= 2'000; ++seed) {
    std::mt19937 random(seed);
    struct One {
      std::string id;
      std::vector<tuplespace::Key> seen = {};
      bool is_here = false, has_looked = false, claims = false, measures = false, is_done = false;
    };
    std::vector<One> all{{"a"}, {"b"}, {"c"}};
    std::set<tuplespace::Key> space;
    int done = 0;
    for (int event = 0; event < 10'000 && done < 3; ++event) {
      One& one = all[random() % all.size()];
      if (one.is_done) continue;
      if (!std::exchange(one.is_here, true)) {
        space.insert(ProbeKey(one.id, kWaitsToMeasure));
      } else if (one.measures) {
        one.measures = false;
        one.is_done = true;
        ++done;
        space.erase(ProbeKey(one.id, kMeasures));
      } else if (!one.has_looked) {
        one.seen.assign(space.begin(), space.end());
        one.has_looked = true;
      } else {
        one.has_looked = false;
        const ProbeTurn turn = TurnOf(one.seen, one.id, one.claims);
        one.claims = turn != ProbeTurn::kWait;
        one.measures = turn == ProbeTurn::kMeasure;
        space.erase(ProbeKey(one.id, one.claims ? kWaitsToMeasure : kMeasures));
        space.insert(ProbeKey(one.id, one.claims ? kMeasures : kWaitsToMeasure));
        const auto measure = std::ranges::count_if(all, [](const One& o) { return o.measures; });
        ASSERT_LE(measure, 1) << "seed " << seed;
      }
    }
    EXPECT_EQ(done, 3) << "seed " << seed;
  }
}

}  // namespace
}  // namespace acan
