#include "gemm_bench.h"

#include <cblas.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "acan/cpu/cpu_device.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr double kFlopsPerRun = 5e8;  // small products are repeated up to this

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

nlohmann::json Summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"median", values[values.size() / 2]},
          {"min", values.front()},
          {"max", values.back()},
          {"repeats", values.size()}};
}

struct Operand {
  BufferPtr buffer;
  Matrix matrix;
};

Operand RandomMatrix(Device& device, std::int64_t rows, std::int64_t cols, std::int64_t tensor) {
  Operand out;
  out.buffer = device.Allocate(static_cast<std::uint64_t>(rows * cols) * 4);
  out.matrix = {out.buffer.get(), 0, rows, cols, cols};
  KernelArgs args;
  args.m[0] = out.matrix;
  args.scalars.f = {-1.0f, 1.0f};
  args.scalars.i = {1, tensor, 0, 0, cols};
  device.Launch(Kernel::kUniform, args);
  return out;
}

nlohmann::json RunCase(Device& device, GemmForm form, std::int64_t batch, std::int64_t width,
                       const GemmBenchOptions& options) {
  const clockid_t clock = options.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const Operand x = RandomMatrix(device, batch, width, 0);
  const Operand w = RandomMatrix(device, width, width, 1);
  const Operand y = RandomMatrix(device, batch, width, 2);
  const bool gradient = form == GemmForm::kGradient;
  const Matrix& a = form == GemmForm::kForward ? x.matrix : y.matrix;
  const Matrix& b = gradient ? x.matrix : w.matrix;
  const Matrix& c = gradient ? w.matrix : form == GemmForm::kForward ? y.matrix : x.matrix;
  const double flops = 2.0 * static_cast<double>(batch) * static_cast<double>(width * width);
  const int inner = std::max(1, static_cast<int>(kFlopsPerRun / flops));
  const auto gflops = [&](Precision precision) {
    const double begin = Seconds(clock);
    for (int i = 0; i < inner; ++i) device.Gemm(form, precision, kBlock, a, b, c);
    device.Synchronize();
    return 1e-9 * flops * inner / (Seconds(clock) - begin);
  };
  gflops(Precision::kExact);
  gflops(Precision::kFast);
  std::vector<double> exact;
  std::vector<double> openblas;
  std::vector<double> ratio;
  for (int i = 0; i < options.repeats; ++i) {
    exact.push_back(gflops(Precision::kExact));
    openblas.push_back(gflops(Precision::kFast));
    ratio.push_back(exact.back() / openblas.back());
  }
  constexpr std::array<const char*, 3> kForms{"forward", "backward", "gradient"};
  return {{"form", kForms[static_cast<std::size_t>(form)]},
          {"batch", batch},
          {"inputs", width},
          {"outputs", width},
          {"exact_gflops", Summary(exact)},
          {"openblas_gflops", Summary(openblas)},
          {"ratio", Summary(ratio)}};
}

}  // namespace

nlohmann::json RunGemmBench(const GemmBenchOptions& options) {
  if (options.repeats < 7) throw std::invalid_argument("repeats must be at least 7");
  for (const std::vector<std::int64_t>* sizes : {&options.batches, &options.widths}) {
    for (const std::int64_t size : *sizes) {
      if (size < 1 || size > 32768) {
        throw std::invalid_argument("batch and width must be 1 to 32768, not " +
                                    std::to_string(size));
      }
    }
  }
  const auto device = MakeCpuDevice({options.threads, std::uint64_t{1} << 36, std::nullopt});
  nlohmann::json out{{"clock", options.threads == 1 ? "thread CPU time" : "wall"},
                     {"isa", device->info().vector_isa},
                     {"openblas_core", openblas_get_corename()},
                     {"block", kBlock},
                     {"threads", options.threads},
                     {"cases", nlohmann::json::array()}};
  for (const std::int64_t batch : options.batches) {
    for (const std::int64_t width : options.widths) {
      for (const GemmForm form : {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient}) {
        out["cases"].push_back(RunCase(*device, form, batch, width, options));
      }
    }
  }
  return out;
}

}  // namespace acan::bench
