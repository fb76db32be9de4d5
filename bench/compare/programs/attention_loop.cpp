// acan's exact attention on one thread, timed on request; attention.py runs it beside PyTorch.
//
//   attention_loop ISA SEQUENCES POSITIONS HEADS WIDTH CAUSAL
//
// For each line of standard input, it prints the seconds of processor time of one forward and one
// backward pass. Processor time is used because other processes may use the machine meanwhile.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <ctime>
#include <iostream>
#include <string>

#include "acan/cpu/cpu_device.h"

namespace acan::bench {
namespace {

struct Job {
  std::int64_t sequences, positions, heads, width, causal;
  std::int64_t rows() const { return sequences * positions; }
};

class Loop {
 public:
  Loop(CpuIsa isa, const Job& job)
      : device_(MakeCpuDevice({1, std::uint64_t{1} << 32, isa})), job_(job) {
    for (std::size_t i = 0; i < kMatrices; ++i) {
      const std::int64_t cols = i == kStatistics ? 2 * job.heads : job.heads * job.width;
      buffers_[i] = device_->Allocate(static_cast<std::uint64_t>(4 * job.rows() * cols));
      matrices_[i] = {buffers_[i].get(), 0, job.rows(), cols, cols};
      KernelArgs args;
      args.m[0] = matrices_[i];
      args.scalars = {.f = {-1.7f, 1.7f}, .i = {1, static_cast<std::int64_t>(i), 0, 0, cols}};
      device_->Launch(Kernel::kUniform, args);
    }
  }

  double Forward() {
    KernelArgs args;
    args.scalars = Scalars();
    args.m = {matrices_[kO], matrices_[kStatistics], matrices_[kQ], matrices_[kK], matrices_[kV]};
    return Seconds(Kernel::kAttention, args);
  }

  double Backward() {
    KernelArgs args;
    args.scalars = Scalars();
    args.m = {matrices_[kDq], matrices_[kDk], matrices_[kDv], matrices_[kQ],
              matrices_[kK],  matrices_[kV],  Matrix{},       matrices_[kStatistics],
              matrices_[kO],  matrices_[kDo]};
    return Seconds(Kernel::kAttentionGradient, args);
  }

 private:
  enum Which : std::size_t { kQ, kK, kV, kO, kDo, kDq, kDk, kDv, kStatistics, kMatrices };

  KernelScalars Scalars() const {
    const float scale = 1.0f / std::sqrt(static_cast<float>(job_.width));
    KernelScalars scalars{.f = {scale, 0.0f, 1.0f},
                          .i = {job_.causal, job_.positions, job_.positions, job_.heads, 1, 0, 0}};
    scalars.i[13] = 1;
    return scalars;
  }

  double Seconds(Kernel kernel, const KernelArgs& args) {
    const std::clock_t begin = std::clock();
    device_->Launch(kernel, args);
    device_->Synchronize();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }

  std::unique_ptr<Device> device_;
  Job job_;
  std::array<BufferPtr, kMatrices> buffers_;
  std::array<Matrix, kMatrices> matrices_;
};

int Main(int argc, char** argv) {
  const auto isa = argc == 7 ? ParseCpuIsa(argv[1]) : std::nullopt;
  if (!isa || !CpuIsaAvailable(*isa)) {
    std::cerr << "attention_loop ISA SEQUENCES POSITIONS HEADS WIDTH CAUSAL, with an ISA that is "
                 "here: avx512, avx2 or portable\n";
    return 2;
  }
  Loop loop(*isa, {std::stoll(argv[2]), std::stoll(argv[3]), std::stoll(argv[4]),
                   std::stoll(argv[5]), std::stoll(argv[6])});
  for (std::string line; std::getline(std::cin, line);) {
    const double forward = loop.Forward();
    std::cout << fmt::format("{} {}\n", forward, loop.Backward()) << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace acan::bench

int main(int argc, char** argv) {
  return acan::bench::Main(argc, argv);
}
