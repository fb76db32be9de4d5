// Stand-in for libcublas.so: computes products by plain loops, as work of the current stream. It
// overwrites the workspace, which nobody else may use, and checks arguments as cuBLAS does. Its
// bits differ from those of cuBLAS.
#include <cublas_v2.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "stream_face.h"

namespace {

struct Context {
  cuda_on_cpu::StreamFace* stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

Context* ContextOf(cublasHandle_t handle) {
  return reinterpret_cast<Context*>(handle);
}

// Rounds to the nearest number without the dropped mantissa bits, ties to even; keeps NaN and
// infinity.
float Rounded(float x, int dropped_bits) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  if (dropped_bits == 0 || (bits & 0x7f800000u) == 0x7f800000u) return x;
  const std::uint32_t half = 1u << (dropped_bits - 1);
  bits += half - 1 + (bits >> dropped_bits & 1u);
  return std::bit_cast<float>(bits >> dropped_bits << dropped_bits);
}

// Column-major, like cuBLAS.
struct Operand {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
  float At(std::int64_t row, std::int64_t col) const {
    return transposed ? data[row * stride + col] : data[col * stride + row];
  }
  // Bytes of a [rows, cols] matrix.
  std::size_t Bytes(std::int64_t rows, std::int64_t cols) const {
    const std::int64_t lines = transposed ? rows : cols;
    const std::int64_t length = transposed ? cols : rows;
    return static_cast<std::size_t>((lines - 1) * stride + length) * 4;
  }
};

struct Gemm {
  Operand a, b;
  float* c = nullptr;
  std::int64_t c_stride = 0, m = 0, n = 0, k = 0;
  int dropped_bits = 0;
  Context context;

  void Run(cuda_on_cpu::Toucher& toucher) const {
    const auto c_bytes = static_cast<std::size_t>((n - 1) * c_stride + m) * 4;
    if (!toucher.Reads(a.data, a.Bytes(m, k)) || !toucher.Reads(b.data, b.Bytes(k, n)) ||
        !toucher.Writes(c, c_bytes) ||
        !toucher.Writes(context.workspace, context.workspace_bytes)) {
      return;
    }
    std::memset(context.workspace, 0xff, context.workspace_bytes);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += Rounded(a.At(i, l), dropped_bits) * Rounded(b.At(l, j), dropped_bits);
        }
        c[j * c_stride + i] = sum;
      }
    }
  }
};

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(new Context);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete ContextOf(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  *ContextOf(handle) = {reinterpret_cast<cuda_on_cpu::StreamFace*>(stream), nullptr, 0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  ContextOf(handle)->workspace = workspace;
  ContextOf(handle)->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t a_form,
                               cublasOperation_t b_form, std::int64_t m, std::int64_t n,
                               std::int64_t k, const void* alpha, const void* a,
                               cudaDataType a_type, std::int64_t a_stride, const void* b,
                               cudaDataType b_type, std::int64_t b_stride, const void* beta,
                               void* c, cudaDataType c_type, std::int64_t c_stride,
                               cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool a_transposed = a_form == CUBLAS_OP_T;
  const bool b_transposed = b_form == CUBLAS_OP_T;
  if (a_type != CUDA_R_32F || b_type != CUDA_R_32F || c_type != CUDA_R_32F || m < 1 || n < 1 ||
      k < 1 || a_stride < (a_transposed ? k : m) || b_stride < (b_transposed ? n : k) ||
      c_stride < m || *static_cast<const float*>(alpha) != 1.0f ||
      *static_cast<const float*>(beta) != 0.0f) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Context& context = *ContextOf(handle);
  if (context.stream == nullptr || context.workspace == nullptr) return CUBLAS_STATUS_ALLOC_FAILED;
  Gemm gemm{{static_cast<const float*>(a), a_stride, a_transposed},
            {static_cast<const float*>(b), b_stride, b_transposed},
            static_cast<float*>(c),
            c_stride,
            m,
            n,
            k,
            0,
            context};
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) gemm.dropped_bits = 13;
  if (compute == CUBLAS_COMPUTE_32F_FAST_16BF) gemm.dropped_bits = 16;
  context.stream->Enqueue("cublasGemmEx",
                          [gemm](cuda_on_cpu::Toucher& toucher) { gemm.Run(toucher); });
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUBLAS_VER_MAJOR : 0;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
