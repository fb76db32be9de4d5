// The devices that the installed drivers offer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acan/module/module.h"
#include "driver/cl.h"
#include "driver/hardware.h"

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
  std::optional<std::size_t> row_items;  // for tests: see DeviceOptions
  // The driver itself keeps compiled kernels on disk, one kernel at a time as they run, and returns
  // the binary of a program only after it has compiled all of the program's kernels.
  bool keeps_programs = false;
  Hardware hardware;
  std::size_t platform = 0;  // the number of the driver that lists it
  bool portable = false;     // that driver is for hardware of many vendors
  std::string identity;      // device and driver with versions: what compiled programs depend on
};

// All devices of all drivers. If there are none, `problem` says why.
std::vector<Candidate> FindDevices(std::string& problem);

// Sets same_as for GPUs that several drivers list. Of one GPU, one listing stays without it: a
// usable one before others, then the one of the vendor's driver before those of portable drivers,
// then the first one. A driver lists no GPU twice: its devices at one address are parts of it.
void MarkSameGpus(std::vector<Candidate>& found);

// Part `part` of the device: its n-th compute unit. The device is cut once and its parts are never
// released, because PoCL 3.1 uses a sub-device after it has reported the last command on it as
// finished. Thread safe.
// REQUIRES: part < listing.parts.
cl_device_id PartOf(const Candidate& candidate, int part);

}  // namespace acan::opencl
