// acan's kernels on one core of the CPU, timed on request; kernels.py runs it beside PyTorch.
//
//   kernel_times ISA ROWS COLUMNS RUNS
//
// Each line of standard input names a kernel. The answer is the processor time in seconds of the
// fastest of RUNS runs, because other processes may use the machine meanwhile.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "acan/cpu/cpu_device.h"

namespace {

using namespace acan;  // NOLINT(google-build-using-namespace): a program of one file

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kHead = 64;
constexpr std::int64_t kWords = 32000;
// Images have kEdge x kEdge pixels, so that they fill the rows; kGroups groups of channels; windows
// of kWindow x kWindow.
constexpr std::int64_t kEdge = 16;
constexpr std::int64_t kGroups = 32;
constexpr std::int64_t kWindow = 7;
// A convolution of kImages images of kSide x kSide pixels and kChannels channels, with windows of 3
// x 3.
constexpr std::int64_t kImages = 8, kSide = 32, kChannels = 64;

double ProcessorSeconds() {
  std::timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Kernels {
 public:
  Kernels(CpuIsa isa, std::int64_t rows, std::int64_t cols)
      : device_(MakeCpuDevice({1, std::uint64_t{4} << 30, isa})), rows_(rows), cols_(cols) {
    Elements();
    Optimizers();
    RowKernels();
    Tables();
    CrossEntropy();
    BatchNorm();
    Images();
    Pooling();
    Convolution();
  }

  // The time of the fastest of `runs` runs; nullopt if there is no kernel of this name.
  std::optional<double> Seconds(const std::string& name, int runs) {
    const auto found = cases_.find(name);
    if (found == cases_.end()) return std::nullopt;
    found->second();
    double best = 1e30;
    for (int i = 0; i < runs; ++i) {
      const double begin = ProcessorSeconds();
      found->second();
      best = std::min(best, ProcessorSeconds() - begin);
    }
    return best;
  }

 private:
  Matrix Space(std::int64_t rows, std::int64_t cols) {
    buffers_.push_back(device_->Allocate(static_cast<std::uint64_t>(rows * cols) * 4));
    return {buffers_.back().get(), 0, rows, cols, cols};
  }
  Matrix Random(std::int64_t rows, std::int64_t cols) {
    std::vector<float> words(static_cast<std::size_t>(rows * cols));
    for (float& x : words) x = static_cast<float>(generator_() >> 8) * 0x1p-22f - 2.0f;
    return Fill(rows, cols, words.data());
  }
  Matrix Integers(std::int64_t rows, std::int64_t below) {
    std::vector<std::int32_t> words(static_cast<std::size_t>(rows));
    for (std::int32_t& x : words) x = static_cast<std::int32_t>(generator_() % below);
    return Fill(rows, 1, words.data());
  }
  Matrix Fill(std::int64_t rows, std::int64_t cols, const void* words) {
    const Matrix matrix = Space(rows, cols);
    device_->CopyIn(tuplespace::Payload::Copy(words, static_cast<std::size_t>(rows * cols) * 4),
                    matrix);
    return matrix;
  }

  void Run(Kernel kernel, const std::vector<Matrix>& m, const KernelScalars& scalars) {
    KernelArgs args;
    std::copy(m.begin(), m.end(), args.m.begin());
    args.scalars = scalars;
    device_->Launch(kernel, args);
  }
  void Add(const std::string& name, std::function<void()> run) {
    cases_.emplace(name, std::move(run));
  }
  void Add(const std::string& name, Kernel kernel, const std::vector<Matrix>& m,
           const KernelScalars& scalars) {
    Add(name, [=, this] { Run(kernel, m, scalars); });
  }

  void Elements() {
    const Matrix x = Random(rows_, cols_), y = Random(rows_, cols_), z = Random(rows_, cols_);
    const Matrix out = Space(rows_, cols_), other = Space(rows_, cols_);
    for (const ActivationRow& each : kActivations) {
      const KernelScalars scalars{.f = {6.0f}, .i = {static_cast<std::int64_t>(each.activation)}};
      const std::string word(each.word);
      Add(word, Kernel::kActivation, {out, x}, scalars);
      Add(word + " backward", Kernel::kActivationGradient, {out, y, x}, scalars);
    }
    Add("add", Kernel::kAdd, {out, x, y}, {});
    Add("multiply", Kernel::kMultiply, {out, x, y}, {});
    Add("scale", Kernel::kScale, {out, x}, {.f = {0.5f}, .i = {}});
    Add("fill", Kernel::kFill, {out}, {.f = {0.5f}, .i = {}});
    Add("transpose", Kernel::kTranspose, {Space(cols_, rows_), x}, {});
    Add("swiglu", Kernel::kSwiGlu, {out, x, y}, {});
    Add("swiglu backward", Kernel::kSwiGluGradient, {out, other, x, y, z}, {});
    Add("dropout", Kernel::kDropout, {out, x},
        {.f = {0.1f, 1.11111116f}, .i = {0, 1, 1, 0, 0, cols_, 1}});
  }

  void Optimizers() {
    const Matrix w = Random(rows_, cols_), g = Random(rows_, cols_);
    const Matrix m = Random(rows_, cols_), v = Space(rows_, cols_);
    Run(Kernel::kMultiply, {v, g, g}, {});
    Add("sgd", Kernel::kSgd, {w, w, g}, {.f = {1e-6f, 0.01f}, .i = {}});
    Add("momentum", Kernel::kMomentum, {w, m, w, m, g}, {.f = {1e-6f, 0.9f, 0.01f}, .i = {}});
    Add("adamw", Kernel::kAdamW, {w, m, v, w, m, v, g},
        {.f = {1e-6f, 0.1f, 0.001f, 1e-8f, 0.01f, 0.5f, 0.5f}, .i = {}});
  }

  void RowKernels() {
    const Matrix x = Random(rows_, cols_), dy = Random(rows_, cols_), out = Space(rows_, cols_);
    const Matrix scale = Random(1, cols_), bias = Random(1, cols_), statistics = Space(rows_, 2);
    const Matrix d_scale = Space(1, cols_), d_bias = Space(1, cols_), squares = Space(rows_, 1);
    const KernelScalars layer{.f = {1e-5f}, .i = {0}}, rms{.f = {1e-6f}, .i = {1}};
    const KernelScalars groups{.f = {}, .i = {kBlock, std::int64_t{1} << 30}};
    Run(Kernel::kNorm, {out, statistics, x, scale, bias}, layer);
    Add("layer norm", Kernel::kNorm, {out, statistics, x, scale, bias}, layer);
    Add("layer norm backward", [=, this] {
      Run(Kernel::kNormGradient, {out, x, statistics, dy, scale}, layer);
      Run(Kernel::kNormScaleGradient, {d_scale, d_bias, x, statistics, dy}, groups);
    });
    Add("rms norm", Kernel::kNorm, {out, statistics, x, scale}, rms);
    Add("rms norm backward", [=, this] {
      Run(Kernel::kNormGradient, {out, x, statistics, dy, scale}, rms);
      Run(Kernel::kNormScaleGradient, {d_scale, {}, x, statistics, dy}, groups);
    });
    Add("column sums", Kernel::kColumnDots, {d_bias, dy}, groups);
    Add("squares", Kernel::kRowSquares, {squares, x}, {});
  }

  void Tables() {
    const std::int64_t positions = std::min<std::int64_t>(rows_, 256);
    const Matrix x = Random(rows_, cols_), out = Space(rows_, cols_);
    const Matrix cosine = Random(positions, kHead / 2), sine = Random(positions, kHead / 2);
    const Matrix table = Random(kWords, cols_), d_table = Space(kWords, cols_);
    const Matrix index = Integers(rows_, kWords);
    Add("rotary", Kernel::kRotary, {out, x, cosine, sine}, {});
    Add("embedding", Kernel::kEmbedding, {out, index, table}, {});
    Add("embedding backward", Kernel::kEmbeddingGradient, {d_table, index, x},
        {.f = {}, .i = {kBlock, std::int64_t{1} << 30, 0, -1}});
  }

  void CrossEntropy() {
    const Matrix logits = Random(rows_, cols_), gradient = Space(rows_, cols_);
    const Matrix labels = Integers(rows_, cols_), largest = Space(rows_, 1);
    const Matrix column = Space(rows_, 1), sums = Space(rows_, 3);
    const Matrix loss = Space(rows_, 1), correct = Space(rows_, 1);
    Add("cross entropy", [=, this] {
      Run(Kernel::kClassMaxima, {largest, column, logits}, {});
      Run(Kernel::kClassSums, {sums, logits, largest, labels}, {});
      Run(Kernel::kCrossEntropyLoss, {loss, correct, sums, column, labels},
          {.f = {}, .i = {cols_, -100}});
      Run(Kernel::kCrossEntropyGradient, {gradient, logits, largest, sums, labels},
          {.f = {0.01f}, .i = {0, cols_, -100}});
    });
    Add("softmax cross entropy", Kernel::kSoftmaxCrossEntropy,
        {gradient, logits, labels, loss, correct}, {.f = {0.01f}, .i = {kBlock}});
  }

  void Images() {
    constexpr std::int64_t kPixels = kEdge * kEdge, kTaps = kWindow * kWindow;
    const std::int64_t samples = rows_ / kPixels, rows = samples * kPixels;
    const Matrix x = Random(rows, cols_), dy = Random(rows, cols_), out = Space(rows, cols_);
    const Matrix scale = Random(1, cols_), bias = Random(1, cols_);
    const Matrix statistics = Space(samples, 2 * kGroups), pooled = Random(samples, cols_);
    const Matrix d_scale = Space(1, cols_), d_bias = Space(1, cols_);
    const KernelScalars groups{.f = {1e-5f}, .i = {kPixels, kGroups}};
    Run(Kernel::kGroupNorm, {out, statistics, x, scale, bias}, groups);
    Add("group norm", Kernel::kGroupNorm, {out, statistics, x, scale, bias}, groups);
    Add("group norm backward", [=, this] {
      Run(Kernel::kGroupNormGradient, {out, x, statistics, dy, scale}, groups);
      Run(Kernel::kGroupNormScaleGradient, {d_scale, d_bias, x, statistics, dy},
          {.f = {}, .i = {kBlock, kPixels, kPixels, kGroups}});
    });
    const KernelScalars positions{.f = {}, .i = {kPixels}};
    Add("global average", Kernel::kGlobalAveragePooling, {pooled, x},
        {.f = {}, .i = {kBlock, kPixels}});
    Add("global maximum", Kernel::kGlobalMaxPooling, {pooled, x}, positions);
    Add("global average backward", Kernel::kGlobalAveragePoolingGradient, {out, {}, pooled},
        positions);
    const Matrix weight = Random(kTaps, cols_), d_weight = Space(kTaps, cols_);
    const KernelScalars window{
        .f = {},
        .i = {kEdge, kEdge, kWindow, kWindow, 1, 1, kWindow / 2, kWindow / 2, kBlock, kPixels}};
    Add("depthwise", Kernel::kDepthwise, {out, x, weight}, window);
    Add("depthwise backward", [=, this] {
      Run(Kernel::kDepthwiseInputGradient, {out, dy, weight}, window);
      Run(Kernel::kDepthwiseWeightGradient, {d_weight, x, dy}, window);
    });
    Add("bias residual", Kernel::kBiasResidual, {out, x, bias, dy}, {});
  }

  // The calls to which a batch norm is lowered, without those on a single row of statistics.
  void BatchNorm() {
    const Matrix x = Random(rows_, cols_), dy = Random(rows_, cols_), out = Space(rows_, cols_);
    const Matrix scale = Random(1, cols_), bias = Random(1, cols_);
    const Matrix statistics = Space(2, cols_);
    const Matrix mean{statistics.buffer, 0, 1, cols_, cols_};
    const Matrix inverse{statistics.buffer, cols_, 1, cols_, cols_};
    const Matrix d_scale = Space(1, cols_), d_bias = Space(1, cols_);
    const KernelScalars groups{.f = {}, .i = {kBlock, kBlock}};
    const KernelScalars count{.f = {static_cast<float>(rows_)}, .i = {}};
    const auto forward = [=, this] {
      Run(Kernel::kColumnDots, {mean, x}, groups);
      Run(Kernel::kDivide, {mean, mean}, count);
      Run(Kernel::kColumnSquares, {inverse, x, mean}, groups);
      Run(Kernel::kDivide, {inverse, inverse}, count);
      Run(Kernel::kInverseRoot, {inverse, inverse}, {.f = {1e-5f}, .i = {}});
      Run(Kernel::kColumnNorm, {out, x, statistics, scale, bias}, {});
    };
    forward();
    Add("batch norm", forward);
    Add("batch norm backward", [=, this] {
      Run(Kernel::kColumnNormSums, {d_scale, d_bias, x, statistics, dy}, groups);
      Run(Kernel::kDivide, {d_scale, d_scale}, count);
      Run(Kernel::kDivide, {d_bias, d_bias}, count);
      Run(Kernel::kColumnNormGradient, {out, x, statistics, dy, scale, d_scale, d_bias}, {});
    });
  }

  void Pooling() {
    const std::int64_t samples = rows_ / (kEdge * kEdge), rows = samples * kEdge * kEdge;
    const Matrix x = Random(rows, cols_), dx = Space(rows, cols_);
    const Matrix out = Space(rows / 4, cols_), dy = Random(rows / 4, cols_);
    const KernelScalars three{.f = {}, .i = {kEdge, kEdge, 3, 3, 2, 2, 1, 1}};
    const KernelScalars two{.f = {}, .i = {kEdge, kEdge, 2, 2, 2, 2, 0, 0}};
    Add("maximum pooling", Kernel::kMaxPooling, {out, x}, three);
    Add("maximum pooling backward", Kernel::kMaxPoolingGradient, {dx, x, dy}, three);
    Add("average pooling", Kernel::kAveragePooling, {out, x}, two);
    Add("average pooling backward", Kernel::kAveragePoolingGradient, {dx, dy}, two);
  }

  void Convolution() {
    const std::int64_t rows = kImages * kSide * kSide, depth = 9 * kChannels;
    const Matrix x = Random(rows, kChannels), dy = Random(rows, kChannels);
    const Matrix unfolded = Space(rows, depth), weight = Random(kChannels, depth);
    const Matrix out = Space(rows, kChannels), d_weight = Space(kChannels, depth);
    const KernelScalars window{.f = {}, .i = {kSide, kSide, 3, 3, 1, 1, 1, 1}};
    Run(Kernel::kUnfold, {unfolded, x}, window);
    Add("unfold", Kernel::kUnfold, {unfolded, x}, window);
    Add("fold", Kernel::kFold, {out, unfolded}, window);
    const auto args = [=](const Matrix& left, const Matrix& right) {
      KernelArgs all;
      all.m[0] = left;
      all.m[1] = right;
      all.scalars = window;
      return all;
    };
    Add("convolution", [=, this] {
      device_->Convolve(Precision::kExact, kBlock, args(unfolded, x), weight, out, nullptr);
    });
    Add("convolution backward", [=, this] {
      device_->ConvolveBack(Precision::kExact, kBlock, dy, weight, args(out, unfolded));
      if (device_->ConvolveWeights(Precision::kExact, kBlock, kSide * kSide, args(unfolded, x), dy,
                                   d_weight)) {
        return;
      }
      Run(Kernel::kUnfold, {unfolded, x}, window);
      device_->Gemm(GemmForm::kGradient, Precision::kExact, kBlock, dy, unfolded, d_weight);
    });
  }

  std::unique_ptr<Device> device_;
  std::int64_t rows_, cols_;
  std::mt19937 generator_{1};
  std::vector<BufferPtr> buffers_;
  std::map<std::string, std::function<void()>> cases_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto isa = argc == 5 ? ParseCpuIsa(argv[1]) : std::nullopt;
  if (!isa || !CpuIsaAvailable(*isa)) {
    std::cerr << "kernel_times ISA ROWS COLUMNS RUNS, with an ISA that is here: avx512, avx2 or "
                 "portable\n";
    return 2;
  }
  Kernels kernels(*isa, std::atoll(argv[2]), std::atoll(argv[3]));
  for (std::string name; std::getline(std::cin, name);) {
    const std::optional<double> seconds = kernels.Seconds(name, std::atoi(argv[4]));
    if (!seconds) {
      std::cerr << "kernel_times: there is no kernel " << name << '\n';
      return 2;
    }
    std::printf("%.9f\n", *seconds);
    std::fflush(stdout);
  }
  return 0;
}
