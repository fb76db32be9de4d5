// Two things that CUDA's runtime does not tell without taking memory on the device: the driver's
// version as users know it, and the memory that is free. From libnvidia-ml.so.1, which comes with
// the driver; its few functions are declared here, as toolkits need not have its header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace acan::cuda {

// "580.95.05"; empty if it cannot be asked.
std::string NvmlDriverVersion();
// Of the device with this PCI bus id.
std::optional<std::uint64_t> NvmlFreeBytes(const char* pci_bus_id);

}  // namespace acan::cuda
