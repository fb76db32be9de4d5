#include "gemm_bench.h"

#include <cblas.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "acan/cpu/cpu_device.h"
#include "summary.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr double kFlopsPerRun = 5e8;  // small products are repeated up to this

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
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

// One product on one device, with its operands.
class Case {
 public:
  Case(Device& device, GemmForm form, std::int64_t batch, std::int64_t width, clockid_t clock)
      : device_(device),
        form_(form),
        clock_(clock),
        x_(RandomMatrix(device, batch, width, 0)),
        w_(RandomMatrix(device, width, width, 1)),
        y_(RandomMatrix(device, batch, width, 2)),
        flops_(2.0 * static_cast<double>(batch) * static_cast<double>(width * width)) {
    Gflops(Precision::kExact);
    Gflops(Precision::kFast);
  }

  double Gflops(Precision precision) {
    const bool gradient = form_ == GemmForm::kGradient;
    const bool forward = form_ == GemmForm::kForward;
    const Matrix& a = forward ? x_.matrix : y_.matrix;
    const Matrix& b = gradient ? x_.matrix : w_.matrix;
    const Matrix& c = gradient ? w_.matrix : forward ? y_.matrix : x_.matrix;
    const int inner = std::max(1, static_cast<int>(kFlopsPerRun / flops_));
    device_.Synchronize();
    const double begin = Seconds(clock_);
    for (int i = 0; i < inner; ++i) device_.Gemm(form_, precision, kBlock, a, b, c);
    device_.Synchronize();
    return 1e-9 * flops_ * inner / (Seconds(clock_) - begin);
  }

 private:
  Device& device_;
  GemmForm form_;
  clockid_t clock_;
  Operand x_, w_, y_;
  double flops_;
};

nlohmann::json RunCase(Device& device, GemmForm form, std::int64_t batch, std::int64_t width,
                       const GemmBenchOptions& options) {
  const bool by_thread = options.threads == 1 && options.other == nullptr;
  const clockid_t clock = by_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  Case cpu(device, form, batch, width, clock);
  std::optional<Case> other;
  if (options.other != nullptr) other.emplace(*options.other, form, batch, width, clock);
  std::vector<double> exact, openblas, ratio, other_exact, other_fast, other_ratio;
  for (int i = 0; i < options.repeats; ++i) {
    exact.push_back(cpu.Gflops(Precision::kExact));
    if (other) {
      other_exact.push_back(other->Gflops(Precision::kExact));
      other_ratio.push_back(other_exact.back() / exact.back());
      other_fast.push_back(other->Gflops(Precision::kFast));
    }
    openblas.push_back(cpu.Gflops(Precision::kFast));
    ratio.push_back(exact.back() / openblas.back());
  }
  constexpr std::array<const char*, 3> kForms{"forward", "backward", "gradient"};
  nlohmann::json out = {{"form", kForms[static_cast<std::size_t>(form)]},
                        {"batch", batch},
                        {"inputs", width},
                        {"outputs", width},
                        {"exact_gflops", Summary(exact)},
                        {"openblas_gflops", Summary(openblas)},
                        {"ratio", Summary(ratio)}};
  if (other) {
    out["other_exact_gflops"] = Summary(other_exact);
    out["other_fast_gflops"] = Summary(other_fast);
    out["other_ratio"] = Summary(other_ratio);
  }
  return out;
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
  const bool by_thread = options.threads == 1 && options.other == nullptr;
  nlohmann::json out{{"clock", by_thread ? "thread CPU time" : "wall"},
                     {"isa", device->info().vector_isa},
                     {"openblas_core", openblas_get_corename()},
                     {"block", kBlock},
                     {"threads", options.threads},
                     {"cases", nlohmann::json::array()}};
  if (options.other != nullptr) {
    const DeviceInfo& info = options.other->info();
    out["other"] = info.name + ": " + info.description;
  }
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
