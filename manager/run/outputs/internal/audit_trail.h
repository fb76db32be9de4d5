// AuditTrail: whose results are in a run, and which handlers were wrong: the audit log, the
// handlers in quarantine, and those that had a part in the weights. See audits.h for what is
// audited.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acan/manager/audit_log.h"
#include "acan/manager/audits.h"
#include "acan/manager/leadership.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"
#include "acan/manager/snapshot.h"

namespace acan {

class AuditTrail {
 public:
  // `log_path`: of the AuditLog; empty: none. `quarantined`: client ids of handlers that were wrong
  // in an earlier life, or keys ("name/") of which several were, and why. The context must outlive
  // it.
  AuditTrail(RunContext& context, std::string log_path,
             std::map<std::string, std::string> quarantined)
      : context_(context), log_path_(std::move(log_path)), quarantined_(std::move(quarantined)) {}

  // Throws Error (failure) if the log cannot be written.
  void CheckWritable() const;
  // When this manager leads, and so is the only one that adds to the log: until then another one,
  // or an earlier life, may have lines for it. It may be long.
  void Open(Leadership& leadership);
  // The space keeps who is quarantined for the next manager of this job, too. Their snapshots go.
  void FindQuarantined(const SnapshotFolder* snapshots);
  // A life begins from `past`.
  void Begin(const RunState& past);

  // Whether it wants to know of every result.
  bool Watches() const { return context_.job.tasks.audit > 0 || log_; }
  bool LogsAll() const { return log_.has_value(); }
  void OnResults(const std::vector<SeenResult>& results);
  // Puts the handlers of the verdict in quarantine and throws HandlersWrong.
  [[noreturn]] void Quarantine(const AuditVerdict& verdict,
                               const std::map<std::string, HandlerSeen>& known);
  void Flush();  // to the system
  void Sync();   // to the disk

  // The run is done: adds what there is to `receipt`, and ends the quarantine.
  void Finish(Receipt* receipt);

  const std::map<std::string, std::string>& quarantined() const { return quarantined_; }
  // Of whose results something may be in what is there now. Where every result is audited: in what
  // was there when this life began; Audits::unconfirmed has the others.
  const std::set<std::string>& contributors() const { return contributors_; }

 private:
  std::set<std::string> QuarantinedIds() const;

  RunContext& context_;
  const std::string log_path_;
  std::map<std::string, std::string> quarantined_;
  std::set<std::string> contributors_;
  std::optional<AuditLog> log_;
};

// What is known of the results that a read has found.
std::vector<SeenResult> SeenResults(tuplespace::Found&& found);

}  // namespace acan
