// Proves that a device computes exact precision: a battery of small operations whose results must
// have the hashes that are written down in conformance.cpp.
#pragma once

#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan {

struct ConformanceResult {
  bool exact = false;            // every operation gave the bits it must
  std::string hash;              // SHA-256 over all operations' hashes, hex
  std::string first_difference;  // empty if exact; else the first operation that differs
};

struct OperationHash {
  std::string operation;  // "gemm forward ragged", "kBiasActivation gelu"
  std::string sha256;     // of the result bits, hex
};

// Runs every operation of the battery, in the order of the table: all kernels and the three
// products, ragged, with several leaves, and with zeros of both signs, denormals, infinities and
// NaN among the values. Holds less than 48 KiB of the device at once; some milliseconds on a CPU.
// Throws what the device throws.
std::vector<OperationHash> RunConformanceBattery(Device& device);

// The battery's products alone, which are its first operations.
std::vector<OperationHash> RunConformanceProducts(Device& device);

// Convolutions in one call (Device::Convolve, ConvolveBack, ConvolveWeights) beside the calls that
// they stand for. Empty if all have the same bits; else the first that differs, in words. Holds
// less than 48 KiB of the device at once. Throws what the device throws.
std::string ConformanceOfConvolutions(Device& device);

// The same of gradients over groups of rows (Device::GemmGroups).
std::string ConformanceOfGroups(Device& device);

// The battery against the table, its products in every way in which the device may compute them
// (Device::ExactWays), and convolutions and gradients over groups in one call. Throws what
// the device throws.
ConformanceResult RunConformance(Device& device);

// GFLOP/s of exact products, the best of a few runs in about 20 ms, of a size that the free part of
// the device's memory allows (not less than 48 KiB). Throws what the device throws.
double MeasureGflops(Device& device);

// GB/s (10^9) of copies between the host and the device, the best of a few of 16 MiB, or of what a
// quarter of the free memory allows. Throws what the device throws.
struct TransferRate {
  double upload_gb_s = 0;
  double download_gb_s = 0;
};
TransferRate MeasureTransfer(Device& device);

}  // namespace acan
