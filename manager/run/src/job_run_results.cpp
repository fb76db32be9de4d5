// What becomes of results in the space: removed, retired, lost; and how a JobRun goes back.
#include <algorithm>

#include "acan/core/error.h"
#include "acan/manager/tuple_names.h"
#include "fmt/format.h"
#include "job_run.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

void JobRun::OnNotice(tuplespace::Notice&& notice) {
  switch (notice.kind) {
    case tuplespace::Notice::Kind::kParked:
      parked_.push_back(std::move(notice));
      return FollowParked();
    case tuplespace::Notice::Kind::kLost:
      results_lost_ = true;
      Step(ResultsLost{notice.text});
      return;
    case tuplespace::Notice::Kind::kOrphaned:
      if (results_lost_) return;  // the run goes back, and removes the task
      throw FailureError(fmt::format("task {} can never run, its inputs are gone: {}",
                                     notice.key.ToString(), notice.text));
    case tuplespace::Notice::Kind::kConflict:
      return NoteConflict(notice);
    case tuplespace::Notice::Kind::kMistrusted:
      Log(notice.text);
      return;
    case tuplespace::Notice::Kind::kWanted:
    case tuplespace::Notice::Kind::kReleased:
      return;  // nothing stays here
  }
}

// A task fails on every handler if one of its inputs has a wrong size. As long as an audit may
// still find that out, it is no reason to end the run: the verdict begins it anew, without who
// lied.
void JobRun::FollowParked() {
  for (const tuplespace::Notice& notice : parked_) {
    if (core_ && core_->audits() && !core_->audits()->InputsAreDecided(notice.key)) continue;
    throw FailureError(fmt::format("task {} failed too often; handler {} said last: {}",
                                   notice.key.ToString(), notice.by, notice.text));
  }
}

// Devices of other kinds round otherwise where speed is asked for: that is no fault.
void JobRun::NoteConflict(const tuplespace::Notice& notice) {
  if (job_.training.precision != Precision::kExact) return;
  Log(
      fmt::format("corruption: {} was put twice with different bytes, the second time by {}; "
                  "the first counts. {}",
                  notice.key.ToString(), notice.by, notice.text));
  AddConflict({notice.key.ToString(), notice.text});
}

// A snapshot that a life of this process wrote names what this one knows already.
void JobRun::AddConflict(const ResultConflict& conflict) {
  constexpr std::size_t kMostConflicts = 100;
  const bool known = std::any_of(conflicts_.begin(), conflicts_.end(), [&](const auto& other) {
    return other.key == conflict.key && other.text == conflict.text;
  });
  if (!known && conflicts_.size() < kMostConflicts) conflicts_.push_back(conflict);
}

// Who is there, what the space has for them, and a few of the tasks that nobody has done.
void JobRun::Do(const Stalled& action) {
  std::string workers;
  WorkersSeen seen;
  for (const auto& [id, handler] : handlers_) {
    if (handler.tasks > 0) seen.workers.insert(id);
    workers += fmt::format("{}{} did {}", workers.empty() ? "" : ", ", handler.name, handler.tasks);
  }
  Log(
      fmt::format("no task was done for {:.0f} s: step {} lacks the results of {} tasks; {} tasks "
                  "can be taken, {} are taken; tasks done so far: {}",
                  action.seconds, action.step, action.in_flight, action.space.tasks_ready,
                  action.space.tasks_leased, workers));
  tuplespace::List list;
  list.pattern = {
      {FieldPattern::Exact(run_), FieldPattern::Exact(action.step), FieldPattern::Exact("task")},
      true};
  list.limit = 3;
  list.metadata_only = true;
  client_.Submit(list, [this](tuplespace::ReplyBody&& reply) {
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return;
    for (const tuplespace::FoundTuple& task : found->tuples) {
      Log(fmt::format("not done: {}", task.key.ToString()));
    }
  });
  if (action.asks_who_works) Step(seen);
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
  parked_.clear();  // they were taken back
  Mover().Move(run_, action.version, action.from, action.to);
  // More may have been lost meanwhile.
  results_lost_ = std::any_of(events_.begin(), events_.end(), [](const ManagerEvent& event) {
    return std::holds_alternative<ResultsLost>(event);
  });
  Step(WeightsReady{action.generation});
}

}  // namespace acan
