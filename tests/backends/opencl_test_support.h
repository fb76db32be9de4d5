// What the tests of OpenCL share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "acan/opencl/opencl_devices.h"

namespace acan::opencl {

inline std::string WhyNoDevice() {
  const DeviceList list = ListDevices();
  return list.devices.empty() ? list.problem : list.devices[0].unusable;
}

#define ACAN_SKIP_WITHOUT_OPENCL()                                       \
  if (const std::string why = WhyNoDevice(); !why.empty()) {             \
    GTEST_SKIP() << "opencl:0 cannot be used here, not tested: " << why; \
  }

// A cache folder for this test only.
class OwnCache {
 public:
  OwnCache()
      : path_(std::filesystem::temp_directory_path() /
              ("acan-opencl-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    const char* old = std::getenv("XDG_CACHE_HOME");
    if (old != nullptr) old_ = old;
    ::setenv("XDG_CACHE_HOME", path_.c_str(), 1);
  }
  ~OwnCache() {
    std::filesystem::remove_all(path_);
    if (old_.empty()) {
      ::unsetenv("XDG_CACHE_HOME");
    } else {
      ::setenv("XDG_CACHE_HOME", old_.c_str(), 1);
    }
  }
  std::string folder() const { return (path_ / "acan").string(); }
  std::vector<std::filesystem::path> Files() const {
    return {std::filesystem::directory_iterator(folder()), std::filesystem::directory_iterator()};
  }

 private:
  std::filesystem::path path_;
  std::string old_;
};

}  // namespace acan::opencl
