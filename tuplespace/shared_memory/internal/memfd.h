// Files in memory: how a process makes them, and how another process of the same user opens them
// through /proc. Both ends check what they get. Nothing here throws, as there is always an
// alternative.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tuplespace {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd();
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A shared mapping of a file's pages.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, std::size_t size) : data_(data), size_(size) {}
  ~Mapping();
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return size_; }
  bool valid() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

struct MemoryFile {
  UniqueFd fd;
  Mapping mapping;
};

// The purpose of a file in memory, which its name shows, so that one kind cannot pass for the
// other.
enum class MemoryKind : std::uint8_t {
  kShared,  // payloads or a ring
  kProbe,
};

// Makes a file of `bytes` (whole pages) that begins with `content`, allocates its pages and maps it
// for writing. No other mapping of it can be writable, and its size is fixed. No other process can
// open it before it has its content. Nullopt if the system refuses any of that.
std::optional<MemoryFile> MakeMemoryFile(std::uint64_t bytes, MemoryKind kind = MemoryKind::kShared,
                                         std::string_view content = {});

std::uint64_t RoundToPages(std::uint64_t bytes);

// The descriptors of another process. It refers to that process even if another one gets its pid
// later.
class PeerFiles {
 public:
  // Nullopt if the process is not of this user or must not be inspected.
  static std::optional<PeerFiles> Of(pid_t pid);

  // Its descriptor `fd`, for reading. Nullopt if it is not a file of this kind as MakeMemoryFile
  // makes them.
  std::optional<UniqueFd> Open(int fd, MemoryKind kind = MemoryKind::kShared) const;
  // Its descriptor `fd`, for writing. Nullopt if it is not a pipe. Writing to it never raises
  // SIGPIPE and never blocks.
  std::optional<UniqueFd> OpenPipe(int fd) const;

 private:
  std::optional<UniqueFd> OpenNamed(int fd, bool (*is_name)(std::string_view), int flags) const;
  explicit PeerFiles(UniqueFd folder) : folder_(std::move(folder)) {}
  UniqueFd folder_;
};

// Maps the whole file for reading. `populate`: its pages will be read soon. Nullopt if the system
// refuses.
std::optional<Mapping> MapForReading(const UniqueFd& file, bool populate);

// How two processes find out whether each can open the other's files. Each keeps a random secret in
// a file; a process that proves knowledge of the other's secret has opened that file
// (sharing_proof.h). The secrets are never sent.
class SharingProbe {
 public:
  static std::optional<SharingProbe> Make();
  int fd() const { return file_.fd.get(); }
  const std::string& secret() const { return secret_; }
  // The secret in a peer's probe; nullopt if the probe cannot be opened.
  static std::optional<std::string> Read(const PeerFiles& peer, int fd);

 private:
  MemoryFile file_;
  std::string secret_;
};

}  // namespace tuplespace
