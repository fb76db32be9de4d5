#include "acan/handler/conformance.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <string_view>

#include "hex_sha256.h"

namespace acan {
namespace {

struct Golden {
  std::string_view operation;
  std::string_view sha256;
};

// The CPU backend produced these; the op matrix tests compare it with an independent scalar
// reference.
constexpr Golden kGolden[] = {
#include "conformance_table.inc"
};

// The first product that differs from the table in one of the device's implementations; empty if
// none does.
std::string DifferenceOfWays(Device& device) {
  struct AsAtFirst {
    Device& device;
    ~AsAtFirst() { device.UseExactWay(-1); }
  } const restore{device};
  const int ways = device.ExactWays();
  for (int way = 0; ways > 1 && way < ways; ++way) {
    device.UseExactWay(way);
    const std::vector<OperationHash> hashes = RunConformanceProducts(device);
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (hashes[i].sha256 == kGolden[i].sha256) continue;
      return hashes[i].operation + " in way " + std::to_string(way + 1) + " of " +
             std::to_string(ways);
    }
  }
  return "";
}

using Clock = std::chrono::steady_clock;

// Seconds of the fastest of `runs` exact products of edge x edge matrices.
double FastestProduct(Device& device, std::int64_t edge, int runs) {
  const auto bytes = static_cast<std::uint64_t>(edge * edge) * 4;
  std::array<BufferPtr, 3> buffers;
  std::array<Matrix, 3> m;
  for (std::size_t i = 0; i < 3; ++i) {
    buffers[i] = device.Allocate(bytes);
    m[i] = {buffers[i].get(), 0, edge, edge, edge};
    KernelArgs fill;
    fill.m[0] = m[i];
    fill.scalars.f[0] = 0.5f;
    device.Launch(Kernel::kFill, fill);
  }
  device.Synchronize();
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const auto begin = Clock::now();
    device.Gemm(GemmForm::kBackward, Precision::kExact, 64, m[0], m[1], m[2]);
    device.Synchronize();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return std::max(best, 1e-9);
}

}  // namespace

ConformanceResult RunConformance(Device& device) {
  const std::vector<OperationHash> hashes = RunConformanceBattery(device);
  ConformanceResult result;
  std::string all;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    all += hashes[i].sha256;
    const bool known = i < std::size(kGolden) && hashes[i].operation == kGolden[i].operation;
    if (result.first_difference.empty() && (!known || hashes[i].sha256 != kGolden[i].sha256)) {
      result.first_difference = hashes[i].operation;
    }
  }
  if (result.first_difference.empty()) result.first_difference = DifferenceOfWays(device);
  if (result.first_difference.empty()) {
    result.first_difference = ConformanceOfConvolutions(device);
  }
  if (result.first_difference.empty()) result.first_difference = ConformanceOfGroups(device);
  result.exact = result.first_difference.empty() && hashes.size() == std::size(kGolden);
  result.hash = HexSha256(std::as_bytes(std::span(all)));
  return result;
}

double MeasureGflops(Device& device) {
  constexpr double kRunSeconds = 0.004;
  const std::uint64_t free = device.budget().limit_bytes() - device.budget().used_bytes();
  std::int64_t edge = 64;
  double seconds = FastestProduct(device, edge, 3);
  const auto fits = [&](std::int64_t e) { return static_cast<std::uint64_t>(e * e) * 12 <= free; };
  const auto rate = [&] { return 2e-9 * static_cast<double>(edge * edge * edge) / seconds; };
  double best = rate();
  while (fits(2 * edge) && seconds * 8 < kRunSeconds && edge < 4096) {
    edge *= 2;
    seconds = FastestProduct(device, edge, 3);
    best = std::max(best, rate());
  }
  return best;
}

TransferRate MeasureTransfer(Device& device) {
  constexpr std::int64_t kMaxRows = 4096;
  constexpr std::int64_t kCols = 1024;
  const std::uint64_t free = device.budget().limit_bytes() - device.budget().used_bytes();
  const std::int64_t rows = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::min<std::uint64_t>(free, 1u << 30) / 4 / (4 * kCols)), 1,
      kMaxRows);
  const auto bytes = static_cast<std::size_t>(rows * kCols) * 4;
  // One row more than is copied, so that a device with host memory copies, too.
  const BufferPtr buffer = device.Allocate(bytes + 4 * kCols);
  const Matrix part{buffer.get(), 0, rows, kCols, kCols};
  tuplespace::Payload payload = tuplespace::Payload::Copy(std::string(bytes, '\1'));
  const auto rate = [&](const auto& copy) {
    double best = 1e30;
    for (int i = 0; i < 3; ++i) {
      const auto begin = Clock::now();
      copy();
      device.Synchronize();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return 1e-9 * static_cast<double>(bytes) / std::max(best, 1e-9);
  };
  TransferRate result;
  result.upload_gb_s = rate([&] { device.CopyIn(payload, part); });
  result.download_gb_s = rate([&] { payload = device.Download(buffer, part); });
  return result;
}

}  // namespace acan
