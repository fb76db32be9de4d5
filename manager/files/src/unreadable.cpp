#include "acan/manager/unreadable.h"

#include <fmt/format.h>

#include <cerrno>

#include "acan/core/text/system_error_text.h"

namespace acan {
namespace {

Error::Kind KindOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case EINVAL:
      return Error::Kind::kUsage;
    default:
      return Error::Kind::kFailure;
  }
}

}  // namespace

Unreadable::Unreadable(int error, const std::string& text) : Error(KindOf(error), text) {}

void RequireOpenedOrAbsent(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) return;
  throw Unreadable(error, fmt::format("{}: cannot open: {}", path, SystemErrorText(error)));
}

}  // namespace acan
