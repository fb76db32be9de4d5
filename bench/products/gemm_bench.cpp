#include "gemm_bench.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "acan/cpu/cpu_device.h"
#include "layer_shape.h"
#include "products/openblas.h"
#include "random_matrix.h"
#include "reference_gemm.h"
#include "summary.h"

namespace acan::bench {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kMaxSize = 32768;
constexpr double kFlopsPerRun = 5e8;  // small products are repeated up to this

double TimeOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t ParseSize(std::string_view text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 1 || size > kMaxSize) {
    throw std::invalid_argument("batches and layers must be 1 to " + std::to_string(kMaxSize) +
                                ", layers like 4096 or 784x4096, not '" + std::string(text) + "'");
  }
  return size;
}

// Throws std::invalid_argument.
LayerShape ParseLayerShape(std::string_view text) {
  const std::size_t cross = text.find('x');
  const std::int64_t inputs = ParseSize(text.substr(0, cross));
  if (cross == std::string_view::npos) return {inputs, inputs};
  return {inputs, ParseSize(text.substr(cross + 1))};
}

struct Shape {
  GemmForm form;
  std::int64_t batch;
  LayerShape layer;

  double Flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(layer.inputs * layer.outputs);
  }
  int Inner() const { return std::max(1, static_cast<int>(kFlopsPerRun / Flops())); }
};

// Runs `body` as often as kFlopsPerRun requires, and returns GFLOP/s.
template <typename Body>
double Gflops(const Shape& shape, clockid_t clock, const Body& body) {
  const double begin = TimeOf(clock);
  for (int i = 0; i < shape.Inner(); ++i) body();
  return 1e-9 * shape.Flops() * shape.Inner() / (TimeOf(clock) - begin);
}

// One product on one device, with its operands.
class Case {
 public:
  Case(Device& device, const Shape& shape, clockid_t clock)
      : device_(device),
        shape_(shape),
        clock_(clock),
        x_(RandomMatrix(device, shape.batch, shape.layer.inputs, 0)),
        w_(RandomMatrix(device, shape.layer.outputs, shape.layer.inputs, 1)),
        y_(RandomMatrix(device, shape.batch, shape.layer.outputs, 2)) {}

  double Run(Precision precision) {
    const bool gradient = shape_.form == GemmForm::kGradient;
    const bool forward = shape_.form == GemmForm::kForward;
    const Matrix& a = forward ? x_.matrix : y_.matrix;
    const Matrix& b = gradient ? x_.matrix : w_.matrix;
    const Matrix& c = gradient ? w_.matrix : forward ? y_.matrix : x_.matrix;
    device_.Synchronize();
    int left = shape_.Inner();
    return Gflops(shape_, clock_, [&] {
      device_.Gemm(shape_.form, precision, kBlock, a, b, c);
      if (--left == 0) device_.Synchronize();
    });
  }

 private:
  Device& device_;
  Shape shape_;
  clockid_t clock_;
  Operand x_, w_, y_;
};

std::vector<float> Numbers(std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(i * 2654435761u % 2048) / 1024.0f - 1.0f;
  }
  return out;
}

// The same product by a library, with its own operands.
class ReferenceCase {
 public:
  ReferenceCase(const Shape& shape, clockid_t clock, int threads)
      : shape_(shape),
        clock_(clock),
        threads_(threads),
        x_(Numbers(shape.batch * shape.layer.inputs)),
        w_(Numbers(shape.layer.outputs * shape.layer.inputs)),
        y_(Numbers(shape.batch * shape.layer.outputs)) {}

  double Run(const ReferenceLibrary& library) {
    const auto batch = static_cast<int>(shape_.batch);
    const auto inputs = static_cast<int>(shape_.layer.inputs);
    const auto outputs = static_cast<int>(shape_.layer.outputs);
    ReferenceProduct product{shape_.form, batch, outputs, inputs, x_.data(), w_.data(), y_.data()};
    if (shape_.form == GemmForm::kBackward) {
      product = {shape_.form, batch, inputs, outputs, y_.data(), w_.data(), x_.data()};
    } else if (shape_.form == GemmForm::kGradient) {
      product = {shape_.form, outputs, inputs, batch, y_.data(), x_.data(), w_.data()};
    }
    return Gflops(shape_, clock_, [&] { library.multiply(product, threads_); });
  }

 private:
  Shape shape_;
  clockid_t clock_;
  int threads_;
  std::vector<float> x_, w_, y_;
};

// The measurements of all turns, by their names in the result.
using Series = std::map<std::string, std::vector<double>>;

void RunTurn(Case& cpu, Case* other, ReferenceCase& reference,
             const std::vector<ReferenceLibrary>& libraries, Series& out) {
  const double exact = cpu.Run(Precision::kExact);
  out["exact_gflops"].push_back(exact);
  double best = 0;
  for (const ReferenceLibrary& library : libraries) {
    const double gflops = reference.Run(library);
    const std::string name(library.name);
    out[name + "_gflops"].push_back(gflops);
    out["to_" + name].push_back(exact / gflops);
    best = std::max(best, gflops);
  }
  out["to_best"].push_back(exact / best);
  if (other == nullptr) return;
  out["other_exact_gflops"].push_back(other->Run(Precision::kExact));
  out["other_ratio"].push_back(out["other_exact_gflops"].back() / exact);
  out["other_fast_gflops"].push_back(other->Run(Precision::kFast));
}

nlohmann::json RunCase(Device& device, const Shape& shape, const GemmBenchOptions& options) {
  const bool by_thread = options.threads == 1 && options.other == nullptr;
  const clockid_t clock = by_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const std::vector<ReferenceLibrary> libraries = ReferenceLibraries();
  Case cpu(device, shape, clock);
  ReferenceCase reference(shape, clock, options.threads);
  std::optional<Case> other;
  if (options.other != nullptr) other.emplace(*options.other, shape, clock);
  Case* const beside = other ? &*other : nullptr;
  Series warm_up;
  RunTurn(cpu, beside, reference, libraries, warm_up);
  Series series;
  for (int i = 0; i < options.repeats; ++i) RunTurn(cpu, beside, reference, libraries, series);
  constexpr std::array<const char*, 3> kForms{"forward", "backward", "gradient"};
  nlohmann::json out = {{"form", kForms[static_cast<std::size_t>(shape.form)]},
                        {"batch", shape.batch},
                        {"inputs", shape.layer.inputs},
                        {"outputs", shape.layer.outputs}};
  for (const auto& [name, values] : series) out[name] = Summary(values);
  return out;
}

}  // namespace

nlohmann::json RunGemmBench(const GemmBenchOptions& options) {
  if (options.repeats < 7) throw std::invalid_argument("repeats must be at least 7");
  std::vector<LayerShape> layers;
  for (const std::string& layer : options.layers) layers.push_back(ParseLayerShape(layer));
  for (const std::int64_t batch : options.batches) ParseSize(std::to_string(batch));
  const auto device = MakeCpuDevice({options.threads, std::uint64_t{1} << 36, std::nullopt});
  const bool by_thread = options.threads == 1 && options.other == nullptr;
  nlohmann::json out{{"clock", by_thread ? "thread CPU time" : "wall"},
                     {"isa", device->info().vector_isa},
                     {"openblas_core", cpu::OpenBlas().get_corename()},
                     {"block", kBlock},
                     {"threads", options.threads},
                     {"cases", nlohmann::json::array()}};
  if (options.other != nullptr) {
    const DeviceInfo& info = options.other->info();
    out["other"] = info.name + ": " + info.description;
  }
  for (const std::int64_t batch : options.batches) {
    for (const LayerShape& layer : layers) {
      for (const GemmForm form : {GemmForm::kForward, GemmForm::kBackward, GemmForm::kGradient}) {
        out["cases"].push_back(RunCase(*device, {form, batch, layer}, options));
      }
    }
  }
  return out;
}

}  // namespace acan::bench
