#include "memfd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <random>
#include <string_view>

// The C library's headers may lack this.
#if !defined(F_SEAL_FUTURE_WRITE)
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

namespace tuplespace {

namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::uint64_t kHugePageBytes = 2 << 20;

// No process can remove a page under a reader, or make a new writable mapping.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

const char* NameOf(MemoryKind kind) {
  return kind == MemoryKind::kProbe ? "tuplespace-probe" : "tuplespace";
}

// Whether the link of a descriptor in /proc names such a file.
bool IsShared(std::string_view link) {
  return link == "/memfd:tuplespace (deleted)";
}
bool IsProbe(std::string_view link) {
  return link == "/memfd:tuplespace-probe (deleted)";
}
bool IsPipe(std::string_view link) {
  return link.starts_with("pipe:[");
}

bool HasName(int folder, const std::string& number, bool (*is_name)(std::string_view)) {
  std::array<char, 64> link{};
  const ssize_t size = readlinkat(folder, number.c_str(), link.data(), link.size());
  return size > 0 && is_name(std::string_view(link.data(), static_cast<std::size_t>(size)));
}

// Growing a file beyond this limit raises a signal and not an error.
bool WithinFileLimit(std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

// Missing memory is an error here but would be a SIGBUS later.
bool MakePages(const Mapping& mapping, int fd) {
  if (mapping.size() >= kHugePageBytes) madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  if (madvise(mapping.data(), mapping.size(), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;  // before Linux 5.14
  return fallocate(fd, 0, 0, static_cast<off_t>(mapping.size())) == 0;
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

std::uint64_t RoundToPages(std::uint64_t bytes) {
  static const auto kPage = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + kPage - 1) / kPage * kPage;
}

std::optional<MemoryFile> MakeMemoryFile(std::uint64_t bytes, MemoryKind kind,
                                         std::string_view content) {
  assert(content.size() <= bytes);
  if (bytes == 0 || !WithinFileLimit(bytes)) return std::nullopt;
  MemoryFile file;
  file.fd = UniqueFd(memfd_create(NameOf(kind), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.fd.valid()) return std::nullopt;
  if (ftruncate(file.fd.get(), static_cast<off_t>(bytes)) != 0) return std::nullopt;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0);
  if (data == MAP_FAILED) return std::nullopt;
  file.mapping = Mapping(data, bytes);
  if (!MakePages(file.mapping, file.fd.get())) return std::nullopt;
  std::copy(content.begin(), content.end(), static_cast<char*>(data));
  if (fcntl(file.fd.get(), F_ADD_SEALS, kSeals) != 0) return std::nullopt;
  return file;
}

std::optional<PeerFiles> PeerFiles::Of(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  UniqueFd folder(
      open(fmt::format("/proc/{}/fd", pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (!folder.valid() || fstat(folder.get(), &info) != 0) return std::nullopt;
  if (info.st_uid != geteuid()) return std::nullopt;
  return PeerFiles(std::move(folder));
}

// Checks the name before opening, as opening a device may have side effects, and again afterwards,
// as the number may refer to another file by then.
std::optional<UniqueFd> PeerFiles::OpenNamed(int fd, bool (*is_name)(std::string_view),
                                             int flags) const {
  if (fd < 0) return std::nullopt;
  const std::string number = std::to_string(fd);
  if (!HasName(folder_.get(), number, is_name)) return std::nullopt;
  UniqueFd file(openat(folder_.get(), number.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return std::nullopt;
  const std::string opened = fmt::format("/proc/self/fd/{}", file.get());
  if (!HasName(AT_FDCWD, opened, is_name)) return std::nullopt;
  return file;
}

std::optional<UniqueFd> PeerFiles::Open(int fd, MemoryKind kind) const {
  auto file = OpenNamed(fd, kind == MemoryKind::kProbe ? IsProbe : IsShared, O_RDONLY);
  const int seals = file ? fcntl(file->get(), F_GET_SEALS) : -1;
  if (seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
  struct stat info {};
  if (fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 0) {
    return std::nullopt;
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes == 0 || bytes != RoundToPages(bytes)) return std::nullopt;
  if (kind == MemoryKind::kProbe && bytes != RoundToPages(kSecretBytes)) return std::nullopt;
  return file;
}

std::optional<UniqueFd> PeerFiles::OpenPipe(int fd) const {
  auto pipe = OpenNamed(fd, IsPipe, O_RDWR);  // also opened for reading, so it always has a reader
  struct stat info {};
  if (!pipe || fstat(pipe->get(), &info) != 0 || !S_ISFIFO(info.st_mode)) return std::nullopt;
  return pipe;
}

std::optional<Mapping> MapForReading(const UniqueFd& file, bool populate) {
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || info.st_size <= 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data =
      mmap(nullptr, size, PROT_READ, MAP_SHARED | (populate ? MAP_POPULATE : 0), file.get(), 0);
  if (data == MAP_FAILED) return std::nullopt;
  return Mapping(data, size);
}

std::optional<SharingProbe> SharingProbe::Make() {
  SharingProbe probe;
  std::random_device random;
  for (std::size_t i = 0; i < kSecretBytes; ++i) {
    probe.secret_.push_back(static_cast<char>(random() & 0xff));
  }
  auto file = MakeMemoryFile(RoundToPages(kSecretBytes), MemoryKind::kProbe, probe.secret_);
  if (!file) return std::nullopt;
  probe.file_ = *std::move(file);
  return probe;
}

std::optional<std::string> SharingProbe::Read(const PeerFiles& peer, int fd) {
  const auto file = peer.Open(fd, MemoryKind::kProbe);
  if (!file) return std::nullopt;
  // Mapped, as payloads will be.
  const auto mapping = MapForReading(*file, /*populate=*/false);
  if (!mapping || mapping->size() < kSecretBytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(mapping->data()), kSecretBytes);
}

}  // namespace tuplespace
