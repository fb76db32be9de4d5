// The devices besides CPUs on which these tests run: those of this machine, and fake GPUs.
#pragma once

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {

// Variables of this program that name fake GPUs (offer_gpus.cpp). Tests pass them on explicitly
// because the programs that a test starts inherit no variables of acan.
inline Environment OfferedGpus() {
  Environment offered;
  for (const char* name : {"ACAN_MODULE_PATH", "ACAN_FAKE_GPUS"}) {
    if (const char* value = std::getenv(name)) offered[name] = value;
  }
  return offered;
}

// The first usable device of a backend; null if there is none. The device is not proven: that takes
// seconds on a fake GPU, and each handler proves its own device.
inline nlohmann::json UsableDevice(const std::string& backend, const Environment& environment) {
  const Result listed = RunAcan({"devices", "--list", "--json"}, environment);
  EXPECT_EQ(listed.code, 0) << listed.err;
  for (const nlohmann::json& device : nlohmann::json::parse(listed.out)) {
    if (device["backend"] == backend && device["usable"].get<bool>()) return device;
  }
  return nullptr;
}

// Proves this machine's own devices. Before that, an OpenCL driver may have to compile the kernels,
// for longer than a test waits until a handler has joined. Drivers cache the result.
inline void CompileKernels() {
  const Result proven = RunAcan({"devices"});
  EXPECT_EQ(proven.code, 0) << proven.err;
}

}  // namespace acan::testing
