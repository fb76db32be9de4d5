// Tests of OpenCL's errors and what they mean: of calls, of commands that fail as they run, and of
// devices that hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "acan/opencl/opencl_devices.h"
#include "driver/cl.h"
#include "driver/command_queue.h"
#include "driver/device_health.h"
#include "driver/platform.h"
#include "opencl_test_support.h"
#include "reference.h"

namespace acan::opencl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OpenClErrors, HaveOpenClsNamesAndMeanings) {
  EXPECT_NO_THROW(Check(CL_SUCCESS, "clFinish", "opencl:0"));
  EXPECT_THAT([] { Check(CL_OUT_OF_RESOURCES, "clSetKernelArg", "opencl:0"); },
              ThrowsMessage<OutOfMemory>("clSetKernelArg on opencl:0: CL_OUT_OF_RESOURCES"));
  EXPECT_THAT([] { Check(CL_MEM_OBJECT_ALLOCATION_FAILURE, "clCreateBuffer", "opencl:1"); },
              ThrowsMessage<OutOfMemory>(HasSubstr("CL_MEM_OBJECT_ALLOCATION_FAILURE")));
  EXPECT_THAT([] { Check(CL_DEVICE_NOT_AVAILABLE, "clFinish", "opencl:0"); },
              ThrowsMessage<DeviceLost>(HasSubstr("CL_DEVICE_NOT_AVAILABLE")));
  EXPECT_THAT([] { Check(CL_INVALID_VALUE, "clSetKernelArg", "opencl:0"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("clSetKernelArg on opencl:0")));
  EXPECT_EQ(ErrorName(-9999), "OpenCL error -9999");
}

// A device whose launch number `fail` fails, or hangs, as it runs.
std::unique_ptr<Device> MakeFailing(std::int64_t fail, bool hang = false) {
  DeviceOptions options;
  options.memory_limit_bytes = 64 << 10;  // too little to measure, which would launch kernels
  options.fail_launch = fail;
  options.fail_by_hanging = hang;
  return MakeDevice(options);
}

using Wait = std::function<void(Device&, const test::OnDevice&)>;

// The driver reports such a failure only in the status of the command's event.
TEST(OpenClErrors, AreSeenOfKernelsThatFailAsTheyRun) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const std::vector<Wait> waits = {
      [](Device& device, const auto&) { device.Synchronize(); },
      [](Device& device, const auto&) { device.StartMark()->Wait(); },
      [](Device& device, const auto& of) { device.Download(of.buffer, of.matrix); },
      [](Device& device, const auto& of) {
        Matrix part = of.matrix;
        part.cols = 1;
        device.Download(of.buffer, part);
      },
      [](Device& device, const auto& of) {
        device.CopyIn(tuplespace::Payload::Copy(std::string(24, '\0')), of.matrix);
      },
      // Commands without end, of which the device keeps a limited number.
      [](Device& device, const auto& of) {
        KernelArgs fill;
        fill.m[0] = of.matrix;
        for (int i = 0; i < 2000; ++i) device.Launch(Kernel::kFill, fill);
      },
  };
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const auto device = MakeFailing(2);
    const test::OnDevice of = test::Space(*device, 2, 3);
    KernelArgs fill;
    fill.m[0] = of.matrix;
    fill.scalars.f[0] = 7.0f;
    for (int launch = 0; launch < 3; ++launch) device->Launch(Kernel::kFill, fill);
    EXPECT_THAT([&] { waits[i](*device, of); },
                ThrowsMessage<DeviceLost>(AllOf(HasSubstr("kFill"), HasSubstr("opencl:0"))))
        << "wait " << i;
    EXPECT_NO_THROW(waits[i](*device, of)) << "wait " << i << " reports a failure again";
    device->Launch(Kernel::kFill, fill);
    EXPECT_EQ(test::Fetch(*device, of).v, std::vector<float>(6, 7.0f)) << "wait " << i;
  }
}

TEST(OpenClErrors, OfCommandsHaveTheirMeanings) {
  EXPECT_NO_THROW(CheckStatus(CL_COMPLETE, "kFill", "opencl:0"));
  for (const cl_int status :
       {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY}) {
    EXPECT_THAT([&] { CheckStatus(status, "kFill", "opencl:0"); },
                ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("kFill"), HasSubstr("opencl:0"),
                                                 HasSubstr(ErrorName(status)))));
  }
  for (const cl_int status : {-1, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -9999}) {
    EXPECT_THAT([&] { CheckStatus(status, "kFill", "opencl:0"); },
                ThrowsMessage<DeviceLost>(HasSubstr(std::to_string(status))));
  }
}

// Drivers of Intel and NVIDIA let waits for such a device fail as if it had no memory.
TEST(OpenClErrors, OfADeviceThatHangsSayThatItIsLost) {
  ACAN_SKIP_WITHOUT_OPENCL();
  const auto payload = tuplespace::Payload::Copy(std::string(24, '\0'));
  const std::vector<Wait> waits = {
      [](Device& device, const auto&) { device.Synchronize(); },
      [](Device& device, const auto&) { device.StartMark()->Wait(); },
      [](Device& device, const auto& of) { device.Download(of.buffer, of.matrix); },
      [&](Device& device, const auto& of) { device.CopyIn(payload, of.matrix); },
      [](Device& device, const auto& of) { device.Fetch(of.buffer); },
      [&](Device& device, const auto&) { device.Upload(payload); },
  };
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const auto device = MakeFailing(2, true);
    const test::OnDevice of = test::Space(*device, 2, 3);
    KernelArgs fill;
    fill.m[0] = of.matrix;
    for (int launch = 0; launch < 3; ++launch) device->Launch(Kernel::kFill, fill);
    EXPECT_THAT([&] { waits[i](*device, of); }, ThrowsMessage<DeviceLost>(HasSubstr("opencl:0")))
        << "wait " << i;
    EXPECT_THROW(device->Synchronize(), DeviceLost) << "wait " << i;
  }
}

// A queue of opencl:0 without a Device.
struct BareQueue {
  cl_device_id id;
  Context context{clCreateContext(nullptr, 1, &id, nullptr, nullptr, nullptr)};
  Queue probes{clCreateCommandQueue(context.get(), id, 0, nullptr)};
  Memory memory{clCreateBuffer(context.get(), CL_MEM_READ_WRITE, 4, nullptr, nullptr)};
  DeviceHealth health{context.get(), probes.get(), "opencl:0"};
  CommandQueue commands{context.get(), id, health, std::nullopt, false};

  BareQueue() : id(FirstDevice()) {}

  static cl_device_id FirstDevice() {
    std::string problem;
    return FindDevices(problem).at(0).id;
  }
  void Fill() {
    const cl_uint zero = 0;
    commands.Add("a fill", [&](cl_command_queue queue, cl_event* event) {
      return clEnqueueFillBuffer(queue, memory.get(), &zero, 4, 0, 4, 0, nullptr, event);
    });
  }
  // A blocking call that the driver refuses.
  void Refuse(cl_int error) {
    commands.AddBlocking("a read", [error](cl_command_queue, cl_event*) { return error; });
  }
};

TEST(OpenClErrors, OfADeviceThatAnswersMeanALackOfMemory) {
  ACAN_SKIP_WITHOUT_OPENCL();
  BareQueue queue;
  for (const cl_int error :
       {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY}) {
    queue.Fill();
    EXPECT_THAT([&] { queue.Refuse(error); },
                ThrowsMessage<OutOfMemory>(AllOf(HasSubstr("a read"), HasSubstr("opencl:0"),
                                                 HasSubstr(ErrorName(error)))));
    EXPECT_THROW(queue.health.Check(error, "clCreateBuffer"), OutOfMemory);
    EXPECT_THROW(queue.health.CheckStatus(error, "kFill", CL_SUCCESS), OutOfMemory);
    EXPECT_NO_THROW(queue.commands.Finish());
  }
}

// Of an event with another error, that error is shown, as it says more.
TEST(OpenClErrors, OfAFailedWaitSayThatTheDeviceIsLost) {
  ACAN_SKIP_WITHOUT_OPENCL();
  BareQueue queue;
  for (const cl_int status : {CL_COMPLETE, CL_RUNNING, CL_OUT_OF_RESOURCES}) {
    EXPECT_THAT([&] { queue.health.CheckStatus(status, "kFill", CL_OUT_OF_RESOURCES); },
                ThrowsMessage<DeviceLost>(AllOf(HasSubstr("waiting"), HasSubstr("opencl:0"),
                                                HasSubstr("CL_OUT_OF_RESOURCES"))));
  }
  EXPECT_THAT([&] { queue.health.CheckStatus(-777, "kFill", CL_OUT_OF_RESOURCES); },
              ThrowsMessage<DeviceLost>(AllOf(HasSubstr("kFill"), HasSubstr("-777"))));
  queue.health.Hang();
  queue.Fill();
  EXPECT_THROW(queue.commands.Finish(), DeviceLost);
  queue.Fill();
  EXPECT_THROW(queue.Refuse(CL_OUT_OF_RESOURCES), DeviceLost);
  EXPECT_THROW(queue.health.Check(CL_OUT_OF_RESOURCES, "clCreateBuffer"), DeviceLost);
  EXPECT_THROW(queue.health.CheckStatus(CL_OUT_OF_RESOURCES, "kFill", CL_SUCCESS), DeviceLost);
}

}  // namespace
}  // namespace acan::opencl
