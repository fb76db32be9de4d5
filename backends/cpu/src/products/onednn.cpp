#include "products/onednn.h"

#include <fmt/format.h>

#include <cassert>
#include <stdexcept>

#if !defined(ACAN_ONEDNN)

namespace acan::cpu {

std::string OneDnnProblem() {
  return "this program was built without oneDNN's headers (Debian: libdnnl-dev)";
}
std::string OneDnnVersion() {
  return "";
}
std::string OneDnnIsa() {
  return "";
}
bool OneDnnHasBf16() {
  return false;
}
void OneDnnMultiply(const OneDnnProduct&, int) {
  throw std::runtime_error(OneDnnProblem());
}
void OneDnnMultiplyBf16(const OneDnnProduct&, int) {
  throw std::runtime_error(OneDnnProblem());
}

}  // namespace acan::cpu

#else

#include <dlfcn.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <array>
#include <memory>
#include <type_traits>
#include <vector>

#include "acan/core/ieee_mode.h"

namespace acan::cpu {
namespace {

// The library's functions, with the types of its header.
struct Library {
  decltype(&dnnl_version) version = nullptr;
  decltype(&dnnl_status2str) status_text = nullptr;
  decltype(&dnnl_get_effective_cpu_isa) isa = nullptr;
  decltype(&dnnl_sgemm) sgemm = nullptr;
  decltype(&dnnl_engine_create) engine_create = nullptr;
  decltype(&dnnl_stream_create) stream_create = nullptr;
  decltype(&dnnl_stream_wait) stream_wait = nullptr;
  decltype(&dnnl_stream_destroy) stream_destroy = nullptr;
  decltype(&dnnl_memory_desc_init_by_strides) memory_desc_init = nullptr;
  decltype(&dnnl_memory_create) memory_create = nullptr;
  decltype(&dnnl_memory_destroy) memory_destroy = nullptr;
  decltype(&dnnl_matmul_desc_init) matmul_desc_init = nullptr;
  decltype(&dnnl_primitive_desc_create) primitive_desc_create = nullptr;
  decltype(&dnnl_reorder_primitive_desc_create) reorder_desc_create = nullptr;
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy = nullptr;
  decltype(&dnnl_primitive_create) primitive_create = nullptr;
  decltype(&dnnl_primitive_execute) primitive_execute = nullptr;
  decltype(&dnnl_primitive_destroy) primitive_destroy = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;  // of the OpenMP library that oneDNN is linked with
  dnnl_engine_t engine = nullptr;              // the CPU; never released
  std::string problem;
};

template <typename T>
void Find(void* library, const char* name, T& function, std::string& problem) {
  function = reinterpret_cast<T>(::dlsym(library, name));
  if (function == nullptr && problem.empty()) problem = fmt::format("it has no {}", name);
}

void FindAll(void* library, Library& out) {
  Find(library, "dnnl_version", out.version, out.problem);
  Find(library, "dnnl_status2str", out.status_text, out.problem);
  Find(library, "dnnl_get_effective_cpu_isa", out.isa, out.problem);
  Find(library, "dnnl_sgemm", out.sgemm, out.problem);
  Find(library, "dnnl_engine_create", out.engine_create, out.problem);
  Find(library, "dnnl_stream_create", out.stream_create, out.problem);
  Find(library, "dnnl_stream_wait", out.stream_wait, out.problem);
  Find(library, "dnnl_stream_destroy", out.stream_destroy, out.problem);
  Find(library, "dnnl_memory_desc_init_by_strides", out.memory_desc_init, out.problem);
  Find(library, "dnnl_memory_create", out.memory_create, out.problem);
  Find(library, "dnnl_memory_destroy", out.memory_destroy, out.problem);
  Find(library, "dnnl_matmul_desc_init", out.matmul_desc_init, out.problem);
  Find(library, "dnnl_primitive_desc_create", out.primitive_desc_create, out.problem);
  Find(library, "dnnl_reorder_primitive_desc_create", out.reorder_desc_create, out.problem);
  Find(library, "dnnl_primitive_desc_destroy", out.primitive_desc_destroy, out.problem);
  Find(library, "dnnl_primitive_create", out.primitive_create, out.problem);
  Find(library, "dnnl_primitive_execute", out.primitive_execute, out.problem);
  Find(library, "dnnl_primitive_destroy", out.primitive_destroy, out.problem);
  // dlsym on a library also searches the libraries that it was linked with.
  Find(library, "omp_set_num_threads", out.omp_set_num_threads, out.problem);
}

Library Load() {
  Library out;
  const std::string name = fmt::format("libdnnl.so.{}", DNNL_VERSION_MAJOR);
  const IeeeMode ieee;  // the library may leave another mode
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.problem = ::dlerror();
    return out;
  }
  FindAll(library, out);
  // Structures have the layout of the header, which is valid for one major version.
  if (out.problem.empty() && out.version()->major != DNNL_VERSION_MAJOR) {
    out.problem = fmt::format("it is version {}, this program was built for {}",
                              out.version()->major, DNNL_VERSION_MAJOR);
  }
  if (out.problem.empty() && out.engine_create(&out.engine, dnnl_cpu, 0) != dnnl_success) {
    out.problem = "it cannot make an engine for the CPU";
  }
  if (!out.problem.empty()) out.problem = name + ": " + out.problem;
  return out;
}

const Library& TheLibrary() {
  static const auto& library = *new Library(Load());  // never unloaded
  return library;
}

void Check(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  throw std::runtime_error(fmt::format("oneDNN: {}: {}", call, TheLibrary().status_text(status)));
}

// Owners of oneDNN's handles.
template <auto Member>
struct Destroy {
  template <typename T>
  void operator()(T* handle) const {
    (TheLibrary().*Member)(handle);
  }
};
template <typename Handle, auto Member>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Member>>;
using Stream = Owned<dnnl_stream_t, &Library::stream_destroy>;
using Memory = Owned<dnnl_memory_t, &Library::memory_destroy>;
using PrimitiveDesc = Owned<dnnl_primitive_desc_t, &Library::primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, &Library::primitive_destroy>;

Stream MakeStream() {
  dnnl_stream_t stream = nullptr;
  Check(TheLibrary().stream_create(&stream, TheLibrary().engine, dnnl_stream_default_flags),
        "stream_create");
  return Stream(stream);
}

// Describes a matrix [rows, cols] with any strides.
dnnl_memory_desc_t Describe(dnnl_data_type_t type, std::int64_t rows, std::int64_t cols,
                            std::int64_t row_stride, std::int64_t col_stride) {
  const dnnl_dims_t dims = {rows, cols};
  const dnnl_dims_t strides = {row_stride, col_stride};
  dnnl_memory_desc_t out;
  Check(TheLibrary().memory_desc_init(&out, 2, dims, type, strides), "memory_desc_init");
  return out;
}

Memory Wrap(const dnnl_memory_desc_t& desc, const void* data) {
  dnnl_memory_t memory = nullptr;
  // oneDNN has one type for memory that is read and memory that is written.
  Check(TheLibrary().memory_create(&memory, &desc, TheLibrary().engine, const_cast<void*>(data)),
        "memory_create");
  return Memory(memory);
}

template <std::size_t kCount>
void Execute(const PrimitiveDesc& desc, const Stream& stream,
             const std::array<dnnl_exec_arg_t, kCount>& args) {
  dnnl_primitive_t primitive = nullptr;
  Check(TheLibrary().primitive_create(&primitive, desc.get()), "primitive_create");
  const Primitive owned(primitive);
  Check(TheLibrary().primitive_execute(primitive, stream.get(), kCount, args.data()),
        "primitive_execute");
  Check(TheLibrary().stream_wait(stream.get()), "stream_wait");
}

// An operand [rows, cols] rounded to bf16, with its elements in the same order in memory.
struct Rounded {
  std::vector<std::uint16_t> values;
  dnnl_memory_desc_t desc;

  Rounded(const Stream& stream, const float* data, std::int64_t rows, std::int64_t cols,
          std::int64_t stride, bool transposed)
      : values(static_cast<std::size_t>(rows * cols)),
        desc(transposed ? Describe(dnnl_bf16, rows, cols, 1, rows)
                        : Describe(dnnl_bf16, rows, cols, cols, 1)) {
    const dnnl_memory_desc_t from = transposed ? Describe(dnnl_f32, rows, cols, 1, stride)
                                               : Describe(dnnl_f32, rows, cols, stride, 1);
    const dnnl_engine_t engine = TheLibrary().engine;
    dnnl_primitive_desc_t reorder = nullptr;
    Check(TheLibrary().reorder_desc_create(&reorder, &from, engine, &desc, engine, nullptr),
          "reorder_primitive_desc_create");
    const PrimitiveDesc owned(reorder);
    const Memory in = Wrap(from, data);
    const Memory out = Wrap(desc, values.data());
    Execute(owned, stream,
            std::array<dnnl_exec_arg_t, 2>{{{DNNL_ARG_FROM, in.get()}, {DNNL_ARG_TO, out.get()}}});
  }
};

}  // namespace

std::string OneDnnProblem() {
  return TheLibrary().problem;
}

std::string OneDnnVersion() {
  if (!OneDnnProblem().empty()) return "";
  const dnnl_version_t& version = *TheLibrary().version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

std::string OneDnnIsa() {
  if (!OneDnnProblem().empty()) return "";
  const dnnl_cpu_isa_t isa = TheLibrary().isa();
  switch (isa) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "avx512_core_amx";
    default:
      return fmt::format("{:#x}", static_cast<unsigned>(isa));
  }
}

bool OneDnnHasBf16() {
  if (!OneDnnProblem().empty()) return false;
  // Instruction sets are bits, and a newer one includes the bits of the older ones.
  constexpr unsigned kBf16 = dnnl_cpu_isa_avx512_core_bf16;
  return (static_cast<unsigned>(TheLibrary().isa()) & kBf16) == kBf16;
}

void OneDnnMultiply(const OneDnnProduct& p, int threads) {
  TheLibrary().omp_set_num_threads(threads);
  Check(TheLibrary().sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k,
                           p.alpha, p.a, p.a_stride, p.b, p.b_stride, p.beta, p.c, p.c_stride),
        "sgemm");
}

void OneDnnMultiplyBf16(const OneDnnProduct& p, int threads) {
  assert(OneDnnHasBf16() && p.alpha == 1.0f && p.beta == 0.0f);
  TheLibrary().omp_set_num_threads(threads);
  const Stream stream = MakeStream();
  const Rounded a(stream, p.a, p.m, p.k, p.a_stride, p.a_transposed);
  const Rounded b(stream, p.b, p.k, p.n, p.b_stride, p.b_transposed);
  const dnnl_memory_desc_t c = Describe(dnnl_f32, p.m, p.n, p.c_stride, 1);
  dnnl_matmul_desc_t matmul;
  Check(TheLibrary().matmul_desc_init(&matmul, &a.desc, &b.desc, nullptr, &c), "matmul_desc_init");
  dnnl_primitive_desc_t desc = nullptr;
  Check(TheLibrary().primitive_desc_create(&desc, &matmul, nullptr, TheLibrary().engine, nullptr),
        "primitive_desc_create of a bf16 product");
  const PrimitiveDesc owned(desc);
  const Memory left = Wrap(a.desc, a.values.data());
  const Memory right = Wrap(b.desc, b.values.data());
  const Memory out = Wrap(c, p.c);
  Execute(owned, stream,
          std::array<dnnl_exec_arg_t, 3>{{{DNNL_ARG_SRC, left.get()},
                                          {DNNL_ARG_WEIGHTS, right.get()},
                                          {DNNL_ARG_DST, out.get()}}});
}

}  // namespace acan::cpu

#endif
