// AuditLog: a log of who computed what, in a file that reveals changes. It has JSON lines, each
// with a hash that covers the lines before it and its own record:
//
//   {"chain":"<64 hex digits>","record":{"n":0,...}}
//
// chain = SHA-256(the previous chain, as hex + the record, as written); before the first line the
// chain is 64 zeros. So the last chain, which the receipt keeps (audit_log_head), covers the whole
// file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace acan {

// The result of checking a log.
struct AuditLogCheck {
  std::int64_t records = 0;            // correct ones, from the beginning
  std::string head;                    // the chain of the last correct record
  std::int64_t bytes = 0;              // the size of the correct records
  bool torn = false;                   // the last line is incomplete, because its writer was killed
  std::optional<std::string> problem;  // with the first broken line; names its number
};
// Throws Error (usage) if the file cannot be read. The file may be long: `go_on`, if set, is called
// about once per MiB, and may throw to end the check.
AuditLogCheck CheckAuditLog(const std::string& path, const std::function<void()>& go_on = {});

class AuditLog {
 public:
  // Creates the file, or continues an existing one, to which it only appends. Cuts off an
  // incomplete last line, and then sets `*said`. Throws Error (usage) for a file that is not an
  // unbroken log, Error (failure) with the path and the system's message. `go_on`: as for
  // CheckAuditLog.
  // REQUIRES: nobody else adds to the file from now on.
  explicit AuditLog(const std::string& path, std::string* said = nullptr,
                    const std::function<void()>& go_on = {});
  ~AuditLog();  // writes what is buffered
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Creates the file if it does not exist, and changes nothing. Throws Error (failure) if it cannot
  // be written.
  static void CheckWritable(const std::string& path);

  // Adds the record with its number, "n". Buffered until Flush, or until the buffer has some KiB.
  void Add(nlohmann::json record);
  void Flush();  // to the system: survives the end of this process
  void Sync();   // to the disk: survives a power failure
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
