#include "acan/manager/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/file_lock.h"
#include "acan/manager/file_server.h"
#include "acan/manager/line_reader.h"
#include "acan/manager/sha256.h"
#include "acan/manager/text_file.h"
#include "acan/manager/unreadable.h"
#include "nlohmann/json.hpp"
#include "tuplespace/clock.h"

namespace acan {
namespace {

constexpr std::size_t kDigits = 64;
constexpr std::string_view kChain = R"({"chain":")";
constexpr std::string_view kRecord = R"(","record":)";
constexpr std::size_t kFlushedTogether = 256;                 // records
constexpr std::size_t kMaxUnwritten = 64 * kFlushedTogether;  // while the file is locked
constexpr std::size_t kMaxLineBytes = 1 << 20;
constexpr std::int64_t kBytesBetween = 1 << 20;  // between two calls of go_on
constexpr std::int64_t kLockPatienceUs = 10'000'000;
constexpr std::chrono::milliseconds kLockPause{5};

std::string ChainOf(const std::string& before, std::string_view record) {
  Sha256 hash;
  hash.Add(before.data(), before.size());
  hash.Add(record.data(), record.size());
  return hash.Hex();
}

int OpenToAppend(const std::string& path) {
  RequireKeptFile(path, Devices::kRefused);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) ThrowFileError(path, "open", errno);
  return descriptor;
}

// REQUIRES: the line has the form of a record's.
std::string_view RecordOf(std::string_view line) {
  const std::size_t begin = kChain.size() + kDigits + kRecord.size();
  return line.substr(begin, line.size() - begin - 1);
}

// The problem of a line, if any, and the line's chain.
std::optional<std::string> ProblemOf(std::string_view line, const std::string& before,
                                     std::string* chain) {
  const std::size_t begin = kChain.size() + kDigits + kRecord.size();
  if (line.size() <= begin || !line.starts_with(kChain) || !line.ends_with('}') ||
      line.compare(kChain.size() + kDigits, kRecord.size(), kRecord) != 0) {
    return "is not a record of an audit log";
  }
  *chain = line.substr(kChain.size(), kDigits);
  const std::string expected = ChainOf(before, RecordOf(line));
  if (*chain == expected) return std::nullopt;
  return fmt::format("does not follow from the lines before it: its chain is {}, must be {}",
                     *chain, expected);
}

std::string RealPath(const std::string& path) {
  std::error_code error;
  std::string real = std::filesystem::canonical(path, error).string();
  if (error) ThrowFileError(path, "open", error.value());
  return real;
}

// A link may name the log.
std::string LockPathOf(const std::string& log) {
  return RealPath(log) + ".lock";
}

std::function<void()> WithoutWait(const AuditLog::GoOn& go_on) {
  if (!go_on) return {};
  return [&go_on] { go_on(std::chrono::microseconds(0)); };
}

// Returns 0, or the value of errno.
int AppendAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(descriptor, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

int SyncToDisk(int descriptor) {
  return ::fdatasync(descriptor) != 0 && errno != EINVAL ? errno : 0;
}

// The lock that keeps others from writing. Its file lies beside the log, and is removed when the
// log is closed. Where files cannot be locked, everybody holds it.
class WriteLock {
 public:
  // `path` is that of the lock's file, and `log` the descriptor of the log.
  WriteLock(std::string path, int log) : path_(std::move(path)), log_(log) {}
  ~WriteLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

  // False if another process holds it. Throws Error (failure) if there is no such file and none can
  // be made.
  bool Try() {
    for (;;) {
      if (descriptor_ < 0) Open();
      const Locked locked = TryLock(descriptor_).locked;
      if (locked == Locked::kNo) return false;
      if (locked == Locked::kNoLocks || IsFileOf(path_, descriptor_)) return true;
      ::close(std::exchange(descriptor_, -1));  // its holder has removed the file
    }
  }
  // Throws Error (failure) if another process holds it for 10 s.
  void Wait(const AuditLog::GoOn& go_on) {
    const std::int64_t end_us = tuplespace::MonotonicUs() + kLockPatienceUs;
    while (!Try()) {
      if (tuplespace::MonotonicUs() >= end_us) {
        throw FailureError(fmt::format(
            "{}: another process has locked it for 10 s: end that process (lslocks shows it)",
            path_));
      }
      if (go_on) {
        go_on(kLockPause);
      } else {
        std::this_thread::sleep_for(kLockPause);
      }
    }
  }
  // REQUIRES: it is held.
  void RemoveFile() const { ::unlink(path_.c_str()); }

 private:
  // Whoever may write to the log may open it, and nobody else.
  void Open() {
    struct stat log = {};
    if (::fstat(log_, &log) != 0) ThrowFileError(path_, "open", errno);
    const mode_t mode =
        0600 | (log.st_mode & (S_IWGRP | S_IWOTH)) | ((log.st_mode & (S_IWGRP | S_IWOTH)) << 1U);
    constexpr int kHow = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    do {
      descriptor_ = ::open(path_.c_str(), kHow);
      if (descriptor_ >= 0) return;
      if (errno == ENOENT) descriptor_ = ::open(path_.c_str(), kHow | O_CREAT | O_EXCL, mode);
    } while (descriptor_ < 0 && errno == EEXIST);
    if (descriptor_ < 0) ThrowFileError(path_, "open", errno);
    // Only root can give it to another owner; a group may write to the log of one of its members.
    [[maybe_unused]] const int owner = ::fchown(descriptor_, log.st_uid, log.st_gid);
    ::fchmod(descriptor_, mode);
  }

  const std::string path_;
  const int log_;
  int descriptor_ = -1;
};

}  // namespace

AuditLogCheck CheckAuditLog(const std::string& path, const std::function<void()>& go_on,
                            const OnAuditRecord& on_record) {
  RequireKeptFile(path, Devices::kRefused);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    throw Unreadable(error, fmt::format("{}: cannot open: {}", path, SystemErrorText(error)));
  }
  AuditLogCheck check;
  check.head = std::string(kDigits, '0');
  std::int64_t went_on = 0;  // the number of bytes at the last call
  LineReader lines(file, kMaxLineBytes);
  for (;;) {
    const LineReader::Line read = lines.Next();
    if (read == LineReader::Line::kNone) break;
    if (read == LineReader::Line::kTorn) {
      check.torn = true;
      break;
    }
    if (read == LineReader::Line::kPart) {
      check.problem = fmt::format("line {} is longer than any record", check.records + 1);
      break;
    }
    const std::string_view line = lines.text();
    std::string chain;
    if (const auto problem = ProblemOf(line, check.head, &chain)) {
      check.problem = fmt::format("line {} {}", check.records + 1, *problem);
      break;
    }
    check.head = chain;
    check.bytes += static_cast<std::int64_t>(line.size()) + 1;
    ++check.records;
    if (on_record) on_record(check.head, RecordOf(line));
    if (!go_on || check.bytes - went_on < kBytesBetween) continue;
    went_on = check.bytes;
    go_on();
  }
  if (file.bad()) {
    const int error = errno;
    throw Unreadable(error, fmt::format("{}: cannot read: {}", path, SystemErrorText(error)));
  }
  return check;
}

AuditLog::AuditLog(const std::string& path, std::string* said, GoOn go_on)
    : path_(path),
      go_on_(std::move(go_on)),
      descriptor_(OpenToAppend(path)),
      syncs_each_write_(KeepsWrittenBytesOnHost(descriptor_)) {
  try {
    lock_path_ = LockPathOf(path_);
    WriteLock lock(lock_path_, descriptor_);
    lock.Wait(go_on_);
    if (!IsInPlace()) {  // it was opened before the wait, and its path is opened again
      throw FailureError(
          fmt::format("{}: was moved, replaced or removed while it was being opened: start the run "
                      "again, and leave the file where it is until the run is done",
                      path_));
    }
    const AuditLogCheck check = CheckAuditLog(path, WithoutWait(go_on_));
    ContinueFrom(check);
    if (check.torn && said != nullptr) {
      *said = fmt::format(
          "{}: its last line was incomplete, as after a kill, and was removed; {} records before "
          "it are intact",
          path, check.records);
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AuditLog::~AuditLog() {
  const auto attempt = [](const auto& action) {
    try {
      action();
    } catch (const std::exception&) {
      // Errors are ignored here: callers that need them call Flush.
    }
  };
  attempt([this] { FlushIfFree(); });
  attempt([this] {
    WriteLock lock(lock_path_, descriptor_);
    if (lock.Try()) lock.RemoveFile();
  });
  ::close(descriptor_);
}

void AuditLog::CheckWritable(const std::string& path) {
  const Descriptor log(OpenToAppend(path));
  WriteLock lock(LockPathOf(path), log.get());
  if (lock.Try()) lock.RemoveFile();
}

void AuditLog::Fail(const std::string& doing, int error) const {
  ThrowFileError(path_, doing, error);
}

void AuditLog::ContinueFrom(const AuditLogCheck& check) {
  if (check.problem) {
    throw UsageError(
        fmt::format("{}: {}; a changed audit log cannot be continued: name another file", path_,
                    *check.problem));
  }
  if (check.torn && ::ftruncate(descriptor_, check.bytes) != 0) {
    Fail("cut off its torn last line", errno);
  }
  records_ = check.records;
  bytes_ = check.bytes;
  head_ = check.head;
}

void AuditLog::Add(nlohmann::json record) {
  unwritten_.push_back(std::move(record));
  if (unwritten_.size() % kFlushedTogether == 0) FlushIfFree();
}

void AuditLog::FlushIfFree() {
  if (unwritten_.empty()) return;
  RequireInPlace();  // if its folder is gone, there is no place for the lock
  WriteLock lock(lock_path_, descriptor_);
  if (lock.Try()) FlushLocked({});
}

void AuditLog::FlushWhenFree() {
  RequireInPlace();
  WriteLock lock(lock_path_, descriptor_);
  lock.Wait(go_on_);
  FlushLocked(go_on_);
}

void AuditLog::Flush() {
  RequireSynced();
  if (unwritten_.size() < kMaxUnwritten) return FlushIfFree();
  FlushWhenFree();
}

bool AuditLog::IsInPlace() const {
  struct stat own = {};
  struct stat there = {};
  if (::stat(path_.c_str(), &there) != 0) {
    if (errno == ENOENT) return false;
    Fail("open", errno);
  }
  const bool known = ::fstat(descriptor_, &own) == 0;
  // A file server that no longer has this file, but has one of its name, answers ESTALE.
  if (!known && errno != ESTALE) Fail("read the status", errno);
  return known && own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

// No manager moves or replaces the file, so this is no sign of a lost lead.
void AuditLog::RequireInPlace() {
  if (IsInPlace()) return;
  unwritten_.clear();
  end_ = End::kElsewhere;
  FailChanged();
}

void AuditLog::FlushLocked(const GoOn& go_on) {
  RequireInPlace();
  const FileSize size = SizeOfFile(descriptor_, SizeSource::kServer);
  if (!size.bytes) Fail("read the size", size.error);
  if (*size.bytes != bytes_ && !has_written_) {
    // The manager that had the lead before wrote its last records after this log had been opened.
    ContinueFrom(CheckAuditLog(path_, WithoutWait(go_on)));
  } else if (*size.bytes != bytes_) {
    unwritten_.clear();
    const End before = std::exchange(end_, *size.bytes < bytes_ ? End::kLost : End::kContinued);
    if (before != End::kOwn) FailChanged();
    return;
  }
  Write();
}

void AuditLog::FailChanged() const {
  if (end_ == End::kElsewhere) {
    throw FailureError(
        fmt::format("{}: was moved or removed, or another file was put in its place, and the "
                    "records so far are in the file that was there: was it rotated or edited? "
                    "Continue the run with another audit log, and leave it where it is until the "
                    "run is done",
                    path_));
  }
  if (end_ == End::kLost) {
    throw FailureError(
        fmt::format("{}: records of this run are gone: another process truncated the file, or its "
                    "disk or file server lost what it had accepted (is a disk or a quota full?)",
                    path_));
  }
  throw FailureError(
      fmt::format("{}: another process has added records, so this run's own would break the chain: "
                  "give each job an audit log of its own",
                  path_));
}

void AuditLog::Write() {
  std::string text;
  std::string head = head_;
  std::int64_t records = records_;
  for (nlohmann::json& record : unwritten_) {
    record["n"] = records++;
    // Names come from other processes: invalid UTF-8 must not end the run.
    const std::string words = JsonTextReplacing(record);
    head = ChainOf(head, words);
    text += fmt::format("{}{}{}{}}}\n", kChain, head, kRecord, words);
  }
  has_written_ = true;
  int error = AppendAll(descriptor_, text);
  if (error == 0 && syncs_each_write_) error = SyncToDisk(descriptor_);
  if (error != 0) {
    // Otherwise the file would end in a part of these lines, and they would be added once more.
    if (::ftruncate(descriptor_, bytes_) != 0) end_ = End::kContinued;
    Fail("write", error);
  }
  bytes_ += static_cast<std::int64_t>(text.size());
  records_ = records;
  head_ = std::move(head);
  unwritten_.clear();
}

void AuditLog::Sync() {
  if (!unwritten_.empty()) FlushWhenFree();
  if (end_ != End::kOwn) FailChanged();
  RequireInPlace();
  SyncWritten();
}

void AuditLog::DropUnwritten() {
  unwritten_.clear();
}

void AuditLog::SyncWritten() const {
  RequireSynced();
  if (const int error = SyncToDisk(descriptor_)) sync_error_ = error;
  RequireSynced();
}

void AuditLog::RequireSynced() const {
  const int error = sync_error_;
  if (error == 0) return;
  // Not as a full disk: with more room, the lost records would still be lost.
  throw FailureError(
      fmt::format("{}: cannot sync, so records may be lost: {}; after this, continue the run only "
                  "with another audit log",
                  path_, SystemErrorText(error)));
}

}  // namespace acan
