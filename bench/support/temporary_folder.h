// A folder for the sockets of a benchmark.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace acan::bench {

// Made in $TMPDIR or /tmp by a child process. The child removes the folder and its contents when
// this object is destroyed, or when this process ends without that, by whatever signal: then the
// child sees the end of a socket that this process, and those that it has forked meanwhile, hold
// open.
class TemporaryFolder {
 public:
  TemporaryFolder() {  // throws std::runtime_error
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw std::runtime_error("the benchmark cannot make a socket");
    }
    keeper_ = ::fork();
    if (keeper_ == 0) {
      ::close(ends[0]);
      Keep(ends[1]);
    }
    ::close(ends[1]);
    own_end_ = ends[0];
    std::array<char, 4096> name{};
    const ssize_t bytes = ::read(own_end_, name.data(), name.size());
    if (bytes <= 0) {
      End();
      throw std::runtime_error("the benchmark cannot make a folder in TMPDIR or /tmp");
    }
    path_ = std::string(name.data(), static_cast<std::size_t>(bytes));
  }
  ~TemporaryFolder() { End(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Endpoint(const std::string& name) const { return "ipc://" + (path_ / name).string(); }

 private:
  [[noreturn]] static void Keep(int end) {
    ::setsid();  // keyboard signals to the benchmark do not reach this process
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    std::string name = (parent / "acan-bench-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) ::_exit(1);
    char none = 0;
    if (::write(end, name.data(), name.size()) > 0) {
      while (::read(end, &none, 1) > 0) {
      }
    }
    std::filesystem::remove_all(name, error);
    ::_exit(0);
  }
  void End() const {
    ::shutdown(own_end_, SHUT_WR);
    if (keeper_ > 0) ::waitpid(keeper_, nullptr, 0);
    ::close(own_end_);
  }

  std::filesystem::path path_;
  int own_end_ = -1;
  pid_t keeper_ = -1;
};

}  // namespace acan::bench
