// How users write devices and sizes.
#include "device_list.h"

#include <stdlib.h>

#include "acan/core/error.h"
#include "acan/module/module.h"
#include "device_factory.h"
#include "driver_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine.h"

namespace acan::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

TEST(ParseFastMath, KnowsThreeNamesAndNamesThem) {
  EXPECT_EQ(ParseFastMath("fp32", "--fast-math"), FastMath::kFp32);
  EXPECT_EQ(ParseFastMath("tf32", "--fast-math"), FastMath::kTf32);
  EXPECT_EQ(ParseFastMath("bf16", "--fast-math"), FastMath::kBf16);
  EXPECT_THAT([] { ParseFastMath("half", "ACAN_FAST_MATH"); },
              ::testing::ThrowsMessage<Error>(
                  ::testing::AllOf(::testing::HasSubstr("ACAN_FAST_MATH: \"half\""),
                                   ::testing::HasSubstr("write fp32, tf32 or bf16"))));
}

TEST(ParseMemory, ReadsWhatPeopleWrite) {
  EXPECT_EQ(ParseMemory("65536", "--memory"), 65536u);
  EXPECT_EQ(ParseMemory("64KiB", "--memory"), 65536u);
  EXPECT_EQ(ParseMemory(" 64 KiB ", "--memory"), 65536u);
  EXPECT_EQ(ParseMemory("1.5GiB", "--memory"), 3ull << 29);
  EXPECT_EQ(ParseMemory("1B", "--memory"), 1u);
}

TEST(ParseMemory, TeachesWhatIsRight) {
  for (const char* text :
       {"", "64K", "64kb", "-1", "KiB", "1e3", "64 KiB of RAM", "0.3B", "nan", "9999999TiB"}) {
    EXPECT_THAT(ErrorOf([&] { ParseMemory(text, "--memory"); }),
                AllOf(HasSubstr("--memory"), HasSubstr("\"" + std::string(text) + "\""),
                      HasSubstr("64KiB")))
        << text;
  }
  EXPECT_THAT(ErrorOf([] { ParseMemory("0", "ACAN_MEMORY"); }),
              AllOf(HasSubstr("ACAN_MEMORY"), HasSubstr("at least 1 byte")));
}

TEST(ParseDevice, ReadsThreadsAndMemory) {
  EXPECT_EQ(ParseDevice("cpu:3", "--device"), (DeviceSpec{3, std::nullopt}));
  EXPECT_EQ(ParseDevice("cpu:1@64KiB", "--device"), (DeviceSpec{1, 65536}));
  EXPECT_EQ(ParseDevice("cpu", "--device").threads, UsableCores());
  EXPECT_EQ(ParseDevice("cpu:2", "--device").Name(), "cpu:2");
}

TEST(ParseDevice, ReadsDevicesOfModules) {
  const DeviceSpec third = ParseDevice("opencl:2@1MiB", "--device");
  EXPECT_EQ(third, (DeviceSpec{1, 1u << 20, "opencl", 2, std::nullopt}));
  EXPECT_EQ(third.Name(), "opencl:2");
  const DeviceSpec part = ParseDevice("opencl:0/3", "--device");
  EXPECT_EQ(part.part, 3);
  EXPECT_EQ(part.Name(), "opencl:0/3");
  EXPECT_EQ(ParseDevice("cuda", "--device").Name(), "cuda:0");
  EXPECT_EQ(ParseDevice("auto@64KiB", "--device").Name(), "auto");
}

TEST(ChooseDevices, AutoIsGpusAndACoreEach) {
  // Without modules there are no GPUs.
  ASSERT_EQ(::setenv("ACAN_MODULE_PATH", "/nowhere", 1), 0);
  const std::vector<DeviceSpec> chosen = ChooseDevices(ParseDeviceList("auto@1MiB", "--handlers"));
  EXPECT_EQ(chosen,
            std::vector<DeviceSpec>(static_cast<std::size_t>(UsableCores()), {1, 1u << 20}));
  EXPECT_EQ(ChooseDevice(ParseDevice("auto", "--device")).threads, UsableCores());
  EXPECT_EQ(ChooseDevice(ParseDevice("opencl:1", "--device")).Name(), "opencl:1");
}

TEST(ParseDevice, SaysWhatThereIs) {
  for (const char* text : {"opencl:", "opencl:x", "cuda:-1", "opencl:0/", "opencl:0/x", "cuda:1:2",
                           "opencl:9999", "opencl:/1", "opencl:0/1/2"}) {
    EXPECT_THAT(ErrorOf([&] { ParseDevice(text, "--device"); }),
                AllOf(HasSubstr(text), HasSubstr("not a device number")));
  }
  for (const char* text : {"gpu:0", "", "CPU:1", "cpux", "opencl0", "auto:1"}) {
    EXPECT_THAT(ErrorOf([&] { ParseDevice(text, "--device"); }), HasSubstr("is not a device"))
        << text;
  }
  for (const char* text :
       {"cpu:", "cpu:0", "cpu:-1", "cpu:two", "cpu:1.5", "cpu:99999", "cpu:1:2"}) {
    EXPECT_THAT(ErrorOf([&] { ParseDevice(text, "--device"); }), HasSubstr("number of threads"))
        << text;
  }
  EXPECT_THAT(ErrorOf([] { ParseDevice("cpu:1@lots", "--device"); }),
              AllOf(HasSubstr("cpu:1@lots"), HasSubstr("\"lots\" is not a size")));
}

TEST(ParseDeviceList, ReadsListsAndRepeats) {
  EXPECT_EQ(ParseDeviceList("cpu:1,cpu:2", "--handlers"),
            (std::vector<DeviceSpec>{{1, std::nullopt}, {2, std::nullopt}}));
  EXPECT_EQ(ParseDeviceList("2xcpu:1@64KiB, cpu:4", "--handlers"),
            (std::vector<DeviceSpec>{{1, 65536}, {1, 65536}, {4, std::nullopt}}));
  EXPECT_EQ(ParseDeviceList("cpu:1,2xopencl:0/1@1KiB", "--handlers")[2],
            (DeviceSpec{1, 1024, "opencl", 0, 1}));
}

TEST(ParseDeviceList, RefusesWhatCannotBe) {
  for (const char* text : {"", ",", "cpu:1,", "cpu:1,,cpu:1"}) {
    EXPECT_THAT(ErrorOf([&] { ParseDeviceList(text, "--handlers"); }), HasSubstr("empty entry"))
        << text;
  }
  EXPECT_THAT(ErrorOf([] { ParseDeviceList("0xcpu:1", "--handlers"); }), HasSubstr("0 handlers"));
  EXPECT_THAT(ErrorOf([] { ParseDeviceList("9999xcpu:1", "--handlers"); }),
              HasSubstr("9999 handlers"));
  EXPECT_THAT(ErrorOf([] { ParseDeviceList("1000xcpu:1,1000xcpu:1", "--handlers"); }),
              HasSubstr("more than 1024 handlers"));
  EXPECT_THAT(ErrorOf([] { ParseDeviceList("cpu:1,opencl:z", "ACAN_HANDLERS"); }),
              AllOf(HasSubstr("ACAN_HANDLERS"), HasSubstr("opencl")));
}

TEST(DeviceListLine, KeepsEveryField) {
  DeviceListing device;
  device.info = {.name = "opencl:0",
                 .description = "a GPU",
                 .backend = "opencl",
                 .vector_isa = "wide",
                 .memory_bytes = std::uint64_t{3} << 40,
                 .threads = 12,
                 .exact = false,
                 .fast = false,
                 .own_memory = true};
  device.kind = DeviceKind::kGpu;
  device.driver = "a driver\n\"2.0\"";
  device.vendor_id = 0xffffffff;
  device.free_bytes = UINT64_MAX;
  device.host_memory = true;
  device.parts = 3;
  device.parted_by = "a unit";
  device.unusable = "it is old";
  device.same_as = 1;
  const DeviceList list{{device, {}}, "a problem"};
  const std::string line = DeviceListLine(list);
  const std::optional<DeviceList> read = ParseDeviceListLine(line);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->problem, "a problem");
  ASSERT_EQ(read->devices.size(), 2u);
  const DeviceListing& got = read->devices[0];
  EXPECT_EQ(got.info.name, "opencl:0");
  EXPECT_EQ(got.info.description, "a GPU");
  EXPECT_EQ(got.info.backend, "opencl");
  EXPECT_EQ(got.info.vector_isa, "wide");
  EXPECT_EQ(got.info.memory_bytes, std::uint64_t{3} << 40);
  EXPECT_EQ(got.info.threads, 12);
  EXPECT_FALSE(got.info.exact || got.info.fast);
  EXPECT_TRUE(got.info.own_memory && got.host_memory);
  EXPECT_EQ(got.kind, DeviceKind::kGpu);
  EXPECT_EQ(got.driver, "a driver\n\"2.0\"");
  EXPECT_EQ(got.vendor_id, 0xffffffff);
  EXPECT_EQ(got.free_bytes, UINT64_MAX);
  EXPECT_EQ(got.parts, 3);
  EXPECT_EQ(got.parted_by, "a unit");
  EXPECT_EQ(got.unusable, "it is old");
  EXPECT_EQ(got.same_as, 1);
  EXPECT_EQ(DeviceListLine(*read), line);
  EXPECT_EQ(read->devices[1].free_bytes, std::nullopt);
  EXPECT_EQ(read->devices[1].same_as, std::nullopt);
  for (const char* other : {"", "a driver's warning", "{}", "[1]", "{\"problem\":\"\"}"}) {
    EXPECT_FALSE(ParseDeviceListLine(other).has_value()) << other;
  }
}

// opencl:0 and opencl:2 are one GPU by two drivers.
TEST(AutomaticGpus, AreEachUsedOnce) {
  DeviceList list;
  list.devices.resize(5);
  for (DeviceListing& each : list.devices) each.kind = DeviceKind::kGpu;
  list.devices[0].same_as = 2;
  list.devices[1].kind = DeviceKind::kOther;
  list.devices[3].unusable = "it is old";
  list.devices[4].vendor_id = 0x10de;  // NVIDIA
  const DeviceSpec first{1, {}, "opencl", 2}, nvidias{1, {}, "opencl", 4};
  EXPECT_EQ(AutomaticGpus("opencl", list, false), (std::vector<DeviceSpec>{first, nvidias}));
  EXPECT_EQ(AutomaticGpus("opencl", list, true), std::vector<DeviceSpec>{first});
  EXPECT_EQ(HardwareIndex({1, {}, "opencl", 0}, list), 2) << "they share its memory";
  EXPECT_EQ(HardwareIndex(first, list), 2);
  EXPECT_EQ(HardwareIndex({1, {}, "opencl", 1}, list), 1);
  EXPECT_EQ(HardwareIndex({1, {}, "opencl", 9}, list), 9) << "there is none";
}

TEST(DefaultMemory, IsSharedOut) {
  EXPECT_GE(DefaultMemoryBytes(1), 1u << 20);
  EXPECT_GE(DefaultMemoryBytes(kMaxHandlers), 1u << 20);
  EXPECT_LE(DefaultMemoryBytes(4), AvailableMemoryBytes());
}

TEST(DefaultMemory, OfAGpuIsItsOwnUnlessItIsIntegrated) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  DeviceListing gpu;
  gpu.kind = DeviceKind::kGpu;
  gpu.info.memory_bytes = 1024 * kGiB;
  gpu.info.threads = 1;
  EXPECT_GT(DefaultMemoryBytes(gpu, kMaxHandlers, 1), 900 * kGiB);
  EXPECT_LT(DefaultMemoryBytes(gpu, kMaxHandlers, 2), 500 * kGiB);
  gpu.host_memory = true;
  const std::uint64_t fair_bytes = AvailableMemoryBytes() / kMaxHandlers;
  EXPECT_LE(DefaultMemoryBytes(gpu, kMaxHandlers, 1), std::max(fair_bytes, std::uint64_t{1} << 20));
  gpu.info.memory_bytes = 1 << 20;
  EXPECT_LE(DefaultMemoryBytes(gpu, 1, 4), (1u << 20) / 4);
}

}  // namespace
}  // namespace acan::cli
