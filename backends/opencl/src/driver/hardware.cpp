#include "driver/hardware.h"

#include <array>
#include <string_view>

namespace acan::opencl {
namespace {

// Numbers and layouts of extensions, which not every version of OpenCL's headers has.
constexpr cl_device_info kDeviceUuid = 0x106A;      // CL_DEVICE_UUID_KHR
constexpr cl_device_info kPciBusInfo = 0x410F;      // CL_DEVICE_PCI_BUS_INFO_KHR
constexpr cl_device_info kTopologyOfAmd = 0x4037;   // CL_DEVICE_TOPOLOGY_AMD
constexpr cl_device_info kBusOfNvidia = 0x4008;     // CL_DEVICE_PCI_BUS_ID_NV
constexpr cl_device_info kSlotOfNvidia = 0x4009;    // CL_DEVICE_PCI_SLOT_ID_NV
constexpr cl_device_info kDomainOfNvidia = 0x400A;  // CL_DEVICE_PCI_DOMAIN_ID_NV

using Uuid = std::array<unsigned char, 16>;

struct PciBusInfo {
  cl_uint domain;
  cl_uint bus;
  cl_uint device;
  cl_uint function;
};

struct TopologyOfAmd {
  cl_uint type;  // kPcie, or another layout follows
  unsigned char unused[17];
  unsigned char bus;
  unsigned char device;
  unsigned char function;
  static constexpr cl_uint kPcie = 1;
};
static_assert(sizeof(TopologyOfAmd) == 24);

template <typename T>
std::optional<T> FactOf(cl_device_id device, cl_device_info what) {
  T value{};
  if (clGetDeviceInfo(device, what, sizeof(value), &value, nullptr) != CL_SUCCESS) {
    return std::nullopt;
  }
  return value;
}

std::optional<PciAddress> StatedPci(cl_device_id device, const std::string& extensions) {
  const auto has = [&](std::string_view name) {
    return extensions.find(name) != std::string::npos;
  };
  if (has("cl_khr_pci_bus_info")) {
    const auto info = FactOf<PciBusInfo>(device, kPciBusInfo);
    if (info) return PciAddress{info->domain, info->bus, info->device, info->function};
  }
  if (has("cl_amd_device_attribute_query")) {
    const auto at = FactOf<TopologyOfAmd>(device, kTopologyOfAmd);
    if (at && at->type == TopologyOfAmd::kPcie) {
      return PciAddress{std::nullopt, at->bus, at->device, at->function};
    }
  }
  if (has("cl_nv_device_attribute_query")) {
    constexpr cl_uint kFunctions = 8;  // of a slot; its number counts them
    const auto bus = FactOf<cl_uint>(device, kBusOfNvidia);
    const auto slot = FactOf<cl_uint>(device, kSlotOfNvidia);
    if (bus && slot) {
      return PciAddress{FactOf<cl_uint>(device, kDomainOfNvidia), *bus, *slot / kFunctions,
                        *slot % kFunctions};
    }
  }
  return std::nullopt;
}

}  // namespace

// A driver that does not know a UUID or an address may give zeros.
Hardware HardwareOf(cl_device_id device, const std::string& extensions) {
  Hardware out;
  if (extensions.find("cl_khr_device_uuid") != std::string::npos) {
    const auto uuid = FactOf<Uuid>(device, kDeviceUuid);
    if (uuid && *uuid != Uuid{}) out.uuid.assign(uuid->begin(), uuid->end());
  }
  out.pci = StatedPci(device, extensions);
  if (out.pci && out.pci->domain.value_or(0) == 0 && out.pci->bus == 0 && out.pci->device == 0 &&
      out.pci->function == 0) {
    out.pci.reset();
  }
  return out;
}

bool SamePci(const Hardware& a, const Hardware& b) {
  if (!a.pci || !b.pci) return false;
  const bool domains_differ = a.pci->domain && b.pci->domain && *a.pci->domain != *b.pci->domain;
  return !domains_differ && a.pci->bus == b.pci->bus && a.pci->device == b.pci->device &&
         a.pci->function == b.pci->function;
}

bool SameUuid(const Hardware& a, const Hardware& b) {
  const bool elsewhere = a.pci && b.pci && !SamePci(a, b);
  return !a.uuid.empty() && a.uuid == b.uuid && !elsewhere;
}

}  // namespace acan::opencl
