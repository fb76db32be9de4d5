#include "acan/core/text/system_error_text.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace acan {
namespace {

std::optional<rlim_t> LimitOf(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// The process limit that may have caused `error`; empty if none.
std::string LimitText(int error) {
  constexpr rlim_t kKiB = 1024;
  if (error == EFBIG) {
    const auto bytes = LimitOf(RLIMIT_FSIZE);
    if (bytes) {
      return fmt::format("the limit on a file's size, ulimit -f, is {} KiB", *bytes / kKiB);
    }
  }
  if (error == EMFILE) {
    const auto files = LimitOf(RLIMIT_NOFILE);
    if (files) return fmt::format("the limit on open files, ulimit -n, is {}", *files);
  }
  if (error == ENOMEM || error == EAGAIN) {
    const auto bytes = LimitOf(RLIMIT_AS);
    if (bytes) {
      return fmt::format("the limit on address space, ulimit -v, is {} KiB", *bytes / kKiB);
    }
  }
  return "";
}

}  // namespace

std::string SystemErrorText(int error) {
  const std::string limit = LimitText(error);
  const std::string words = std::strerror(error);
  return limit.empty() ? words : fmt::format("{} ({})", words, limit);
}

}  // namespace acan
