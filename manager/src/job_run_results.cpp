// What becomes of results in the space: removed, retired, lost; and how a JobRun goes back.
#include <algorithm>

#include "acan/core/error.h"
#include "fmt/format.h"
#include "job_run.h"
#include "tuple_names.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

void JobRun::OnNotice(tuplespace::Notice&& notice) {
  switch (notice.kind) {
    case tuplespace::Notice::Kind::kParked:
      throw FailureError(fmt::format("task {} failed too often; handler {} said last: {}",
                                     notice.key.ToString(), notice.by, notice.text));
    case tuplespace::Notice::Kind::kLost:
      results_lost_ = true;
      Step(ResultsLost{notice.text});
      return;
    case tuplespace::Notice::Kind::kOrphaned:
      if (results_lost_) return;  // the run goes back, and removes the task
      throw FailureError(fmt::format("task {} can never run, its inputs are gone: {}",
                                     notice.key.ToString(), notice.text));
    case tuplespace::Notice::Kind::kConflict:
      Log(
          fmt::format("corruption: {} was put twice with different bytes, the second time by {}; "
                      "the first counts. {}",
                      notice.key.ToString(), notice.by, notice.text));
      return;
    case tuplespace::Notice::Kind::kMistrusted:
      Log(notice.text);
      return;
    case tuplespace::Notice::Kind::kWanted:
    case tuplespace::Notice::Kind::kReleased:
      return;  // nothing stays here
  }
}

void JobRun::Do(const RemoveResults& action) {
  for (const Key& key : action.keys) Submit(tuplespace::Retire{Pattern::Of(key), false});
}

void JobRun::Do(const RemoveStep& action) {
  for (Pattern& pattern : StepWithoutTiles(run_, action.step)) {
    Submit(tuplespace::Retire{std::move(pattern), false});
  }
}

void JobRun::Do(const RetireThrough& action) {
  Submit(tuplespace::Retire{{{FieldPattern::Exact(run_), FieldPattern::AtMost(action.step)}, true},
                            true});
}

void JobRun::Do(const MoveTiles& action) {
  for (const tuplespace::RequestId id : open_reads_) Submit(tuplespace::Cancel{id});
  Mover().Move(run_, action.version, action.from, action.to);
  // More may have been lost meanwhile.
  results_lost_ = std::any_of(events_.begin(), events_.end(), [](const ManagerEvent& event) {
    return std::holds_alternative<ResultsLost>(event);
  });
  Step(WeightsReady{action.generation});
}

}  // namespace acan
