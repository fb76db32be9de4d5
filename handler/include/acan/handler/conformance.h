// Proves that a device computes in exact precision: the results of a battery of small operations
// must have the hashes in conformance_table.inc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan {

// A device of this size can run the battery. Its own scratch memory, for packing, is included.
inline constexpr std::uint64_t kConformanceBytes = 64 << 10;

struct ConformanceResult {
  bool exact = false;            // every operation returned the right bits
  std::string hash;              // SHA-256 over all operations' hashes, hex
  std::string first_difference;  // empty if exact; otherwise the first operation that differs
};

struct OperationHash {
  std::string operation;  // "gemm forward ragged", "kBiasActivation gelu"
  std::string sha256;     // of the result bits, hex
};

// Runs every operation of the battery, in the order of the table: all kernels and the three
// products, with ragged shapes, several leaves, and values that include zeros of both signs,
// denormals, infinities and NaN. Needs at most kConformanceBytes of the device at once, with its
// own scratch memory on a CPU. Takes some milliseconds on a CPU. Throws what the device throws.
std::vector<OperationHash> RunConformanceBattery(Device& device);

// Runs only the battery's products, which are its first operations.
std::vector<OperationHash> RunConformanceProducts(Device& device);

// Compares convolutions in one call (Device::Convolve, ConvolveBack, ConvolveWeights) with the
// calls that they replace. Empty if all have the same bits; otherwise names the first that differs.
// Needs at most kConformanceBytes of the device at once. Throws what the device throws.
std::string ConformanceOfConvolutions(Device& device);

// The same for gradients over groups of rows (Device::GemmGroups), with every implementation of
// exact products. Afterwards the device chooses the implementations.
std::string ConformanceOfGroups(Device& device);

// Compares the battery with the table, its products with every implementation of the device
// (Device::ExactWays), and convolutions and gradients over groups with the calls that they replace.
// Throws what the device throws.
ConformanceResult RunConformance(Device& device);

// GFLOP/s of exact products: the best of a few runs in about 20 ms. Their size depends on the free
// part of the device's memory (at least 48 KiB). Throws what the device throws.
double MeasureGflops(Device& device);

// GB/s (10^9) of copies between the host and the device: the best of a few runs with 16 MiB, or
// with a quarter of the free memory if that is less. Throws what the device throws.
struct TransferRate {
  double upload_gb_s = 0;
  double download_gb_s = 0;
};
TransferRate MeasureTransfer(Device& device);

}  // namespace acan
