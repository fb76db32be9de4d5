#include "test_devices.h"

#include <algorithm>
#include <map>
#include <optional>

#include "acan/cpu/cpu_device.h"
#include "acan/module/loader.h"
#if defined(ACAN_TEST_CUDA)
#include "acan/cuda/cuda_devices.h"
#endif
#if defined(ACAN_TEST_OPENCL)
#include "acan/opencl/opencl_devices.h"
#endif

namespace acan::test {
namespace {

TestDevice Cpu(CpuIsa isa) {
  TestDevice out;
  const std::string name(CpuIsaName(isa));
  out.name = "cpu_" + name;
  out.threads = {1, 3};
  out.missing = [=] { return CpuIsaAvailable(isa) ? "" : "this CPU has no " + name; };
  out.make = [=](int threads, std::uint64_t limit_bytes) {
    return MakeCpuDevice({.threads = threads, .memory_limit_bytes = limit_bytes, .isa = isa});
  };
  return out;
}

// The first usable device of the list, or nullopt with the reason in `problem`.
std::optional<std::size_t> FirstUsable(const DeviceList& list, std::string& problem) {
  problem = list.problem;
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    problem = list.devices[i].unusable;
    if (problem.empty()) return i;
  }
  return std::nullopt;
}

std::uint64_t Within(std::uint64_t limit_bytes, const DeviceListing& listing) {
  return std::min(limit_bytes, listing.info.memory_bytes);
}

// The module's first usable device, made as the program would make it.
TestDevice OfModule(const std::string& backend) {
  TestDevice out;
  out.name = backend;
  out.threads = {1};
  out.missing = [=] {
    const LoadedModule& loaded = LoadModule(backend);
    std::string problem = loaded.problem;
    if (loaded.module != nullptr) FirstUsable(loaded.module->List(), problem);
    return problem;
  };
  out.make = [=](int, std::uint64_t limit_bytes) {
    DeviceModule& module = *LoadModule(backend).module;
    const DeviceList list = module.List();
    std::string problem;
    const std::size_t i = FirstUsable(list, problem).value();
    return module.Make({static_cast<int>(i), std::nullopt, Within(limit_bytes, list.devices[i])});
  };
  return out;
}

// An OpenCL device with modified options.
TestDevice OpenClVariant(const std::string& name) {
  TestDevice out;
  out.name = "opencl_" + name;
  out.threads = {1};
#if defined(ACAN_TEST_OPENCL)
  out.missing = [=]() -> std::string {
    const DeviceList list = opencl::ListDevices();
    std::string problem;
    const auto i = FirstUsable(list, problem);
    if (i && name == "part" && list.devices[*i].parts < 2) return "the device cannot be cut";
    return problem;
  };
  out.make = [=](int, std::uint64_t limit_bytes) {
    const DeviceList list = opencl::ListDevices();
    std::string problem;
    const std::size_t i = FirstUsable(list, problem).value();
    opencl::DeviceOptions options;
    options.index = static_cast<int>(i);
    if (name == "tile") options.gemm = opencl::GemmKind::kTile;
    if (name == "gpu") options.as_gpu = options.soft_divide = true;
    if (name == "part") options.part = 1;
    options.memory_limit_bytes = Within(limit_bytes, list.devices[i]);
    return opencl::MakeDevice(options);
  };
#else
  out.missing = [] { return "this build has no OpenCL"; };
#endif
  return out;
}

#if defined(ACAN_TEST_CUDA)
// Device number `wanted` if it is usable, else the first usable one.
std::optional<std::size_t> UsableOrFirst(const DeviceList& list, std::size_t wanted,
                                         std::string& problem) {
  if (wanted < list.devices.size() && list.devices[wanted].unusable.empty()) return wanted;
  return FirstUsable(list, problem);
}
#endif

#if defined(ACAN_TEST_CUDA)
// Maps the tile names in the tests' device names to tiles.
cuda::GemmTile TileOf(const std::string& tile) {
  using cuda::GemmTile;
  static const std::map<std::string, GemmTile> kTiles = {
      {"tile128", GemmTile::k128},   {"tile64", GemmTile::k64},
      {"tile32", GemmTile::k32},     {"ring128", GemmTile::kRing128},
      {"ring64", GemmTile::kRing64}, {"ring32", GemmTile::kRing32}};
  return kTiles.at(tile);
}
#endif

// CUDA with one tile size for all exact products, on GPU number `wanted` if there is one. `cut`:
// whether products are split along k where possible.
TestDevice CudaTiles(const std::string& tiles, [[maybe_unused]] std::size_t wanted,
                     [[maybe_unused]] std::optional<bool> cut = std::nullopt) {
  TestDevice out;
  out.name = "cuda_" + tiles + (cut == true ? "_cut" : "");
  out.threads = {1};
#if defined(ACAN_TEST_CUDA)
  const cuda::GemmTile tile = TileOf(tiles);
  out.missing = [=]() -> std::string {
    std::string problem;
    const auto i = UsableOrFirst(cuda::ListDevices(), wanted, problem);
    if (!i) return problem;
    return cuda::HasTile(static_cast<int>(*i), tile) ? "" : "the GPU lacks these tiles";
  };
  out.make = [=](int, std::uint64_t limit_bytes) {
    const DeviceList list = cuda::ListDevices();
    std::string problem;
    const std::size_t i = UsableOrFirst(list, wanted, problem).value();
    cuda::DeviceOptions options;
    options.index = static_cast<int>(i);
    options.memory_limit_bytes = Within(limit_bytes, list.devices[i]);
    options.tile = tile;
    options.cut_k = cut;
    return cuda::MakeDevice(options);
  };
#else
  out.missing = [] { return "this build has no CUDA"; };
#endif
  return out;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const TestDevice& device) {
  return out << device.name;
}

std::vector<TestDevice> AllTestDevices() {
  return {Cpu(CpuIsa::kPortable), Cpu(CpuIsa::kAvx2),    Cpu(CpuIsa::kAvx512),
          OfModule("opencl"),     OpenClVariant("tile"), OpenClVariant("gpu"),
          OpenClVariant("part"),  OfModule("cuda"),      CudaTiles("tile128", 0),
          CudaTiles("tile64", 1), CudaTiles("tile32", 2)};
}

std::string WhyMissing(const std::string& name) {
  for (const TestDevice& device : AllTestDevices()) {
    if (device.name == name) return device.missing();
  }
  return "there is no test device of this name";
}

std::vector<TestDevice> KernelTestDevices() {
  std::vector<TestDevice> devices = AllTestDevices();
  std::erase_if(devices, [](const TestDevice& device) {
    return device.name == "opencl_tile" || device.name == "opencl_part" ||
           device.name == "cuda_tile128" || device.name == "cuda_tile64";
  });
  return devices;
}

std::vector<TestDevice> ProductTestDevices() {
  std::vector<TestDevice> devices = AllTestDevices();
  std::erase_if(devices, [](const TestDevice& device) { return device.name == "opencl_gpu"; });
  // The third of the fake GPUs has too little shared memory for a tree level of 128.
  devices.insert(devices.end(), {CudaTiles("ring128", 0, false), CudaTiles("ring128", 2, true),
                                 CudaTiles("ring64", 2), CudaTiles("ring32", 0, false),
                                 CudaTiles("ring32", 2, true)});
  return devices;
}

}  // namespace acan::test
