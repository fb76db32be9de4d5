#include "scratch_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/file_lock.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

// A socket's address holds 107 bytes; names inside the folder are short.
constexpr std::size_t kMaxFolderPath = 90;
constexpr std::string_view kFirst = "acan-run-";
constexpr std::string_view kDraft = "XXXXXX";
constexpr std::size_t kBootDigits = 8;

// What the names of this boot's folders begin with: "acan-run-8c1f03ab-", with the first digits of
// an id that is the same in all containers of a machine, and another one on each machine and after
// each start. nullopt if the system does not tell it.
std::optional<std::string> PrefixOfBoot() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (id.size() < kBootDigits) return std::nullopt;
  return fmt::format("{}{}-", kFirst, id.substr(0, kBootDigits));
}

// Returns a descriptor that holds the lock of a folder. Returns -1 with errno if another process
// has the lock (EWOULDBLOCK), if the folder is gone or is not a folder of this user, or if it
// cannot be locked. The lock is not inherited, so it ends with the process, even if that is killed.
int Lock(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  int error = ENOENT;
  struct stat own = {};
  if (const LockTry tried = TryLock(fd); tried.locked != Locked::kYes) {
    error = tried.error;
  } else if (IsFileOf(folder, fd) && ::fstat(fd, &own) == 0 && own.st_uid == ::geteuid()) {
    return fd;
  }
  ::close(fd);
  errno = error;
  return -1;
}

// Considers only the folders of this boot. On a network file system, where hosts may share $TMPDIR,
// the lock of a folder is known only to its own host, so a folder of another host looks dead to all
// others. Earlier versions of acan named no boot; such folders are left alone, too.
void RemoveDead(const std::string& parent, const std::string& prefix) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.size() == prefix.size() + kDraft.size() && name.starts_with(prefix)) {
      found.push_back(at->path().string());
    }
  }
  for (const std::string& folder : found) {
    const int lock = Lock(folder);
    if (lock < 0) continue;
    fs::remove_all(folder, error);
    ::close(lock);
  }
}

std::string ParentFolder(const std::string& prefix) {
  const char* variable = ::getenv("TMPDIR");
  const std::string parent = variable == nullptr || *variable == '\0' ? "/tmp" : variable;
  const std::string whole = std::filesystem::absolute(parent).string();
  const std::size_t name = 1 + prefix.size() + kDraft.size();
  return whole.size() + name > kMaxFolderPath ? "/tmp" : whole;
}

}  // namespace

ScratchFolder::ScratchFolder() {
  const std::optional<std::string> of_boot = PrefixOfBoot();
  const std::string prefix = of_boot.value_or(std::string(kFirst));
  const std::string parent = ParentFolder(prefix);
  if (of_boot) RemoveDead(parent, prefix);
  for (;;) {
    path_ = fmt::format("{}/{}{}", parent, prefix, kDraft);
    if (::mkdtemp(path_.data()) == nullptr) {
      throw FailureError("cannot make a temporary folder in " + parent + ": " +
                         SystemErrorText(errno) + "; set TMPDIR to a writable folder");
    }
    lock_ = Lock(path_);
    // Another process may have found the folder before it was locked, and then removes it. If
    // folders cannot be locked, nobody removes them.
    if (lock_ >= 0 || (errno != EWOULDBLOCK && errno != ENOENT)) return;
  }
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
