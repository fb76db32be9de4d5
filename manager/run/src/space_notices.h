// SpaceNotices: what the space tells a manager unasked: tasks that fail or can never run, results
// that are lost or differ.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "acan/manager/audits.h"
#include "acan/manager/manager_events.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"

namespace acan {

class SpaceNotices {
 public:
  // `post` takes what the core should know, `keep` each conflict when it is new; `conflicts`: of
  // earlier lives. The context must outlive it.
  SpaceNotices(const RunContext& context, std::function<void(ManagerEvent)> post,
               std::function<void(const ResultConflict&)> keep,
               std::vector<ResultConflict> conflicts)
      : context_(context),
        post_(std::move(post)),
        keep_(std::move(keep)),
        conflicts_(std::move(conflicts)) {}

  // Throws Error (failure) for what no handler can mend. `audits`: null if there are none.
  void On(tuplespace::Notice&& notice, const Audits* audits);
  // A task fails on every handler if one of its inputs has a wrong size. As long as an audit may
  // still find that out, it is no reason to end the run: the verdict begins it anew, without who
  // lied. Later it is one: throws Error (failure).
  void FollowParked(const Audits* audits) const;
  // An audit has found out who was wrong, and the run begins anew: nothing of it counts any more.
  void OnVerdict() { begins_anew_ = true; }
  // From here on the run goes back: its tasks are removed, and what comes late about them does not
  // count. Audits that could tell why they failed are forgotten.
  void OnGoingBack() {
    parked_.clear();
    goes_back_ = true;
  }
  // It went back, and results were lost again meanwhile or not.
  void OnWentBack(bool lost_again) {
    goes_back_ = false;
    results_lost_ = lost_again;
  }
  // Adds one, and says whether it was not known yet: a snapshot that a life of this process wrote
  // names what this one knows already.
  bool AddConflict(const ResultConflict& conflict);

  const std::vector<ResultConflict>& conflicts() const { return conflicts_; }

 private:
  void OnConflict(const tuplespace::Notice& notice);

  const RunContext& context_;
  const std::function<void(ManagerEvent)> post_;
  const std::function<void(const ResultConflict&)> keep_;
  std::vector<ResultConflict> conflicts_;   // of all lives
  std::vector<tuplespace::Notice> parked_;  // tasks that failed while an audit may tell why
  bool results_lost_ = false;               // until the run has gone back
  bool goes_back_ = false;
  bool begins_anew_ = false;
};

}  // namespace acan
