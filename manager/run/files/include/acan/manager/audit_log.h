// AuditLog: a log of who computed what, in a file that reveals changes. It has JSON lines, each
// with a hash that covers the lines before it and its own record:
//
//   {"chain":"<64 hex digits>","record":{"n":0,...}}
//
// chain = SHA-256(the previous chain, as hex + the record, as written); before the first line the
// chain is 64 zeros. So the last chain, which the receipt keeps (audit_log_head), covers the whole
// file.
//
// A manager that has lost the lead may not know it yet when its successor opens the log. So each
// write happens under a lock, and only if the file still ends where this log left it. The lock is
// that of a file beside the log, FILE.lock, which only those can open who may write to the log.
// Thus nobody who can only read the log can delay a run. On a file server, what was written reaches
// the server before the lock is released, so that a successor on another host continues after it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
// Is called with each correct record, in order: its chain, and its JSON text.
using OnAuditRecord = std::function<void(const std::string& chain, std::string_view record)>;
// Throws Error (usage) if the file cannot be read. The file may be long: `go_on`, if set, is called
// about once per MiB, and may throw to end the check.
AuditLogCheck CheckAuditLog(const std::string& path, const std::function<void()>& go_on = {},
                            const OnAuditRecord& on_record = {});

class AuditLog {
 public:
  // Called during long work with 0, and while another process has the lock with the time that the
  // function should wait. May throw to end the work.
  using GoOn = std::function<void(std::chrono::microseconds wait)>;

  // Creates the file, or continues an existing one, to which it only appends. Cuts off an
  // incomplete last line, and then sets `*said`. Throws Error (usage) for a file that is not an
  // unbroken log, Error (failure) with the path and the system's message, if another process has
  // had the lock for 10 s, or if the file was moved, replaced or removed meanwhile. `go_on`, if
  // set, is called here, by Flush and by Sync.
  explicit AuditLog(const std::string& path, std::string* said = nullptr, GoOn go_on = {});
  ~AuditLog();  // writes what is buffered, if it can at once; removes the lock's file
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Creates the file if it does not exist, and changes nothing. Throws Error (failure) if it or its
  // lock cannot be written.
  static void CheckWritable(const std::string& path);

  // Adds the record with its number, "n". Buffered until Flush, or until there are some hundreds.
  // Never waits.
  void Add(nlohmann::json record);
  // Writes the buffer to the system: it survives the end of this process. If another process has
  // the lock, it waits only if the buffer is large. The first time that the file does not end with
  // this log's last record, the buffer is dropped, because this manager has probably lost the lead;
  // the second time, it throws Error (failure). If another file has its path now, or none, it drops
  // the buffer and throws at once: its records would be where nobody looks for them.
  void Flush();
  // As Flush, and then to the disk: it survives a power failure. Throws Error (failure) if anything
  // that was added is not in the file.
  void Sync();
  // Syncs what has been flushed. Any thread, beside other calls. The system reports records that it
  // could not write to the disk only once, so after such a failure this throws each time, and so do
  // Flush and Sync: nothing can write these records again.
  void SyncWritten() const;
  // Drops the buffer: another manager leads.
  void DropUnwritten();
  // REQUIRES: nothing was added since the last Flush.
  const std::string& head() const { return head_; }

 private:
  // How the file ends.
  enum class End : std::uint8_t {
    kOwn,        // as this log left it
    kContinued,  // others have added records since
    kLost,       // records of this log are gone
    kElsewhere,  // its path leads to another file or to none, or did so for a while
  };

  [[noreturn]] void Fail(const std::string& doing, int error) const;
  [[noreturn]] void FailChanged() const;
  void RequireSynced() const;
  bool IsInPlace() const;
  void RequireInPlace();  // throws as Flush
  void ContinueFrom(const AuditLogCheck& check);
  void FlushIfFree();
  void FlushWhenFree();
  void FlushLocked(const GoOn& go_on);
  void Write();

  const std::string path_;
  std::string lock_path_;  // stays, wherever `path_` leads
  const GoOn go_on_;
  int descriptor_ = -1;
  bool syncs_each_write_ = false;  // the file may lie on a file server
  // The file, as this log left it.
  std::int64_t records_ = 0;
  std::int64_t bytes_ = 0;
  std::string head_;
  bool has_written_ = false;
  End end_ = End::kOwn;
  mutable std::atomic<int> sync_error_ = 0;  // of the sync that failed
  std::vector<nlohmann::json> unwritten_;
};

}  // namespace acan
