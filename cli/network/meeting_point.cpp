#include "meeting_point.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "fmt/format.h"
#include "tuplespace/client.h"

namespace acan::cli {
namespace {

constexpr mode_t kForOthers = S_IRWXG | S_IRWXO;

// Why other users may replace what is in this folder; nullopt if they may not.
std::optional<std::string> ParentProblem(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return SystemErrorText(errno);
  if (!S_ISDIR(info.st_mode)) return "it is not a folder";
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return fmt::format("it belongs to user {}, but must belong to this user ({}) or to root",
                       info.st_uid, ::geteuid());
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (info.st_mode & S_ISVTX) == 0) {
    return fmt::format("it has mode {:04o}, so other users can replace its contents",
                       info.st_mode & 07777);
  }
  return std::nullopt;
}

// Why a socket in this folder is not reserved for this user.
std::optional<std::string> FolderProblem(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return SystemErrorText(errno);
  if (!S_ISDIR(info.st_mode)) return "it is not a folder";
  if (info.st_uid != ::geteuid()) {
    return fmt::format("it belongs to user {}, but must belong to this user ({})", info.st_uid,
                       ::geteuid());
  }
  if ((info.st_mode & kForOthers) != 0) {
    return fmt::format("it has mode {:04o}, but must have 0700 (chmod 700 {})",
                       info.st_mode & 07777, path);
  }
  return std::nullopt;
}

[[noreturn]] void ThrowUnusable(const std::string& what, const std::string& problem,
                                const std::string& flag) {
  throw FailureError(
      fmt::format("{} cannot be the meeting point of this user's broker, handlers and managers: "
                  "{}; fix this, set "
                  "XDG_RUNTIME_DIR to a folder of this user with mode 0700, or give {}",
                  what, problem, flag));
}

}  // namespace

std::string MeetingFolder(const std::string& runtime, const std::string& root,
                          const std::string& flag) {
  std::string folder = runtime + "/acan";
  if (runtime.empty()) {
    const std::string usual = fmt::format("{}/run/user/{}", root, ::geteuid());
    const bool usable = !FolderProblem(usual);
    folder = usable ? usual + "/acan" : fmt::format("{}/tmp/acan-{}", root, ::geteuid());
  } else if (runtime.front() != '/') {
    ThrowUnusable(fmt::format("XDG_RUNTIME_DIR \"{}\"", runtime), "it is not an absolute path",
                  flag);
  } else if (const auto problem = ParentProblem(runtime)) {
    ThrowUnusable(fmt::format("XDG_RUNTIME_DIR \"{}\"", runtime), *problem, flag);
  }
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    ThrowUnusable(folder, fmt::format("it cannot be created: {}", SystemErrorText(errno)), flag);
  }
  if (const auto problem = FolderProblem(folder)) ThrowUnusable(folder, *problem, flag);
  return folder;
}

std::string DefaultEndpoint(const std::string& flag) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return "ipc://" + MeetingFolder(runtime == nullptr ? "" : runtime, "", flag) + "/space";
}

void CheckEndpoint(const std::string& endpoint, const std::string& origin) {
  const std::size_t colon = endpoint.find("://");
  const std::string scheme = endpoint.substr(0, colon);
  if (colon == std::string::npos || (scheme != "tcp" && scheme != "ipc") ||
      endpoint.size() == colon + 3) {
    throw UsageError(
        fmt::format("{}: \"{}\" is not an endpoint; write tcp://127.0.0.1:5555 or "
                    "ipc:///path/of/a/socket",
                    origin, endpoint));
  }
  if (scheme == "tcp" && endpoint.find(':', colon + 3) == std::string::npos) {
    throw UsageError(
        fmt::format("{}: \"{}\" has no port; write tcp://127.0.0.1:5555", origin, endpoint));
  }
}

std::string EndpointToConnect(const Setting& connect) {
  if (!connect.set()) return DefaultEndpoint("--connect");
  for (const std::string& endpoint : tuplespace::EndpointsIn(connect.value)) {
    CheckEndpoint(endpoint, connect.origin);
  }
  if (const auto problem = tuplespace::EndpointProblem(connect.value)) {
    throw UsageError(fmt::format("{}: {}", connect.origin, *problem));
  }
  return connect.value;
}

}  // namespace acan::cli
