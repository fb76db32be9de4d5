// The devices that the installed drivers offer.
#pragma once

#include <string>
#include <vector>

#include "acan/module/module.h"
#include "cl.h"

namespace acan::opencl {

// A device of a driver, and all that acan needs to know of it.
struct Candidate {
  cl_device_id id = nullptr;  // owned by the driver; lives as long as the process
  DeviceListing listing;
  bool cpu = false;             // one vector unit per compute unit, caches, no local memory
  bool correct_divide = false;  // division and square root are correctly rounded
  int native_floats = 1;        // floats of a vector
  std::uint64_t most_allocation_bytes = 0;
  std::size_t most_group_size = 1;
  std::size_t most_kernel_group_size = SIZE_MAX;  // for tests: see DeviceOptions
  std::uint64_t local_bytes = 0;
  // The driver itself keeps compiled kernels on disk, one kernel at a time as they run, and returns
  // the binary of a program only after it has compiled all of the program's kernels.
  bool keeps_programs = false;
  std::string identity;  // device and driver with versions: what compiled programs depend on
};

// All devices of all drivers. If there are none, `problem` says why.
std::vector<Candidate> FindDevices(std::string& problem);

// Part `part` of the device: its n-th compute unit. The device is cut once and its parts are never
// released, because PoCL 3.1 uses a sub-device after it has reported the last command on it as
// finished. Thread safe.
// REQUIRES: part < listing.parts.
cl_device_id PartOf(const Candidate& candidate, int part);

}  // namespace acan::opencl
