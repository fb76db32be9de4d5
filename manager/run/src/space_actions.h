// SpaceActions: executes ManagerCore's actions in the space, and reports the outcomes to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "acan/manager/kept_data.h"
#include "acan/manager/kept_state.h"
#include "acan/manager/leadership.h"
#include "acan/manager/manager_core.h"
#include "acan/manager/reads_in_turn.h"
#include "acan/manager/run_context.h"
#include "acan/manager/tile_mover.h"
#include "audit_trail.h"
#include "run_statistics.h"

namespace acan {

class SpaceActions {
 public:
  // The references must outlive it. `post` queues events for the core, which must not be stepped
  // before the action is done.
  SpaceActions(RunContext& context, Leadership& leadership, RunStatistics& statistics,
               AuditTrail& audits, std::function<void(ManagerEvent)> post)
      : context_(context),
        leadership_(leadership),
        statistics_(statistics),
        audits_(audits),
        post_(std::move(post)),
        kept_data_(context.client),
        kept_state_([this](tuplespace::RequestBody body) { Submit(std::move(body)); },
                    context.job_id, context.run),
        reports_(kMaxReports, [this](tuplespace::Read read, ReadsInTurn::Then then) {
          SubmitRead(std::move(read), std::move(then));
        }) {}

  // `plan` is the one under which the action was made.
  void PutData(const PutPassData& action, const Plan& plan);
  // Notices about data that stays here.
  void OnNotice(const tuplespace::Notice& notice) { kept_data_.On(notice); }
  // The number of rows of a pass whose label is a class; -1: all rows of every pass.
  std::int64_t CountedRows(const PutPassData& pass);
  void Do(PutTasks& action);
  void Do(const PutVote& action);
  void Do(const DropVote& action);
  void Do(const ReadLosses& action);
  void Do(const RemoveResults& action);
  void Do(const RemoveStep& action);
  void Do(const RetireThrough& action);
  void Do(const MakeSafe& action);
  void Do(const DropCopy& action);
  void SayStalled(const Stalled& action);
  // The run goes back; the caller posts WeightsReady.
  void GoBack(const MoveTiles& action);

  // Sends a request without waiting for the answer; Poll throws if the answer is an error.
  void Submit(tuplespace::RequestBody body);
  void CancelReads();
  // Calls `check`, if set, while it waits.
  TileMover Mover(std::function<void()> check = nullptr);
  KeptState& kept_state() { return kept_state_; }
  std::int64_t tasks_put() const { return tasks_put_; }
  // Requests that put tasks, or data for them, and are not answered.
  std::uint64_t puts_under_way() const { return puts_under_way_; }

 private:
  // Of a broker's 1,024 requests per client. The others are for the votes of audits, which decide
  // the results that the reports wait for.
  static constexpr std::size_t kMaxReports = 256;
  // Of the completion of tasks that are put together.
  struct Report {
    UnitId unit = 0;
    std::uint64_t generation = 0;
    std::size_t first = 0;                   // the index of its first task in the unit
    tuplespace::Read read = {};              // of the results that show it
    std::vector<Work> work = {};             // by task
    std::vector<std::size_t> first_of = {};  // by task: index into the patterns
  };
  struct Copying {  // of a version's tiles into the space
    VersionSafe version;
    std::vector<TileCell> tiles;
    tuplespace::RequestId read = 0;  // of the next tiles
  };

  void OrderEpoch(std::int64_t epoch);
  std::function<std::int64_t(std::int64_t)> SamplesOf(const PutPassData& action);
  const SampleSet& SetOf(const PutPassData& action) const {
    return action.test ? *context_.data.test : *context_.data.train;
  }
  // Counts a request that puts tasks or data. Returns the handler of its reply.
  tuplespace::Client::ReplyHandler CountPut();
  // Made before the tasks become tuples.
  Report ReportOf(const PutTasks& action, std::size_t begin, std::size_t end) const;
  void ReadDone(Report report);
  void OnChunk(ChunkDone event, tuplespace::Found&& found);
  void CopyNext(const std::shared_ptr<Copying>& copying, std::size_t begin);
  tuplespace::RequestId SubmitRead(tuplespace::Read read, ReadsInTurn::Then then);
  void OnReadFailed(const tuplespace::RequestError& error);

  RunContext& context_;
  Leadership& leadership_;
  RunStatistics& statistics_;
  AuditTrail& audits_;
  const std::function<void(ManagerEvent)> post_;
  KeptData kept_data_;
  KeptState kept_state_;
  std::int64_t tasks_put_ = 0;
  std::uint64_t puts_under_way_ = 0;
  std::set<tuplespace::RequestId> open_reads_;
  int damaged_in_a_row_ = 0;  // payloads that were read
  ReadsInTurn reports_;       // of completed tasks
  std::shared_ptr<Copying> copying_;
  // Reads of the results of votes, by the vote's task: a case has one vote after another, and the
  // results of a dropped one may arrive late.
  std::map<tuplespace::Key, tuplespace::RequestId> votes_;
  std::int64_t ordered_epoch_ = -1;  // the epoch of `order_`
  std::vector<std::int64_t> order_;
};

}  // namespace acan
