// The faults that --inject asks for happen, as often as it says.
#include "acan/handler/fault_injector.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

namespace acan {
namespace {

using tuplespace::Payload;

constexpr std::size_t kPayloads = 4000;
constexpr std::size_t kBitsOfOne = 100 * 8;

// How many bits differ; the sizes must be equal.
std::size_t FlippedBits(const Payload& before, const Payload& after) {
  EXPECT_EQ(before.size(), after.size());
  std::size_t bits = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    bits += static_cast<std::size_t>(
        std::popcount(static_cast<unsigned char>(before.text()[i] ^ after.text()[i])));
  }
  return bits;
}

struct Faults {
  std::size_t payloads = 0, bits = 0;
};

enum class What { kResults, kKept };

Faults FaultsOf(FaultInjector injector, What what) {
  const Payload payload = Payload::Copy(std::string(kBitsOfOne / 8, '\x5a'));
  Faults faults;
  for (std::size_t i = 0; i < kPayloads; ++i) {
    const std::optional<Payload> faulty =
        what == What::kResults ? injector.OfResult(payload) : injector.OfKept(payload);
    if (!faulty) continue;
    ++faults.payloads;
    const std::size_t bits = FlippedBits(payload, *faulty);
    EXPECT_GT(bits, 0u);
    faults.bits += bits;
  }
  return faults;
}

// Within five standard deviations.
void ExpectShare(std::size_t count, std::size_t of, double rate) {
  const double n = static_cast<double>(of);
  EXPECT_NEAR(static_cast<double>(count), n * rate, 5 * std::sqrt(n * rate * (1 - rate)));
}

TEST(FaultInjectorTest, OneBitOfSomeResults) {
  const FaultInjector injector(ParseFaults("results:0.1,seed=3"));
  const Faults faults = FaultsOf(injector, What::kResults);
  ExpectShare(faults.payloads, kPayloads, 0.1);
  EXPECT_EQ(faults.bits, faults.payloads);
  EXPECT_EQ(FaultsOf(injector, What::kKept).payloads, 0u);
  EXPECT_EQ(FaultsOf(injector, What::kResults).payloads, faults.payloads) << "by the seed";
}

TEST(FaultInjectorTest, OneBitOfSomeCopiesThatADeviceKeeps) {
  const FaultInjector injector(ParseFaults("weights:0.1"));
  const Faults faults = FaultsOf(injector, What::kKept);
  ExpectShare(faults.payloads, kPayloads, 0.1);
  EXPECT_EQ(faults.bits, faults.payloads);
  EXPECT_EQ(FaultsOf(injector, What::kResults).payloads, 0u);
}

TEST(FaultInjectorTest, SomeBitsOfAllResults) {
  const FaultInjector injector(ParseFaults("result_bits:0.002"));
  const Faults faults = FaultsOf(injector, What::kResults);
  ExpectShare(faults.bits, kPayloads * kBitsOfOne, 0.002);
  ExpectShare(faults.payloads, kPayloads, 1 - std::pow(1 - 0.002, double{kBitsOfOne}));
  EXPECT_EQ(FaultsOf(injector, What::kKept).payloads, 0u);
  const Faults all = FaultsOf(FaultInjector(ParseFaults("result_bits:1")), What::kResults);
  EXPECT_EQ(all.bits, kPayloads * kBitsOfOne);
}

TEST(FaultInjectorTest, NothingWithoutARate) {
  const FaultInjector injector(ParseFaults("results:0,weights:0,result_bits:0,seed=9"));
  EXPECT_EQ(FaultsOf(injector, What::kResults).payloads, 0u);
  EXPECT_EQ(FaultsOf(injector, What::kKept).payloads, 0u);
}

TEST(FaultInjectorTest, WhatIsNotAFaultIsRefused) {
  for (const char* text : {"results:1.5", "weights", "bits:0.1", "results:0.1,", "seed=-1", ""}) {
    EXPECT_THROW(ParseFaults(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace acan
