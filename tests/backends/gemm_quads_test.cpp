// The CUDA backend's exact products, run without a GPU: the source that nvcc compiles, with the
// sizes of each .cu file, compiled as OpenCL C and held against the definition, bit by bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "platform.h"
#include "reference.h"
#include "session.h"

namespace acan::opencl {
namespace {

using test::Difference;
using test::GemmReference;
using test::Host;
using test::Random;

const std::string kKernels = ACAN_TEST_KERNELS;  // backends/

std::string ReadText(const std::string& path) {
  std::ifstream file(kKernels + path);
  EXPECT_TRUE(file) << kKernels + path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The sizes, from the file that nvcc compiles.
std::string Sizes(int edge) {
  std::stringstream file(ReadText(fmt::format("cuda/kernels/gemm_{}.cu", edge)));
  std::string out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#define")) out += line + "\n";
  }
  return out;
}

constexpr const char* kWrapper = R"(
__kernel __attribute__((reqd_work_group_size(ACAN_QUAD_THREADS, 1, 1))) void acan_gemm(
    const __global float* a, acan_i64 a_offset, acan_i64 a_row, acan_i64 a_k,
    const __global float* b, acan_i64 b_offset, acan_i64 b_row, acan_i64 b_k, __global float* c,
    acan_i64 c_offset, acan_i64 c_stride, acan_i64 m, acan_i64 n, acan_i64 k, int block) {
  __local __attribute__((aligned(16))) float tiles[ACAN_QUAD_WORDS];
  const acan_quad_operand left = {a + a_offset, a_row, a_k, m};
  const acan_quad_operand right = {b + b_offset, b_row, b_k, n};
  acan_gemm_quads(&left, &right, ACAN_TEST_A_K_FIRST, ACAN_TEST_B_K_FIRST, ACAN_TEST_VECTOR,
                  c + c_offset, c_stride, k, block, get_group_id(1), get_group_id(0),
                  (int)get_local_id(0), tiles);
}
)";

struct Case {
  std::int64_t m, n, k, block;
  std::int64_t pad;     // words between the rows of every matrix
  std::int64_t offset;  // of every matrix in its buffer
};

// Edges that no tile divides, leaves of every remainder, one and many levels of the tree.
const Case kAligned[] = {
    {4, 4, 8, 16, 0, 0},       {132, 136, 64, 64, 0, 0},  {128, 256, 200, 64, 4, 8},
    {68, 260, 1044, 16, 8, 4}, {36, 20, 4104, 32, 0, 16}, {256, 128, 512, 128, 0, 0},
    {4, 8, 4096, 16, 0, 0},  // 256 leaves: the most of the larger tiles
};
const Case kAny[] = {
    {1, 1, 1, 16, 0, 0},      {3, 130, 7, 16, 1, 3},    {129, 5, 65, 64, 0, 1},
    {67, 131, 300, 32, 3, 2}, {33, 31, 1031, 16, 0, 5}, {130, 129, 129, 64, 1, 0},
};

class QuadsTest : public ::testing::TestWithParam<std::tuple<int, GemmForm>> {
 protected:
  void SetUp() override {
    std::string problem;
    std::vector<Candidate> found = FindDevices(problem);
    if (found.empty() || !found[0].listing.unusable.empty()) {
      GTEST_SKIP() << "opencl:0 cannot be used here, CUDA's products are not tested: "
                   << (found.empty() ? problem : found[0].listing.unusable);
    }
    session_.emplace(std::move(found[0]), std::nullopt, false, "");
  }

  void Build(bool vector) {
    const auto& [edge, form] = GetParam();
    edge_ = edge;
    form_ = form;
    const std::string text = "#define ACAN_FLOAT4 float4\n#define ACAN_NO_UNROLL\n" + Sizes(edge) +
                             ReadText("kernels/include/acan/kernels/gemm_quads.h") + kWrapper;
    const bool a_k_first = form == GemmForm::kGradient;
    const bool b_k_first = form != GemmForm::kForward;
    // As GemmKernel in gemm.cuh: constants where quads are aligned.
    const std::string macros =
        vector ? fmt::format(
                     " -DACAN_TEST_VECTOR=1 -DACAN_TEST_A_K_FIRST={:d} -DACAN_TEST_B_K_FIRST={:d}",
                     a_k_first, b_k_first)
               : std::string(
                     " -DACAN_TEST_VECTOR=0 -DACAN_TEST_A_K_FIRST=(a_k!=1) "
                     "-DACAN_TEST_B_K_FIRST=(b_k!=1)");
    program_ = session_->Build(text, macros);
    kernel_ = session_->KernelOf(program_, "acan_gemm");
  }

  struct Placed {
    Memory memory;
    cl_long offset = 0, stride = 0;
    cl_mem get() const { return memory.get(); }
  };

  Placed Put(const Host& host, const Case& s) const {
    Placed out;
    out.offset = s.offset;
    out.stride = host.cols + s.pad;
    const auto words = static_cast<std::size_t>(s.offset + host.rows * out.stride);
    // What lies between the rows must not be used: it is NaN.
    std::vector<float> image(words, std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t r = 0; r < host.rows; ++r) {
      for (std::int64_t c = 0; c < host.cols; ++c) {
        image[static_cast<std::size_t>(s.offset + r * out.stride + c)] = host.at(r, c);
      }
    }
    out.memory = session_->NewMemory(CL_MEM_READ_WRITE, words * 4);
    Check(clEnqueueWriteBuffer(session_->queue(), out.get(), CL_TRUE, 0, words * 4, image.data(), 0,
                               nullptr, nullptr),
          "clEnqueueWriteBuffer", session_->name());
    return out;
  }

  Host Fetch(const Placed& placed, std::int64_t rows, std::int64_t cols) const {
    std::vector<float> image(static_cast<std::size_t>(placed.offset + rows * placed.stride));
    Check(clEnqueueReadBuffer(session_->queue(), placed.get(), CL_TRUE, 0, image.size() * 4,
                              image.data(), 0, nullptr, nullptr),
          "clEnqueueReadBuffer", session_->name());
    Host out(rows, cols);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) - placed.offset;
      const bool inside = at >= 0 && at % placed.stride < cols;
      if (inside) out.at(at / placed.stride, at % placed.stride) = image[i];
      // Nothing beside c was written.
      EXPECT_TRUE(inside || std::isnan(image[i])) << "word " << i;
    }
    return out;
  }

  Host Product(const Case& s, const Host& a, const Host& b) const {
    const Placed left = Put(a, s);
    const Placed right = Put(b, s);
    const Placed result = Put(Random(s.m, s.n, 99), s);
    const bool a_k_first = form_ == GemmForm::kGradient;
    const bool b_k_first = form_ != GemmForm::kForward;
    const auto strides = [](const Placed& p, bool k_first) {
      return std::pair<cl_long, cl_long>(k_first ? 1 : p.stride, k_first ? p.stride : 1);
    };
    const auto [a_row, a_k] = strides(left, a_k_first);
    const auto [b_row, b_k] = strides(right, b_k_first);
    session_->SetArgs(kernel_, left.get(), left.offset, a_row, a_k, right.get(), right.offset,
                      b_row, b_k, result.get(), result.offset, result.stride, cl_long{s.m},
                      cl_long{s.n}, cl_long{s.k}, static_cast<cl_int>(s.block));
    const auto tiles = [&](std::int64_t size) {
      return static_cast<std::size_t>((size + edge_ - 1) / edge_);
    };
    const auto threads = static_cast<std::size_t>(2 * edge_);
    session_->Run(kernel_, "gemm", {tiles(s.n) * threads, tiles(s.m)}, {threads, 1});
    session_->Finish();
    return Fetch(result, s.m, s.n);
  }

  Host Left(const Case& s) const {
    return form_ == GemmForm::kGradient ? Random(s.k, s.m, 1) : Random(s.m, s.k, 1);
  }
  Host Right(const Case& s) const {
    return form_ == GemmForm::kForward ? Random(s.n, s.k, 2) : Random(s.k, s.n, 2);
  }

  std::optional<Session> session_;
  Program program_;
  ClKernel kernel_;
  int edge_ = 0;
  GemmForm form_ = GemmForm::kForward;
};

TEST_P(QuadsTest, AlignedProductsEqualTheDefinition) {
  Build(true);
  for (const Case& s : kAligned) {
    // Rows of operands with k first must come in fours too; m and n of these cases do.
    const Host a = Left(s);
    const Host b = Right(s);
    EXPECT_EQ(Difference(Product(s, a, b), GemmReference(form_, s.block, a, b)), "")
        << s.m << " x " << s.n << " x " << s.k << ", block " << s.block;
  }
}

TEST_P(QuadsTest, AnyProductsEqualTheDefinition) {
  Build(false);
  for (const Case& s : kAny) {
    const Host a = Left(s);
    const Host b = Right(s);
    EXPECT_EQ(Difference(Product(s, a, b), GemmReference(form_, s.block, a, b)), "")
        << s.m << " x " << s.n << " x " << s.k << ", block " << s.block;
  }
}

TEST_P(QuadsTest, SpecialValuesAreKept) {
  Build(false);
  const Case s{18, 37, 150, 64, 0, 0};
  Host a = Left(s);
  Host b = Right(s);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[] = {kInfinity, -kInfinity, std::nanf("7"), 1e-42f, -0.0f, 3e38f, 0.0f};
  for (std::size_t i = 0; i < std::size(values); ++i) {
    a.v[i * 101 + 3] = values[i];
    b.v[i * 211 + 5] = values[(i * 3) % std::size(values)];
  }
  // A row of zeros times negative numbers: the sums are -0 or 0 by their order alone.
  for (std::int64_t k = 0; k < s.k; ++k) {
    (form_ == GemmForm::kGradient ? a.at(k, 0) : a.at(0, k)) = -0.0f;
  }
  EXPECT_EQ(Difference(Product(s, a, b), GemmReference(form_, s.block, a, b)), "");
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<int, GemmForm>>& info) {
  constexpr const char* kForms[] = {"forward", "backward", "gradient"};
  return fmt::format("tile{}_{}", std::get<0>(info.param),
                     kForms[static_cast<int>(std::get<1>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(Cuda, QuadsTest,
                         ::testing::Combine(::testing::Values(128, 64, 32),
                                            ::testing::Values(GemmForm::kForward,
                                                              GemmForm::kBackward,
                                                              GemmForm::kGradient)),
                         NameOf);

}  // namespace
}  // namespace acan::opencl
