#include "acan/manager/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/sha256.h"
#include "acan/manager/text_file.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

constexpr std::size_t kDigits = 64;
constexpr std::string_view kChain = R"({"chain":")";
constexpr std::string_view kRecord = R"(","record":)";
constexpr std::size_t kMaxUnwrittenBytes = 64 << 10;
constexpr std::size_t kMaxLineBytes = 1 << 20;
constexpr std::int64_t kBytesBetween = 1 << 20;  // between two calls of go_on

std::string ChainOf(const std::string& before, std::string_view record) {
  Sha256 hash;
  hash.Add(before.data(), before.size());
  hash.Add(record.data(), record.size());
  return hash.Hex();
}

[[noreturn]] void FailAt(const std::string& path, const std::string& doing, int error) {
  throw FailureError(fmt::format("{}: cannot {}: {}", path, doing, SystemErrorText(error)));
}

int OpenToAppend(const std::string& path) {
  RequireKeptFile(path, Devices::kRefused);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) FailAt(path, "open", errno);
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
    : path_(path), descriptor_(OpenToAppend(path)), head_(kDigits, '0') {
  try {
    const AuditLogCheck check = CheckAuditLog(path, go_on);
    if (check.problem) {
      throw UsageError(
          fmt::format("{}: {}; a changed audit log cannot be continued: name another file", path,
                      *check.problem));
    }
    if (check.torn) {
      if (::ftruncate(descriptor_, check.bytes) != 0) Fail("cut off its torn last line", errno);
      if (said != nullptr) {
        *said = fmt::format(
            "{}: its last line was incomplete, as after a kill, and was removed; {} records before "
            "it are intact",
            path, check.records);
      }
    }
    records_ = check.records;
    head_ = check.head;
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
  FailAt(path_, doing, error);
}

void AuditLog::Add(nlohmann::json record) {
  record["n"] = records_++;
  // Names come from other processes: invalid UTF-8 must not end the run.
  const std::string text = JsonTextReplacing(record);
  head_ = ChainOf(head_, text);
  unwritten_ += fmt::format("{}{}{}{}}}\n", kChain, head_, kRecord, text);
  if (unwritten_.size() >= kMaxUnwrittenBytes) Flush();
}

void AuditLog::Flush() {
  std::size_t done = 0;
  while (done < unwritten_.size()) {
    const ssize_t wrote = ::write(descriptor_, unwritten_.data() + done, unwritten_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) Fail("write", errno);
    done += static_cast<std::size_t>(wrote);
  }
  unwritten_.clear();
}

void AuditLog::Sync() {
  Flush();
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL) Fail("write to the disk", errno);
}

}  // namespace acan
