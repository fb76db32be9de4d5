#include "scratch_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/file_lock.h"
#include "acan/manager/host_name.h"
#include "acan/manager/sha256.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

// A socket's address holds 107 bytes; names inside the folder are short.
constexpr std::size_t kMaxFolderPath = 90;
// Others take a new folder away only by chance.
constexpr int kMostAttempts = 100;
// "acan-run-8c1f03ab-0e9d5b27-XXXXXX": the machine, its start, and letters drawn at random.
constexpr std::string_view kFirst = "acan-run-";
constexpr std::string_view kDraft = "XXXXXX";
constexpr std::size_t kMarkDigits = 8;
constexpr std::size_t kMachineIdDigits = 32;

// What the names of a maker's folders begin with. Earlier versions of acan named no machine, and
// before that no start.
std::string PrefixOf(const ScratchMaker& maker) {
  std::string prefix(kFirst);
  if (maker.boot.empty()) return prefix;
  if (!maker.machine.empty()) prefix += maker.machine + "-";
  return prefix + maker.boot + "-";
}

struct Origin {
  std::string machine;  // empty: the name does not say it
  std::string boot;
};

// What the name of a folder says of its maker. nullopt if it names no start of a machine.
std::optional<Origin> OriginOf(std::string_view name) {
  constexpr std::size_t kMark = kMarkDigits + 1;
  if (!name.starts_with(kFirst)) return std::nullopt;
  name.remove_prefix(kFirst.size());
  Origin origin;
  if (name.size() == 2 * kMark + kDraft.size() && name[kMarkDigits] == '-') {
    origin.machine = name.substr(0, kMarkDigits);
    name.remove_prefix(kMark);
  }
  if (name.size() != kMark + kDraft.size() || name[kMarkDigits] != '-') return std::nullopt;
  origin.boot = name.substr(0, kMarkDigits);
  return origin;
}

// Returns a descriptor that holds the lock of a folder. Returns -1 with errno if another process
// has the lock (EWOULDBLOCK), if the folder is gone (ENOENT), if it belongs to another user
// (EPERM), or if it cannot be locked. On a file server that maps users, even a new folder may
// belong to another one. The lock is not inherited, so it ends with the process, even if that is
// killed.
int Lock(const std::string& folder, uid_t user) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  int error = ENOENT;
  struct stat own = {};
  if (const LockTry tried = TryLock(fd); tried.locked != Locked::kYes) {
    error = tried.error;
  } else if (IsFileOf(folder, fd) && ::fstat(fd, &own) == 0) {
    if (own.st_uid == user) return fd;
    error = EPERM;
  }
  ::close(fd);
  errno = error;
  return -1;
}

// Hosts may share $TMPDIR through a file server. The lock of a folder is known only to the host
// that has it, so a folder of another host looks dead to all others. So this considers only the
// folders that were made since this machine was started, in any of its containers, and earlier ones
// that name this machine and lie on a local file system. One of these two does not suffice: copies
// of a machine may share its name, and this machine may serve its disk to others. On a file server,
// each lock is a request, so `parent` is examined before any folder in it is locked.
void RemoveDead(const std::string& parent, const ScratchMaker& maker) {
  namespace fs = std::filesystem;
  struct Found {
    std::string path;
    bool is_of_this_boot;
  };
  const Descriptor all(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool earlier = !maker.machine.empty() && all.get() >= 0 && maker.is_local(all.get());
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const auto origin = OriginOf(at->path().filename().string());
    if (!origin) continue;
    const bool is_of_this_boot = origin->boot == maker.boot;
    const bool is_earlier = earlier && origin->machine == maker.machine;
    if (is_of_this_boot || is_earlier) found.push_back({at->path().string(), is_of_this_boot});
  }
  for (const Found& folder : found) {
    const int lock = Lock(folder.path, maker.user);
    if (lock < 0) continue;
    // Another file system may be mounted there.
    if (folder.is_of_this_boot || maker.is_local(lock)) fs::remove_all(folder.path, error);
    ::close(lock);
  }
}

struct FolderPlace {
  std::string parent;
  std::string prefix;  // of the folder's name
};

FolderPlace PlaceFor(const ScratchMaker& maker) {
  const char* variable = ::getenv("TMPDIR");
  const std::string wanted = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
  const std::string parent = std::filesystem::absolute(wanted).string();
  ScratchMaker unnamed = maker;
  unnamed.machine.clear();
  for (const std::string& prefix : {PrefixOf(maker), PrefixOf(unnamed)}) {
    if (parent.size() + 1 + prefix.size() + kDraft.size() <= kMaxFolderPath) {
      return {parent, prefix};
    }
  }
  return {"/tmp", PrefixOf(maker)};
}

// The id is confidential, so its hash stands for it. Containers of one image may have the same id,
// but have other names, which the hash covers.
std::string MarkOfMachine() {
  std::string id;
  std::ifstream("/etc/machine-id") >> id;
  if (id.size() != kMachineIdDigits) return "";
  const std::string text = "acan's private folders\n" + id + "\n" + HostName();
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Hex().substr(0, kMarkDigits);
}

std::string MarkOfBoot() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.size() < kMarkDigits ? "" : id.substr(0, kMarkDigits);
}

}  // namespace

ScratchMaker ScratchMaker::ThisProcess() {
  return {MarkOfMachine(), MarkOfBoot(), ::geteuid()};
}

bool IsOnLocalFileSystem(int descriptor) {
  struct statfs info = {};
  if (::fstatfs(descriptor, &info) != 0) return false;
  switch (static_cast<std::uint32_t>(info.f_type)) {
    case TMPFS_MAGIC:
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

ScratchFolder::ScratchFolder(const ScratchMaker& maker) {
  const auto [parent, prefix] = PlaceFor(maker);
  if (!maker.boot.empty()) RemoveDead(parent, maker);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    path_ = fmt::format("{}/{}{}", parent, prefix, kDraft);
    if (::mkdtemp(path_.data()) == nullptr) {
      throw FailureError("cannot make a temporary folder in " + parent + ": " +
                         SystemErrorText(errno) + "; set TMPDIR to a writable folder");
    }
    lock_ = Lock(path_, maker.user);
    // Another process may have found the folder before it was locked, and then removes it. If
    // folders cannot be locked, or belong to another user at once, nobody removes them.
    if (lock_ >= 0 || (errno != EWOULDBLOCK && errno != ENOENT)) return;
    ::rmdir(path_.c_str());  // unless it is gone
  }
  throw FailureError(
      fmt::format("cannot make a temporary folder in {}: each of {} was gone or locked at once; "
                  "set TMPDIR to a folder on a local disk",
                  parent, kMostAttempts));
}

ScratchFolder::~ScratchFolder() {
  Remove();
  if (lock_ >= 0) ::close(lock_);
}

void ScratchFolder::Remove() {
  std::error_code ignored;  // another process may have removed it
  std::filesystem::remove_all(path_, ignored);
}

void RemoveFolderOf(const std::string& ipc_endpoint) {
  const std::string prefix = "ipc://";
  if (!ipc_endpoint.starts_with(prefix)) return;
  const std::filesystem::path socket(ipc_endpoint.substr(prefix.size()));
  ::rmdir(socket.parent_path().c_str());  // fails if the folder is not empty
}

}  // namespace acan::cli
