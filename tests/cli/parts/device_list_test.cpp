// How users write devices and sizes.
#include "device_list.h"

#include <stdlib.h>

#include "acan/core/error.h"
#include "device_factory.h"
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

TEST(DefaultMemory, IsSharedOut) {
  EXPECT_GE(DefaultMemoryBytes(1), 1u << 20);
  EXPECT_GE(DefaultMemoryBytes(kMaxHandlers), 1u << 20);
  EXPECT_LE(DefaultMemoryBytes(4), AvailableMemoryBytes());
}

}  // namespace
}  // namespace acan::cli
