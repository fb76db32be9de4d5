#include "acan/manager/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/file_lock.h"
#include "acan/manager/host_name.h"
#include "acan/manager/output_names.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 4096;
// CheckFree holds the lock for a moment, which must not be mistaken for an owner.
constexpr int kTries = 3;
constexpr std::chrono::milliseconds kBetweenTries(5);

std::string LockPathIn(const std::string& folder) {
  return folder + "/" + kManagerLockName;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

// Whoever can read the file can lock it, so only those who may write to the folder can: this user,
// and its group if the folder is the group's.
mode_t ModeIn(const std::string& folder) {
  struct stat status = {};
  const bool groups = ::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IWGRP) != 0;
  return groups ? 0660 : 0600;
}

FolderOwner ReadOwner(int descriptor) {
  std::string text(kMaxBytes, '\0');
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  FolderOwner owner;
  try {
    const json value = ParseJson(text);
    owner.host = value.at("host").get<std::string>();
    owner.since = value.at("since").get<std::string>();
    owner.run = value.at("run").get<std::string>();
    owner.pid = value.at("pid").get<pid_t>();
  } catch (const json::exception&) {
    return {};
  }
  return owner;
}

// A file that cannot be read may name somebody. An SMB server lets nobody but the holder of a lock
// read the locked file.
bool IsEmptyFile(int descriptor) {
  char first = 0;
  return ::pread(descriptor, &first, 1, 0) == 0;
}

bool HasEnded(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

LockTry LockAsOwner(int descriptor) {
  for (int tries = 1;; ++tries) {
    const LockTry tried = TryLock(descriptor);
    if (tried.locked != Locked::kNo || tries >= kTries) return tried;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace

FolderLock::FolderLock(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor), since_(Now()) {}

FolderLock::~FolderLock() {
  if (IsOwn()) ::unlink(path_.c_str());
  ::close(descriptor_);
}

std::unique_ptr<FolderLock> FolderLock::Take(const std::string& folder, const std::string& run,
                                             FolderOwner* owner, std::string* said,
                                             const std::function<bool()>& make_room) {
  const std::string path = LockPathIn(folder);
  for (;;) {
    const mode_t mode = ModeIn(folder);
    const int descriptor =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
    if (descriptor < 0) ThrowFileError(path, "open", errno);
    ::fchmod(descriptor, mode);  // an earlier version made it readable for others
    const LockTry tried = LockAsOwner(descriptor);
    if (tried.locked == Locked::kNo) {
      *owner = ReadOwner(descriptor);
      ::close(descriptor);
      return nullptr;
    }
    // The owner removed the file, or another process replaced it.
    if (!IsFileOf(path, descriptor)) {
      ::close(descriptor);
      continue;
    }
    const bool was_empty = IsEmptyFile(descriptor);
    const FolderOwner before = ReadOwner(descriptor);
    std::unique_ptr<FolderLock> lock(new FolderLock(path, descriptor));
    if (tried.locked == Locked::kNoLocks) {
      *said = fmt::format(
          "{}: this file system has no locks ({}): make sure that no other manager writes to the "
          "folder",
          path, SystemErrorText(tried.error));
    } else if (before.pid != 0 && before.host != HostName()) {
      *said = fmt::format(
          "{} was left by pid {} on host {}, which had the folder since {}; if that manager still "
          "runs, the locks of this file system do not reach other hosts, and it must be stopped",
          path, before.pid, before.host, before.since);
    }
    try {
      lock->WriteWithRoom(run, make_room);
    } catch (...) {
      // It names nobody, so it would only puzzle whoever finds it.
      if (was_empty) ::unlink(path.c_str());
      throw;
    }
    return lock;
  }
}

std::unique_ptr<FolderLock> FolderLock::TakeOver(const std::string& folder,
                                                 const std::string& run) {
  const std::string path = LockPathIn(folder);
  std::string draft = path + "-XXXXXX";
  const int descriptor = ::mkostemp(draft.data(), O_CLOEXEC);
  if (descriptor < 0) ThrowFileError(path, "replace", errno);
  std::unique_ptr<FolderLock> lock(new FolderLock(path, descriptor));
  LockAsOwner(descriptor);
  try {
    lock->Write(run);
    if (::rename(draft.c_str(), path.c_str()) != 0) ThrowFileError(path, "replace", errno);
  } catch (...) {
    ::unlink(draft.c_str());
    throw;
  }
  return lock;
}

void FolderLock::CheckFree(const std::string& folder) {
  const int descriptor =
      ::open(LockPathIn(folder).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;  // a writer of the folder will report the problem
  const bool held = TryLock(descriptor, LockKind::kShared).locked == Locked::kNo;
  const FolderOwner owner = ReadOwner(descriptor);
  ::close(descriptor);
  if (held) throw FailureError(InUse(folder, owner));
}

std::string FolderLock::InUse(const std::string& folder, const FolderOwner& owner) {
  const std::string who =
      owner.pid == 0
          ? fmt::format("a process that has locked {}", LockPathIn(folder))
          : fmt::format("pid {} on host {} since {}", owner.pid, owner.host, owner.since);
  if (owner.pid != 0 && owner.host == HostName() && HasEnded(owner.pid)) {
    return fmt::format(
        "the output folder {} cannot be locked: pid {}, which had it since {}, is not there any "
        "more, but another process holds a lock on {}: end that process (lslocks shows it), or "
        "name another "
        "folder with --out",
        folder, owner.pid, owner.since, LockPathIn(folder));
  }
  std::string text = fmt::format(
      "the output folder {} is in use by {}: wait until that is done, stop it, or name another "
      "folder with --out",
      folder, who);
  if (owner.pid != 0 && owner.host != HostName()) {
    text += fmt::format(
        "; if the host {} is dead, the file server frees {} when it notices, which may take "
        "minutes",
        owner.host, LockPathIn(folder));
  }
  return text;
}

std::optional<FolderOwner> FolderLock::OwnerOf(const std::string& folder) {
  const int descriptor =
      ::open(LockPathIn(folder).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  const FolderOwner owner = ReadOwner(descriptor);
  ::close(descriptor);
  return owner;
}

// Without working locks, another process may have written to the same file.
bool FolderLock::IsOwn() const {
  return IsFileOf(path_, descriptor_) && ReadOwner(descriptor_).run == run_;
}

void FolderLock::SetRun(const std::string& run) {
  Write(run);
}

void FolderLock::Write(const std::string& run) {
  const json value = {{"pid", ::getpid()}, {"host", HostName()}, {"since", since_}, {"run", run}};
  const std::string text = JsonTextReplacing(value) + "\n";
  run_ = run;
  // A file that is truncated afterwards keeps its blocks, so a full disk has room for its new text.
  const ssize_t wrote = ::pwrite(descriptor_, text.data(), text.size(), 0);
  if (wrote < 0) ThrowFileError(path_, "write", errno);
  if (wrote != static_cast<ssize_t>(text.size())) ThrowFileError(path_, "write", ENOSPC);
  if (::ftruncate(descriptor_, wrote) != 0) ThrowFileError(path_, "write", errno);
}

void FolderLock::WriteWithRoom(const std::string& run, const std::function<bool()>& make_room) {
  for (;;) {
    try {
      return Write(run);
    } catch (const DiskFull&) {
      if (!make_room || !make_room()) throw;
    }
  }
}

}  // namespace acan
