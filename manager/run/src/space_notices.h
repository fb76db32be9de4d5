// SpaceNotices: handles the space's notices to a manager: tasks that fail or can never run, results
// that are lost or differ, and clients that the space mistrusts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/audits.h"
#include "acan/manager/manager_events.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"
#include "tuplespace/log_quota.h"

namespace acan {

class SpaceNotices {
 public:
  // `post` queues events for the core; `keep` gets each new conflict; `conflicts` are those of
  // earlier lives. The context must outlive it.
  SpaceNotices(const RunContext& context, std::function<void(ManagerEvent)> post,
               std::function<void(const ResultConflict&)> keep,
               std::vector<ResultConflict> conflicts)
      : context_(context),
        post_(std::move(post)),
        keep_(std::move(keep)),
        conflicts_(std::move(conflicts)) {}

  // Throws Error (failure) for problems that no handler can solve. `audits`: null if there are
  // none. `spares`: ManagerCore::MayTakeBackSpares.
  void On(tuplespace::Notice&& notice, const Audits* audits, bool spares);
  // If an input of a task has a wrong size, the task fails on every handler. While an audit may
  // still find the cause, this does not end the run: the verdict begins a new life without the
  // wrong handler. After that it does: throws Error (failure).
  void FollowParked(const Audits* audits) const;
  // An audit has found the wrong handler, and the run begins anew: nothing else counts any more.
  void OnVerdict() { begins_anew_ = true; }
  // From now on the run goes back: its tasks are removed, late notices about them do not count, and
  // the audits that could explain failures are forgotten.
  void OnGoingBack() {
    parked_.clear();
    wants_spares_ = false;
    goes_back_ = true;
  }
  // The run went back; `lost_again`: results were lost again in the meantime.
  void OnWentBack(bool lost_again) {
    goes_back_ = false;
    results_lost_ = lost_again;
  }
  // Audits have forgotten results that differ.
  void OnUndecided(const AuditConflict& conflict);
  // A step that was computed again had another outcome, as `text` says.
  void OnNotRepeated(std::int64_t step, const std::string& text);
  // Adds a conflict, and returns whether it is new: a snapshot written by an earlier life of this
  // process contains conflicts that are already known.
  bool AddConflict(const ResultConflict& conflict);

  const std::vector<ResultConflict>& conflicts() const { return conflicts_; }

 private:
  void OnConflict(const tuplespace::Notice& notice);
  void OnMistrusted(const tuplespace::Notice& notice);
  void Keep(const ResultConflict& conflict);

  const RunContext& context_;
  const std::function<void(ManagerEvent)> post_;
  const std::function<void(const ResultConflict&)> keep_;
  std::vector<ResultConflict> conflicts_;   // of all lives
  std::vector<tuplespace::Notice> parked_;  // tasks that failed while an audit may explain it
  tuplespace::LogQuota mistrusted_;         // lines about each key
  bool results_lost_ = false;               // until the run has gone back
  bool wants_spares_ = false;               // until the run goes back
  bool goes_back_ = false;
  bool begins_anew_ = false;
};

}  // namespace acan
