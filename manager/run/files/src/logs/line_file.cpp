#include "acan/manager/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "acan/core/text/system_error_text.h"
#include "acan/manager/atomic_file.h"

namespace acan {

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineFile::Open(int more_flags) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | more_flags, 0666);
  if (descriptor_ < 0) Fail("open", errno);
}

void LineFile::Fail(const std::string& doing, int error) const {
  ThrowFileError(path_, doing, error);
}

void LineFile::Add(std::string line) {
  waiting_bytes_ += line.size();
  waiting_.push_back(std::move(line));
  TryWaiting();
  if (waiting_bytes_ > kMaxWaitingBytes) Fail("write", error_);
}

void LineFile::TryWaiting() {
  while (!waiting_.empty()) {
    const std::string& line = waiting_.front();
    const ssize_t wrote = ::write(descriptor_, line.data() + begun_, line.size() - begun_);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      error_ = errno;
      return;
    }
    bytes_ += wrote;
    begun_ += static_cast<std::size_t>(wrote);
    if (begun_ < line.size()) continue;
    begun_ = 0;
    waiting_bytes_ -= line.size();
    waiting_.pop_front();
  }
  error_ = 0;
}

void LineFile::CheckWritten() const {
  if (const int error = error_) Fail("write", error);
}

std::string LineFile::Problem() const {
  const int error = error_;
  return error == 0 ? "" : SystemErrorText(error);
}

void LineFile::OnSize(std::int64_t bytes) {
  bytes_ = bytes;
}

// The written part of the first waiting line may be gone, so the whole line is written again.
void LineFile::OnCut(std::optional<std::int64_t> whole) {
  begun_ = 0;
  const bool torn = whole != bytes_;
  if (torn && whole && ::ftruncate(descriptor_, *whole) == 0) {
    bytes_ = *whole;
  } else if (torn) {
    waiting_.emplace_front("\n");
    ++waiting_bytes_;
  }
  TryWaiting();
}

}  // namespace acan
