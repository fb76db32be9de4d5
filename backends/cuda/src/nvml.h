// Two facts that CUDA's runtime does not tell without taking memory on the device: the driver's
// version as users know it, and the free memory. They come from libnvidia-ml.so.1, which is part of
// the driver. Its few functions are declared here, because toolkits need not have its header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace acan::cuda {

// "580.95.05"; empty if NVML cannot be asked.
std::string NvmlDriverVersion();
// Of the device with this PCI bus id.
std::optional<std::uint64_t> NvmlFreeBytes(const char* pci_bus_id);

}  // namespace acan::cuda
