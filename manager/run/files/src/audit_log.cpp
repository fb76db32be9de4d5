#include "acan/manager/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/sha256.h"
#include "acan/manager/text_file.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

constexpr std::size_t kDigits = 64;
constexpr std::string_view kChain = R"({"chain":")";
constexpr std::string_view kRecord = R"(","record":)";
constexpr std::size_t kFlushedTogether = 256;                 // records
constexpr std::size_t kMaxUnwritten = 64 * kFlushedTogether;  // while the file is locked
constexpr std::size_t kMaxLineBytes = 1 << 20;
constexpr std::int64_t kBytesBetween = 1 << 20;  // between two calls of go_on
constexpr std::chrono::seconds kLockPatience{10};
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

// The problem of a line, if any, and the line's chain.
std::optional<std::string> ProblemOf(const std::string& line, const std::string& before,
                                     std::string* chain) {
  const std::size_t begin = kChain.size() + kDigits + kRecord.size();
  if (line.size() > kMaxLineBytes) return "is longer than any record";
  if (line.size() <= begin || !line.starts_with(kChain) || !line.ends_with('}') ||
      line.compare(kChain.size() + kDigits, kRecord.size(), kRecord) != 0) {
    return "is not a record of an audit log";
  }
  *chain = line.substr(kChain.size(), kDigits);
  const std::string_view record = std::string_view(line).substr(begin, line.size() - begin - 1);
  const std::string expected = ChainOf(before, record);
  if (*chain == expected) return std::nullopt;
  return fmt::format("does not follow from the lines before it: its chain is {}, must be {}",
                     *chain, expected);
}

enum class Patience : std::uint8_t { kTriesOnce, kWaits };

// Keeps others from writing. Where files cannot be locked, everybody holds it.
class WriteLock {
 public:
  // With kWaits, throws Error (failure) if another process holds it for 10 s.
  WriteLock(int descriptor, const std::string& path, Patience patience) : descriptor_(descriptor) {
    const auto end = std::chrono::steady_clock::now() + kLockPatience;
    while (!(held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)) {
      if (patience == Patience::kTriesOnce) return;
      if (std::chrono::steady_clock::now() >= end) {
        throw FailureError(
            fmt::format("{}: cannot write: another process has locked it for 10 s", path));
      }
      std::this_thread::sleep_for(kLockPause);
    }
  }
  ~WriteLock() {
    if (held_) ::flock(descriptor_, LOCK_UN);
  }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;
  bool held() const { return held_; }

 private:
  const int descriptor_;
  bool held_ = false;
};

}  // namespace

AuditLogCheck CheckAuditLog(const std::string& path, const std::function<void()>& go_on) {
  RequireKeptFile(path, Devices::kRefused);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  AuditLogCheck check;
  check.head = std::string(kDigits, '0');
  std::int64_t went_on = 0;  // the number of bytes at the last call
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) {
      check.torn = true;
      break;
    }
    std::string chain;
    if (const auto problem = ProblemOf(line, check.head, &chain)) {
      check.problem = fmt::format("line {} {}", check.records + 1, *problem);
      break;
    }
    check.head = chain;
    check.bytes += static_cast<std::int64_t>(line.size()) + 1;
    ++check.records;
    if (!go_on || check.bytes - went_on < kBytesBetween) continue;
    went_on = check.bytes;
    go_on();
  }
  if (file.bad()) throw UsageError(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  return check;
}

AuditLog::AuditLog(const std::string& path, std::string* said, const std::function<void()>& go_on)
    : path_(path), descriptor_(OpenToAppend(path)) {
  try {
    const WriteLock lock(descriptor_, path_, Patience::kWaits);
    const AuditLogCheck check = CheckAuditLog(path, go_on);
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
  try {
    Flush();
  } catch (const Error&) {
    // Errors are ignored here: callers that need them call Flush.
  }
  ::close(descriptor_);
}

void AuditLog::CheckWritable(const std::string& path) {
  ::close(OpenToAppend(path));
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
  if (unwritten_.size() % kFlushedTogether == 0) Flush();
}

void AuditLog::Flush() {
  if (unwritten_.empty()) return;
  const WriteLock lock(descriptor_, path_,
                       unwritten_.size() < kMaxUnwritten ? Patience::kTriesOnce : Patience::kWaits);
  if (lock.held()) FlushLocked();
}

void AuditLog::FlushLocked() {
  struct stat file = {};
  if (::fstat(descriptor_, &file) != 0) Fail("read the size", errno);
  if (file.st_size != bytes_ && !has_written_) {
    // The manager that had the lead before wrote its last records after this log had been opened.
    ContinueFrom(CheckAuditLog(path_));
  } else if (file.st_size != bytes_) {
    unwritten_.clear();
    if (std::exchange(is_continued_, true)) FailContinued();
    return;
  }
  Write();
}

void AuditLog::FailContinued() const {
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
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(descriptor_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int error = errno;
      // Otherwise the file would end in a part of these lines, and they would be added once more.
      if (::ftruncate(descriptor_, bytes_) != 0) is_continued_ = true;
      Fail("write", error);
    }
    done += static_cast<std::size_t>(wrote);
  }
  bytes_ += static_cast<std::int64_t>(text.size());
  records_ = records;
  head_ = std::move(head);
  unwritten_.clear();
}

void AuditLog::Sync() {
  if (!unwritten_.empty()) {
    const WriteLock lock(descriptor_, path_, Patience::kWaits);
    FlushLocked();
  }
  if (is_continued_) FailContinued();
  SyncWritten();
}

void AuditLog::DropUnwritten() {
  unwritten_.clear();
}

void AuditLog::SyncWritten() const {
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL) Fail("write to the disk", errno);
}

}  // namespace acan
