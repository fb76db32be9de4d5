// What the installed drivers offer.
#pragma once

#include <string>
#include <vector>

#include "acan/module/module.h"
#include "cl.h"

namespace acan::opencl {

// A device of a driver, with all that is asked of it.
struct Candidate {
  cl_device_id id = nullptr;  // of the driver: lives as long as the process
  DeviceListing listing;
  bool cpu = false;             // one vector unit per compute unit and caches, no local memory
  bool correct_divide = false;  // division and square root are correctly rounded
  int native_floats = 1;        // floats of a vector
  std::uint64_t most_allocation_bytes = 0;
  std::size_t most_group_size = 1;
  std::size_t most_kernel_group_size = SIZE_MAX;  // of tests: see DeviceOptions
  std::uint64_t local_bytes = 0;
  // It keeps what it compiles on disk by itself, a kernel at a time as they run, and gives the
  // binary of a program only after it has compiled all of them.
  bool keeps_programs = false;
  std::string identity;  // device and driver with their versions: what compiled programs depend on
};

// All devices of all drivers. Empty: `problem` says why.
std::vector<Candidate> FindDevices(std::string& problem);

// Part `part` of the device: its n-th compute unit. Cut once, and like the device never released:
// PoCL 3.1 touches a sub-device after the last command on it was reported finished. Thread safe.
// REQUIRES: part < listing.parts.
cl_device_id PartOf(const Candidate& candidate, int part);

}  // namespace acan::opencl
