#include "acan/manager/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/unreadable.h"

namespace acan {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPipePatience{5};  // maximum wait for the next bytes
constexpr std::chrono::milliseconds kLookAgain{20};
constexpr ssize_t kNobodyWrites = -2;

// Reads up to `size` bytes; returns 0 at the end, -1 and errno after an error, and kNobodyWrites
// for a pipe from which nothing has come for too long, which is no error of read: ETIMEDOUT is that
// of a file server that does not answer. A pipe without a writer looks the same before the first
// writer as after the last one, so it has ended only if bytes have arrived before.
ssize_t ReadSome(int fd, bool pipe, bool begun, char* to, std::size_t size) {
  const Clock::time_point deadline = Clock::now() + kPipePatience;
  for (;;) {
    const ssize_t count = ::read(fd, to, size);
    const bool later = pipe && ((count == 0 && !begun) || (count < 0 && errno == EAGAIN));
    if (count < 0 && errno == EINTR) continue;
    if (!later) return count;
    if (Clock::now() >= deadline) return kNobodyWrites;
    pollfd item{fd, POLLIN, 0};
    // Before the first writer or after the last one, poll returns at once.
    if (::poll(&item, 1, static_cast<int>(kLookAgain.count())) > 0 &&
        (item.revents & POLLIN) == 0) {
      ::poll(nullptr, 0, static_cast<int>(kLookAgain.count()));
    }
  }
}

std::string KindText(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::directory:
      return "a directory";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::socket:
      return "a socket";
    default:
      return "a device";
  }
}

[[noreturn]] void ThrowUnread(const std::string& path, int error) {
  throw Unreadable(error, fmt::format("{}: cannot read: {}", path, SystemErrorText(error)));
}

}  // namespace

std::string ReadTextFile(const std::string& path, std::int64_t max_bytes, const std::string& what,
                         const std::function<void(const struct stat& opened)>& check) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const int error = errno;
    throw Unreadable(error,
                     fmt::format("{}: cannot open as {}: {}", path, what, SystemErrorText(error)));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) ThrowUnread(path, errno);
  if (S_ISDIR(status.st_mode)) {
    throw UsageError(fmt::format("{}: is a directory, expected {}", path, what));
  }
  if (check) check(status);
  const bool pipe = S_ISFIFO(status.st_mode);
  if (!pipe && !S_ISREG(status.st_mode)) {
    throw UsageError(fmt::format("{}: is a device, expected {}", path, what));
  }
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const ssize_t count = ReadSome(file.get(), pipe, !text.empty(), buffer.data(), buffer.size());
    if (count == kNobodyWrites) {
      throw UsageError(
          fmt::format("{}: is a pipe into which nobody has written for {} s, expected {}", path,
                      kPipePatience.count(), what));
    }
    if (count < 0) ThrowUnread(path, errno);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (static_cast<std::int64_t>(text.size()) > max_bytes) {
      throw UsageError(
          fmt::format("{}: is longer than {} bytes, the limit for {}", path, max_bytes, what));
    }
  }
}

void RequireNoLink(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_symlink(fs::symlink_status(path, ignored))) return;
  throw FailureError(fmt::format(
      "{}: is a symbolic link, but a run writes only inside its folder: put what it leads "
      "to in its place",
      path));
}

void RequireKeptFile(const std::string& path, Devices devices, Links links) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const bool is_file = !fs::exists(status) || fs::is_regular_file(status);
  if (is_file && links == Links::kRefused) RequireNoLink(path);
  if (is_file) return;
  if (devices == Devices::kAllowed && fs::is_character_file(status)) return;
  throw FailureError(fmt::format(
      "{}: is {}, but a resumed run reads back what was written there: it must be a file", path,
      KindText(status)));
}

}  // namespace acan
