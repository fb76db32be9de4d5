// Tests that a GPU which several OpenCL drivers list is recognised as one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/hardware.h"
#include "driver/platform.h"

namespace acan::opencl {
namespace {

using ::testing::ElementsAre;

constexpr PciAddress kSlot{0, 0x65, 0, 0};

Candidate Gpu(std::size_t platform, std::optional<PciAddress> pci, std::string uuid = "") {
  Candidate gpu;
  gpu.listing.kind = DeviceKind::kGpu;
  gpu.platform = platform;
  gpu.hardware = {std::move(uuid), pci};
  return gpu;
}

std::vector<std::optional<int>> Marks(std::vector<Candidate> found) {
  MarkSameGpus(found);
  std::vector<std::optional<int>> marks;
  for (const Candidate& each : found) marks.push_back(each.listing.same_as);
  return marks;
}

constexpr std::optional<int> kOwn = std::nullopt;

TEST(SameGpus, AreAtOneAddressOrHaveOneUuid) {
  EXPECT_THAT(Marks({Gpu(0, kSlot), Gpu(1, kSlot), Gpu(2, kSlot)}), ElementsAre(kOwn, 0, 0));
  EXPECT_THAT(Marks({Gpu(0, {}, "a"), Gpu(1, {}, "b"), Gpu(2, kSlot, "b")}),
              ElementsAre(kOwn, kOwn, 1));
  const PciAddress without_domain{std::nullopt, 0x65, 0, 0};
  EXPECT_THAT(Marks({Gpu(0, kSlot), Gpu(1, without_domain)}), ElementsAre(kOwn, 0));
}

TEST(SameGpus, AreNotThoseThatMayDiffer) {
  EXPECT_THAT(Marks({Gpu(0, {}), Gpu(1, {})}), ElementsAre(kOwn, kOwn)) << "nothing is known";
  for (const PciAddress& other : {PciAddress{1, 0x65, 0, 0}, PciAddress{0, 0x66, 0, 0},
                                  PciAddress{0, 0x65, 1, 0}, PciAddress{0, 0x65, 0, 1}}) {
    EXPECT_THAT(Marks({Gpu(0, kSlot, "a"), Gpu(1, other, "a")}), ElementsAre(kOwn, kOwn));
  }
  Candidate cpu = Gpu(1, {}, "a");
  cpu.listing.kind = DeviceKind::kHostCpu;
  EXPECT_THAT(Marks({Gpu(0, {}, "a"), cpu}), ElementsAre(kOwn, kOwn));
}

// A driver may offer each tile of a GPU as a device of its own.
TEST(SameGpus, AreNeverOfOneDriver) {
  EXPECT_THAT(Marks({Gpu(0, kSlot, "a"), Gpu(0, kSlot, "b")}), ElementsAre(kOwn, kOwn));
  EXPECT_THAT(Marks({Gpu(0, kSlot, "a"), Gpu(0, kSlot, "b"), Gpu(1, kSlot, "a"), Gpu(1, kSlot, "b"),
                     Gpu(2, kSlot)}),
              ElementsAre(kOwn, kOwn, 0, 1, 0));
}

TEST(SameGpus, AreUsedByTheVendorsDriverIfThatCanBeUsed) {
  Candidate portable = Gpu(0, kSlot);
  portable.portable = true;
  Candidate vendors = Gpu(1, kSlot);
  EXPECT_THAT(Marks({portable, vendors}), ElementsAre(1, kOwn));
  vendors.listing.unusable = "its driver has no compiler";
  EXPECT_THAT(Marks({portable, vendors}), ElementsAre(kOwn, 0));
}

}  // namespace
}  // namespace acan::opencl
