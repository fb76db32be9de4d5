// What a handler measures about its link when it joins.
#include "acan/handler/link_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

}  // namespace
}  // namespace acan
