// gpu_bench: what cuda:0 computes and copies, as one JSON object. Exact products with each size of
// tiles and with the chosen one against cuBLAS in fp32; fast products through the device against
// bare calls of cuBLAS; copies through the device against bare copies of pinned memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "acan/core/operators/operators.h"
#include "acan/cuda/cuda_devices.h"
#include "check.h"
#include "clock.h"
#include "cublas.h"
#include "gemm_choice.h"
#include "handles.h"
#include "random_matrix.h"
#include "summary.h"

namespace acan::cuda {
namespace {

using bench::NowS;
using bench::RandomMatrix;
using nlohmann::json;

constexpr std::uint64_t kLimitBytes = std::uint64_t{6} << 30;
constexpr int kRepeats = 7;
constexpr double kLeastSeconds = 0.02;  // of one timing: clocks and launches matter less

// Seconds of one call, from as many as take long enough.
double Seconds(const std::function<void()>& call, const std::function<void()>& wait, int inner) {
  wait();
  const double begin = NowS();
  for (int i = 0; i < inner; ++i) call();
  wait();
  return (NowS() - begin) / inner;
}

struct Way {
  std::string name;
  std::function<void()> call;
  std::function<void()> wait;
};

// All ways in turn, so that a change of clocks meets all of them. Work over seconds.
json Compare(const std::vector<Way>& ways, double work) {
  std::map<std::string, std::vector<double>> rates;
  std::map<std::string, int> inner;
  for (const Way& way : ways) {
    Seconds(way.call, way.wait, 1);
    const double once = Seconds(way.call, way.wait, 1);
    inner[way.name] = std::max(1, static_cast<int>(kLeastSeconds / once));
  }
  for (int i = 0; i < kRepeats; ++i) {
    for (const Way& way : ways) {
      rates[way.name].push_back(work / Seconds(way.call, way.wait, inner[way.name]));
    }
  }
  json out;
  for (const auto& [name, values] : rates) out[name] = bench::Summary(values);
  return out;
}

std::unique_ptr<Device> Make(FastMath math, std::optional<GemmTile> tile) {
  DeviceOptions options;
  options.memory_limit_bytes = kLimitBytes;
  options.fast_math = math;
  options.tile = tile;
  return MakeDevice(options);
}

struct Shape {
  GemmForm form;
  std::int64_t m, n, k;
};

// One device with the three matrices of a product.
class OnDevice {
 public:
  OnDevice(std::unique_ptr<Device> device, const Shape& s)
      : device_(std::move(device)), form_(s.form) {
    const bool a_k_first = SumIndexComesFirst(s.form, 0);
    const bool b_k_first = SumIndexComesFirst(s.form, 1);
    a_ = RandomMatrix(*device_, a_k_first ? s.k : s.m, a_k_first ? s.m : s.k, 0);
    b_ = RandomMatrix(*device_, b_k_first ? s.k : s.n, b_k_first ? s.n : s.k, 1);
    c_ = RandomMatrix(*device_, s.m, s.n, 2);
  }
  Way As(const std::string& name, Precision precision) {
    return {
        name,
        [this, precision] { device_->Gemm(form_, precision, 64, a_.matrix, b_.matrix, c_.matrix); },
        [this] { device_->Synchronize(); }};
  }

 private:
  std::unique_ptr<Device> device_;
  GemmForm form_;
  bench::Operand a_, b_, c_;
};

// As random as acan's own operands are: what a GPU draws, and so how fast its clock is, depends on
// the bits that change.
void FillRandomly(float* memory, std::int64_t words) {
  static const std::vector<float> kDrawn = [] {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> unit(-1.0f, 1.0f);
    std::vector<float> out((1 << 20) + 7);  // no power of two: rows differ
    for (float& each : out) each = unit(random);
    return out;
  }();
  const auto most = static_cast<std::int64_t>(kDrawn.size());
  for (std::int64_t begin = 0; begin < words; begin += most) {
    const auto bytes = static_cast<std::size_t>(std::min(most, words - begin)) * 4;
    Check(cudaMemcpy(memory + begin, kDrawn.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy",
          "cuda:0");
  }
}

// cuBLAS without acan's device around it.
class Bare {
 public:
  Bare(const Shape& s, FastMath math) {
    const auto allocate = [](std::int64_t words) {
      void* memory = nullptr;
      Check(cudaMalloc(&memory, static_cast<std::size_t>(words) * 4), "cudaMalloc", "cuda:0");
      FillRandomly(static_cast<float*>(memory), words);
      return DeviceBytes(memory);
    };
    a_ = allocate(s.m * s.k);
    b_ = allocate(s.n * s.k);
    c_ = allocate(s.m * s.n);
    workspace_ = allocate(8 << 20);
    stream_ = NewStream("cuda:0");
    cublas_.emplace("cuda:0", stream_.get(), math, workspace_.get(), 32u << 20);
    const bool a_k_first = SumIndexComesFirst(s.form, 0);
    const bool b_k_first = SumIndexComesFirst(s.form, 1);
    const auto operand = [&](const DeviceBytes& memory, bool k_first, std::int64_t rows) {
      return Operand{static_cast<const float*>(memory.get()), k_first ? 1 : s.k,
                     k_first ? rows : 1};
    };
    product_ = {operand(a_, a_k_first, s.m),
                operand(b_, b_k_first, s.n),
                static_cast<float*>(c_.get()),
                s.n,
                s.m,
                s.n,
                s.k,
                64};
  }
  Way As(const std::string& name) {
    return {
        name, [this] { cublas_->Run(product_); },
        [this] { Check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", "cuda:0"); }};
  }

 private:
  DeviceBytes a_, b_, c_, workspace_;
  Stream stream_;
  std::optional<Cublas> cublas_;
  Product product_;
};

json Products(const Shape& s, int multiprocessors) {
  constexpr const char* kForms[] = {"forward", "backward", "gradient"};
  OnDevice chosen(Make(FastMath::kFp32, std::nullopt), s);
  OnDevice large(Make(FastMath::kFp32, GemmTile::k128), s);
  OnDevice middle(Make(FastMath::kFp32, GemmTile::k64), s);
  OnDevice small(Make(FastMath::kFp32, GemmTile::k32), s);
  std::vector<Way> ways = {
      chosen.As("exact", Precision::kExact), large.As("exact_128", Precision::kExact),
      middle.As("exact_64", Precision::kExact), small.As("exact_32", Precision::kExact)};
  std::vector<std::unique_ptr<OnDevice>> fast;
  std::vector<std::unique_ptr<Bare>> bare;
  if (CublasProblem().empty()) {
    const std::pair<const char*, FastMath> maths[] = {
        {"fp32", FastMath::kFp32}, {"tf32", FastMath::kTf32}, {"bf16", FastMath::kBf16}};
    for (const auto& [name, math] : maths) {
      fast.push_back(std::make_unique<OnDevice>(Make(math, std::nullopt), s));
      bare.push_back(std::make_unique<Bare>(s, math));
      ways.push_back(fast.back()->As(std::string("fast_") + name, Precision::kFast));
      ways.push_back(bare.back()->As(std::string("cublas_") + name));
    }
  }
  const double flops =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  json out = {{"form", kForms[static_cast<int>(s.form)]},
              {"m", s.m},
              {"n", s.n},
              {"k", s.k},
              {"chosen_tile", EdgeOf(ChooseTile(s.m, s.n, multiprocessors))},
              {"tflops", Compare(ways, 1e-12 * flops)}};
  if (CublasProblem().empty()) {
    out["exact_to_cublas_fp32"] = out["tflops"]["exact"]["median"].get<double>() /
                                  out["tflops"]["cublas_fp32"]["median"].get<double>();
  }
  return out;
}

json Copies(std::size_t bytes) {
  const auto device = Make(FastMath::kFp32, std::nullopt);
  const std::vector<std::byte> host(bytes, std::byte{1});
  const tuplespace::Payload payload = tuplespace::Payload::Copy(host.data(), host.size());
  const BufferPtr buffer = device->Upload(payload);
  const auto words = static_cast<std::int64_t>(bytes / 4);
  void* pinned = nullptr;
  Check(cudaHostAlloc(&pinned, bytes, cudaHostAllocDefault), "cudaHostAlloc", "cuda:0");
  const PinnedBytes keep(pinned);
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "cudaMalloc", "cuda:0");
  const DeviceBytes keep_too(memory);
  const auto wait = [&] { device->Synchronize(); };
  const auto bare = [=](void* to, const void* from, cudaMemcpyKind kind) {
    return [=] { Check(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy", "cuda:0"); };
  };
  return {{"bytes", bytes},
          {"gb_per_s",
           Compare({{"upload", [&] { device->Upload(payload); }, wait},
                    {"download",
                     [&] {
                       device->Download(buffer, {buffer.get(), 0, 1, words, words});
                     },
                     wait},
                    {"bare_to_device", bare(memory, pinned, cudaMemcpyHostToDevice), wait},
                    {"bare_from_device", bare(pinned, memory, cudaMemcpyDeviceToHost), wait}},
                   1e-9 * static_cast<double>(bytes))}};
}

json RunAll() {
  const DeviceList list = ListDevices();
  if (list.devices.empty()) throw std::runtime_error("no GPU: " + list.problem);
  const DeviceListing& device = list.devices.front();
  if (!device.unusable.empty()) throw std::runtime_error("no usable GPU: " + device.unusable);
  json out = {{"device", device.info.description},
              {"driver", device.driver},
              {"products", json::array()},
              {"copies", json::array()}};
  const GemmForm forms[] = {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient};
  for (const GemmForm form : forms) {
    out["products"].push_back(Products({form, 4096, 4096, 4096}, device.info.threads));
  }
  for (const Shape& s :
       {Shape{GemmForm::kForward, 512, 8192, 8192}, Shape{GemmForm::kBackward, 512, 8192, 8192},
        Shape{GemmForm::kGradient, 8192, 8192, 512}, Shape{GemmForm::kForward, 128, 1024, 1024},
        Shape{GemmForm::kForward, 512, 1024, 1024}, Shape{GemmForm::kGradient, 1024, 1024, 128}}) {
    out["products"].push_back(Products(s, device.info.threads));
  }
  for (const std::size_t bytes :
       {std::size_t{64} << 10, std::size_t{4} << 20, std::size_t{256} << 20}) {
    out["copies"].push_back(Copies(bytes));
  }
  return out;
}

}  // namespace
}  // namespace acan::cuda

int main() {
  try {
    std::cout << acan::cuda::RunAll().dump(2) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
}
