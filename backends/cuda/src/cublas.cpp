#include "cublas.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "acan/core/ieee_mode.h"
#include "acan/core/memory_budget.h"

namespace acan::cuda {
namespace {

// The library's functions, with the types of its header.
struct Library {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasGemmEx_64) gemm = nullptr;
  decltype(&cublasGetStatusName) status_name = nullptr;
  decltype(&cublasGetProperty) get_property = nullptr;
  std::string problem;
};

template <typename T>
void Find(void* library, const char* name, T& function, std::string& problem) {
  function = reinterpret_cast<T>(::dlsym(library, name));
  if (function == nullptr && problem.empty()) problem = fmt::format("it has no {}", name);
}

Library Load() {
  Library out;
  // Searches where the system does, then in the folder of this build's toolkit.
  const std::string name = fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR);
  const IeeeMode ieee;  // the library may leave another mode
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.problem = ::dlerror();
    library = ::dlopen((ACAN_CUDA_LIBRARY_FOLDER "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return out;
    out.problem.clear();
  }
  Find(library, "cublasCreate_v2", out.create, out.problem);
  Find(library, "cublasDestroy_v2", out.destroy, out.problem);
  Find(library, "cublasSetStream_v2", out.set_stream, out.problem);
  Find(library, "cublasSetWorkspace_v2", out.set_workspace, out.problem);
  Find(library, "cublasGemmEx_64", out.gemm, out.problem);
  Find(library, "cublasGetStatusName", out.status_name, out.problem);
  Find(library, "cublasGetProperty", out.get_property, out.problem);
  if (!out.problem.empty()) out.problem = name + ": " + out.problem;
  return out;
}

const Library& TheLibrary() {
  static const auto& library = *new Library(Load());  // never unloaded
  return library;
}

void CheckStatus(cublasStatus_t status, const char* call, const std::string& device) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text =
      fmt::format("{} on {}: {}", call, device, TheLibrary().status_name(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(text);
  // The device may be lost, which CUDA's own next call reports with better words.
  if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR) {
    Check(cudaDeviceSynchronize(), call, device);
  }
  throw std::runtime_error(text);
}

cublasComputeType_t ComputeTypeOf(FastMath math) {
  switch (math) {
    case FastMath::kTf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case FastMath::kBf16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case FastMath::kFp32:
      break;
  }
  return CUBLAS_COMPUTE_32F;
}

}  // namespace

std::string CublasProblem() {
  return TheLibrary().problem;
}

std::string CublasVersion() {
  if (!CublasProblem().empty()) return "";
  int parts[3] = {};
  for (const auto part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    TheLibrary().get_property(part, &parts[part]);
  }
  return fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
}

Cublas::Cublas(std::string device, cudaStream_t stream, FastMath math, void* workspace,
               std::uint64_t workspace_bytes)
    : device_(std::move(device)), math_(math) {
  cublasHandle_t handle = nullptr;
  CheckStatus(TheLibrary().create(&handle), "cublasCreate", device_);
  handle_ = handle;
  try {
    CheckStatus(TheLibrary().set_stream(handle, stream), "cublasSetStream", device_);
    // This comes after the stream, because setting the stream resets cuBLAS to its own workspace.
    CheckStatus(TheLibrary().set_workspace(handle, workspace, workspace_bytes),
                "cublasSetWorkspace", device_);
  } catch (...) {
    TheLibrary().destroy(handle);
    throw;
  }
}

Cublas::~Cublas() {
  TheLibrary().destroy(static_cast<cublasHandle_t>(handle_));
}

// cuBLAS is column-major, so for it a row-major c = a * b^T is c^T = b * a^T.
void Cublas::Run(const Product& p) {
  const bool a_k_first = p.a.k_stride != 1;
  const bool b_k_first = p.b.k_stride != 1;
  // For a single row or a single k the stride is meaningless, but cuBLAS checks it.
  const std::int64_t a_stride =
      a_k_first ? std::max(p.a.k_stride, p.m) : std::max(p.a.row_stride, p.k);
  const std::int64_t b_stride =
      b_k_first ? std::max(p.b.k_stride, p.n) : std::max(p.b.row_stride, p.k);
  const float one = 1.0f;
  const float zero = 0.0f;
  CheckStatus(TheLibrary().gemm(
                  static_cast<cublasHandle_t>(handle_), b_k_first ? CUBLAS_OP_N : CUBLAS_OP_T,
                  a_k_first ? CUBLAS_OP_T : CUBLAS_OP_N, p.n, p.m, p.k, &one, p.b.data, CUDA_R_32F,
                  b_stride, p.a.data, CUDA_R_32F, a_stride, &zero, p.c, CUDA_R_32F,
                  std::max(p.c_stride, p.n), ComputeTypeOf(math_), CUBLAS_GEMM_DEFAULT),
              "cublasGemmEx", device_);
}

}  // namespace acan::cuda
