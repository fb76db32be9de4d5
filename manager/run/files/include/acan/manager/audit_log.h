// AuditLog: who computed what, in a file that shows when it was changed. JSON lines, each with the
// SHA-256 of the line before and its own record:
//
//   {"chain":"<64 hex digits>","record":{"n":0,...}}
//
// chain = SHA-256(the chain before, as hex + the record, as written); before the first line it is
// 64 zeros. So the last chain, which the receipt keeps (audit_log_head), stands for the whole file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace acan {

// What a walk over a log finds.
struct AuditLogCheck {
  std::int64_t records = 0;  // that are right, from the beginning
  std::string head;          // the chain of the last of them
  std::int64_t bytes = 0;    // that they take
  bool torn = false;         // there is a last line without an end: what wrote it was killed
  std::optional<std::string> problem;  // of the first line that is broken; names its number
};
// Throws Error (usage) if the file cannot be read. It may be long: `go_on`, if there is one, is
// called after each MiB or so, and may throw to end it.
AuditLogCheck CheckAuditLog(const std::string& path, const std::function<void()>& go_on = {});

class AuditLog {
 public:
  // Makes the file, or goes on with one that is there: it is only ever appended to. A torn last
  // line is cut off, and said. Throws Error (usage) for a file that is no unbroken log, Error
  // (failure) naming the path and the system's words. `go_on`: as for CheckAuditLog.
  // REQUIRES: nobody else adds to it from here on.
  explicit AuditLog(const std::string& path, std::string* said = nullptr,
                    const std::function<void()>& go_on = {});
  ~AuditLog();  // writes what is left
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Makes the file if it is not there, and changes nothing. Throws Error (failure) if it cannot be
  // written.
  static void CheckWritable(const std::string& path);

  // "n", the record's number, is added. Kept in memory until Flush, or until it is some KiB.
  void Add(nlohmann::json record);
  void Flush();  // hands it to the system: it outlives this process
  void Sync();   // and to the disk: it outlives the machine's power
  const std::string& head() const { return head_; }

 private:
  [[noreturn]] void Fail(const std::string& doing, int error) const;

  const std::string path_;
  int descriptor_ = -1;
  std::int64_t records_ = 0;
  std::string head_;
  std::string unwritten_;
};

}  // namespace acan
