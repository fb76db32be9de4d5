#include "products/openblas.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <thread>

#include "acan/core/error.h"
#include "acan/core/ieee_mode.h"

namespace acan::cpu {
namespace {

constexpr const char* kName = "libopenblas.so.0";
// A buffer of 192 MiB and a stack for each thread, and the library itself.
constexpr std::uint64_t kBytesOfThread = 256ULL << 20;
constexpr std::uint64_t kBytesOfLibrary = 64ULL << 20;

std::uint64_t AddressSpaceInUse() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// OpenBLAS never stops retrying an allocation, so the room must exist before it is loaded.
std::string RoomProblem() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  const std::uint64_t threads = std::thread::hardware_concurrency() + std::uint64_t{1};
  const std::uint64_t wanted = AddressSpaceInUse() + kBytesOfLibrary + threads * kBytesOfThread;
  if (limit.rlim_cur >= wanted) return "";
  return fmt::format(
      "the limit on address space (ulimit -v) is {} KiB, it needs {} KiB: raise the limit",
      limit.rlim_cur / 1024, wanted / 1024);
}

template <typename Function>
void Find(void* library, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && problem.empty()) problem = fmt::format("it has no {}", name);
}

OpenBlasLibrary Load() {
  OpenBlasLibrary out;
  out.problem = RoomProblem();
  if (!out.problem.empty()) return out;
  const IeeeMode ieee;  // the library may leave another mode
  void* library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.problem = ::dlerror();
    return out;
  }
  Find(library, "cblas_sgemm", out.sgemm, out.problem);
  Find(library, "openblas_set_num_threads", out.set_num_threads, out.problem);
  Find(library, "openblas_get_corename", out.get_corename, out.problem);
  return out;
}

const OpenBlasLibrary& LoadedOpenBlas() {
  static const auto& library = *new OpenBlasLibrary(Load());  // never unloaded
  return library;
}

std::string WhyNotOpenBlas() {
  return fmt::format("fast products on the CPU need OpenBLAS ({}), which cannot be used: {}", kName,
                     LoadedOpenBlas().problem);
}

const OpenBlasLibrary* UsableOpenBlas() {
  if (LoadedOpenBlas().problem.empty()) return &LoadedOpenBlas();
  // A device has no log.
  std::fputs(
      fmt::format("acan: warning: {}; exact products take their place\n", WhyNotOpenBlas()).c_str(),
      stderr);
  return nullptr;
}

}  // namespace

const OpenBlasLibrary& OpenBlas() {
  if (!LoadedOpenBlas().problem.empty()) throw FailureError(WhyNotOpenBlas());
  return LoadedOpenBlas();
}

const OpenBlasLibrary* OpenBlasOrNull() {
  static const OpenBlasLibrary* const kUsable = UsableOpenBlas();  // says it once
  return kUsable;
}

}  // namespace acan::cpu
