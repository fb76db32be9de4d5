// gpu_bench: copies through the device beside direct copies of pinned memory.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "acan/core/device.h"
#include "check.h"
#include "gpu_bare.h"
#include "gpu_parts.h"
#include "gpu_timing.h"
#include "handles.h"

namespace acan::cuda {

using nlohmann::json;

json Copies(const Sizes& sizes, std::size_t bytes, std::vector<bench::Figure>& figures) {
  const auto device = Make(sizes);
  const std::vector<std::byte> host(bytes, std::byte{1});
  const tuplespace::Payload payload = tuplespace::Payload::Copy(host.data(), host.size());
  const BufferPtr buffer = device->Upload(payload);
  const auto words = static_cast<std::int64_t>(bytes / 4);
  const PinnedBytes keep = NewPinned(bytes);
  void* const pinned = keep.get();
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "cudaMalloc", "cuda:0");
  const DeviceBytes keep_too(memory);
  const auto wait = [&] { device->Synchronize(); };
  const auto bare = [=](void* to, const void* from, cudaMemcpyKind kind) {
    return [=] { CopyBare(to, from, bytes, kind); };
  };
  Rates rates;
  json out = {{"bytes", bytes},
              {"gb_per_s",
               Compare(sizes,
                       {{"upload", [&] { device->Upload(payload); }, wait},
                        {"download",
                         [&] {
                           device->Download(buffer, {buffer.get(), 0, 1, words, words});
                         },
                         wait},
                        {"host_memcpy", [&] { std::memcpy(pinned, host.data(), bytes); }, [] {}},
                        {"bare_to_device", bare(memory, pinned, cudaMemcpyHostToDevice), wait},
                        {"bare_from_device", bare(pinned, memory, cudaMemcpyDeviceToHost), wait}},
                       1e-9 * static_cast<double>(bytes), rates)}};
  for (const auto& [way, limit] :
       {std::pair{"upload", "bare_to_device"}, std::pair{"download", "bare_from_device"}}) {
    const auto expected = bench::ExpectedOfCopy(way, static_cast<double>(bytes));
    if (!expected) continue;
    bench::Counters counters;
    if (std::strcmp(way, "upload") == 0) {
      counters["host_memcpy"] = std::min(1.0, rates["host_memcpy"] / rates[limit]);
    }
    figures.push_back({fmt::format("{} {}", way, bytes), rates[way], limit, rates[limit], *expected,
                       std::move(counters)});
  }
  return out;
}

}  // namespace acan::cuda
