#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace acan::cli {
namespace {

constexpr const char* kEraseLine = "\r\x1b[K";

std::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::size_t Columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col;
  return 80;
}

}  // namespace

Terminal::Terminal() {
  live_ = ::isatty(STDERR_FILENO) == 1 && Variable("TERM") != "dumb" && !Variable("TERM").empty();
  colour_ = live_ && Variable("NO_COLOR").empty();
}

Terminal::~Terminal() {
  EndLive();
}

void Terminal::Line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (text_.empty()) {
    Write(line + "\n");
  } else {
    Write(kEraseLine + line + "\n" + text_);
  }
}

void Terminal::Live(const std::string& text) {
  if (!live_) return;
  const std::lock_guard lock(mutex_);
  text_ = text.substr(0, Columns() - 1);
  Write(kEraseLine + text_);
}

void Terminal::EndLive() {
  const std::lock_guard lock(mutex_);
  if (!text_.empty()) Write(kEraseLine);
  text_.clear();
}

// One write for each line, so that lines of several processes do not mix. Write errors are ignored,
// since there is no other place to report them.
void Terminal::Write(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(STDERR_FILENO, bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) return;
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace acan::cli
