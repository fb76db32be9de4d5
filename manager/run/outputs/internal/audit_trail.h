// AuditTrail: records whose results a run contains, and which handlers were wrong: the audit log,
// the quarantined handlers, and the contributors to the weights. audits.h says what is audited.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acan/manager/audit_log.h"
#include "acan/manager/audits.h"
#include "acan/manager/contributors.h"
#include "acan/manager/leadership.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"
#include "acan/manager/snapshot.h"

namespace acan {

class AuditTrail {
 public:
  // Client ids of handlers that were wrong, or keys ("name/") with several of them; the reason.
  // Beside them, keys in doubt (DoubtfulKeys): "name/", a tab, which no client id has, a number.
  using Handlers = std::map<std::string, std::string>;

  // `log_path` is the path of the AuditLog; empty: none. `quarantined` is the quarantine of an
  // earlier life. `keep` records what is added to it for the receipt, whatever happens next. The
  // context must outlive it.
  AuditTrail(RunContext& context, std::string log_path, Handlers quarantined,
             std::function<void(const Handlers&)> keep)
      : context_(context),
        log_path_(std::move(log_path)),
        keep_(std::move(keep)),
        quarantined_(std::move(quarantined)) {}

  // Throws Error (failure) if the log cannot be written, and before it is created Error (usage) if
  // it is another file of the run.
  void CheckWritable() const;
  // Called when this manager leads and so is the only one that adds to the log. Before that,
  // another manager or an earlier life may still write to it. The log may be long, and another
  // process may have its lock: meanwhile, and in Flush and Finish, this keeps the lead.
  // `leadership` must outlive this object.
  void Open(Leadership& leadership);
  // Reads the quarantine, which the space keeps for the next manager of this job, too. Removes the
  // snapshots to which these handlers contributed, and those of `recorded`: what `keep` got in
  // earlier lives at any broker. A handler that is only recorded may work again, because somebody
  // may have repaired it. If more handlers were wrong than a task can name, the whole keys of those
  // with the most are out, even if nobody else is there; the keys' other snapshots stay.
  // Returns what all of these handlers bar: the run must not continue from such a snapshot even if
  // it could not be removed.
  [[nodiscard]] BarredSnapshots FindQuarantined(const SnapshotFolder* snapshots, Handlers recorded);
  // A life begins in the state `past`.
  void Begin(const RunState& past);

  // Whether it needs to know every result.
  bool Watches() const { return context_.job.tasks.audit > 0 || log_; }
  bool LogsAll() const { return log_.has_value(); }
  void OnResults(const std::vector<SeenResult>& results);
  // These handlers have put results of tasks.
  void OnContributors(const std::set<std::string>& handlers);
  // Puts the handlers of the verdict in quarantine and throws HandlersWrong. The keys are in doubt,
  // up to the failures of this life, if handlers with other keys are there. `known` may have left;
  // `present` can compute tasks of the job now.
  [[noreturn]] void Quarantine(const AuditVerdict& verdict,
                               const std::map<std::string, HandlerSeen>& known,
                               const std::set<std::string>& present);
  void Flush();  // to the system
  // Syncs what has been flushed. Any thread, after Open.
  void SyncFlushed() const;
  void DropUnflushed();  // another manager may lead, or the steps will be repeated

  // The run is done: adds its records to `receipt`, and ends the quarantine.
  void Finish(Receipt* receipt);

  const Handlers& quarantined() const { return quarantined_; }
  // The handlers whose results may be in the current weights. If every result is audited, only
  // those that were there when this life began; Audits::unconfirmed has the others.
  const std::set<std::string>& contributors() const { return contributors_.names(); }
  // There may be others, of earlier lives.
  bool has_unnamed_contributors() const { return unnamed_; }

 private:
  void ExcludeOverLimit();
  std::set<std::string> QuarantinedIds() const;

  RunContext& context_;
  const std::string log_path_;
  const std::function<void(const Handlers&)> keep_;
  Handlers quarantined_;       // from FindQuarantined on without the keys in doubt
  Handlers recorded_;          // without those in quarantined_
  std::int64_t failures_ = 0;  // RunState::failures of this life
  Contributors contributors_;
  bool unnamed_ = false;
  std::optional<AuditLog> log_;
};

// What is known about the results that a Read has found.
std::vector<SeenResult> SeenResults(tuplespace::Found&& found);

}  // namespace acan
