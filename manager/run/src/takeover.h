// Takeover: how a life acquires and releases what only one manager of a job may have: the lead, the
// lock of the output folder, and the remains of earlier lives in the space. Owned by JobRun, for
// its thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/earlier_runs.h"
#include "acan/manager/folder_claim.h"
#include "acan/manager/leadership.h"
#include "acan/manager/run_context.h"
#include "acan/manager/stop_request.h"

namespace acan {

class Takeover {
 public:
  // `lock` and `earlier_runs` are those of earlier lives of this process. The references must
  // outlive it.
  Takeover(RunContext& context, StopRequest& stop, std::shared_ptr<FolderLock> lock,
           std::vector<std::string> earlier_runs)
      : folder_(context, std::move(lock)),
        leadership_(context, stop, folder_),
        earlier_runs_(context, leadership_, std::move(earlier_runs)) {}
  Takeover(const Takeover&) = delete;
  Takeover& operator=(const Takeover&) = delete;

  FolderClaim& folder() { return folder_; }
  const FolderClaim& folder() const { return folder_; }
  Leadership& leadership() { return leadership_; }
  const Leadership& leadership() const { return leadership_; }
  EarlierRuns& earlier_runs() { return earlier_runs_; }
  const EarlierRuns& earlier_runs() const { return earlier_runs_; }

  // Waits until everything is acquired. The folder comes last, because earlier runs have no manager
  // once this one leads. `make_room` removes from the folder what a resumed run need not keep; as
  // for FolderLock::Take. REQUIRES: leadership().Connect().
  void Take(const std::function<bool()>& make_room) {
    leadership_.Take();
    earlier_runs_.Find();
    folder_.Take(
        earlier_runs_.names(), [this] { leadership_.PollOnce(); }, make_room);
  }
  // The job is done. Releases the folder first, before another manager can lead. False: see
  // Leadership::GiveUp.
  bool GiveUp() {
    folder_.GiveUp();
    return leadership_.GiveUp();
  }
  // The life ends before the job does. A standby manager continues from this run's tuples in the
  // space.
  void LeaveToOthers() {
    if (!leadership_.SomebodyStandsBy()) earlier_runs_.SayGoodbye();
  }

 private:
  FolderClaim folder_;
  Leadership leadership_;
  EarlierRuns earlier_runs_;
};

}  // namespace acan
