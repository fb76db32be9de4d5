// JobRun: one life of a job's training: joins the broker, takes the lead, finds out where to begin,
// and drives ManagerCore until the job is done, or the lead is lost with the broker or the
// connection.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acan/manager/audit_log.h"
#include "acan/manager/folder_lock.h"
#include "acan/manager/kept_metrics.h"
#include "acan/manager/manager.h"
#include "acan/manager/manager_core.h"
#include "acan/manager/metrics_log.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/snapshot_writer.h"
#include "acan/manager/tile_mover.h"
#include "acan/manager/tuning.h"
#include "handler_speeds.h"
#include "time_left.h"
#include "tuplespace/client.h"

namespace acan {

// What this life was made of is gone, or somebody else may lead: begin another one.
struct RunLost {
  std::string why;
};
// Handlers were wrong: what this life made of their results must go. Begin another one without
// them.
struct HandlersWrong {
  std::map<std::string, std::string> handlers;  // client ids, and why
};
// The run diverged. Versions up to `finite_through` may be good, no later one is. Begin another
// life, which does the steps from the last good version on again, and keeps the last good weights.
struct NotFiniteFound {
  std::int64_t finite_through = 0;
};
struct Stopped {};  // thrown by what waits, because of Stop

// Of this process.
struct EarlierLives {
  int count = 0;
  std::vector<std::string> runs;                   // something of them may be left in the space
  std::map<std::string, std::string> quarantined;  // handlers that were wrong in one, and why
  std::vector<ResultConflict> conflicts;
  std::optional<std::int64_t> finite_through = {};  // of NotFiniteFound, after one
  std::shared_ptr<FolderLock> folder = {};          // the lock of the output folder, if it was had
};

class JobRun {
 public:
  // The references must outlive it. What is left of earlier lives is removed.
  JobRun(const ManagerOptions& options, const Job& job, const Data& data, EarlierLives earlier);

  // nullopt if stopped. Throws Error, RunLost, HandlersWrong, NotFiniteFound.
  std::optional<Receipt> Run();
  // Thread safe. Run saves what a training has done, for so long at most, and ends.
  void Stop(std::int64_t within_us);

  // The runs of which something may be left in the space, this one's among them.
  std::vector<std::string> RunsLeft() const;
  const std::vector<ResultConflict>& conflicts() const { return conflicts_; }
  std::shared_ptr<FolderLock> folder() const { return folder_; }  // null: not had

 private:
  static constexpr std::int64_t kPollUs = 50'000;
  static constexpr std::int64_t kLeaderLeaseUs = 10'000'000;
  static constexpr std::int64_t kExtendEveryUs = 2'000'000;

  void Connect();
  void TakeLeadership();
  void ExtendLeadership();
  void KeepLead();  // for whatever may wait longer than the lead's lease; throws Stopped
  tuplespace::Key RunKey(const std::string& name) const;
  void FindEarlierRuns();
  void AwaitLead();
  void LockFolder();
  void GiveUpFolderIfWithoutLeadSince(std::int64_t since_us);
  std::optional<Receipt> FinishedBefore();
  void FindBeginning();
  void FindInSpace(const std::string& name);
  bool FileMetricsAreOfThisJob() const;
  void ConfirmLead();
  std::optional<std::string> ReceiptText() const;  // nullopt: there is no such file
  void OpenInitialWeights();
  void BeginFiles();
  void CarryMetrics();
  std::optional<Receipt> Begin();  // the receipt, if the job is done already
  static std::int64_t NowUs();
  void RemoveRun(const std::string& name, tuplespace::Client::Duration wait);
  void RemoveEarlierRuns();
  void GiveUpLead();
  void SayGoodbye();
  void LookAtHandlers();
  void LookAtSpace();
  void Turn();
  // Events wait until no handler of the client runs: what they ask for may wait for the client.
  void Step(ManagerEvent event) { events_.push_back(std::move(event)); }
  void StepAll();
  void NoteTuning();
  void MeasureOverhead();
  void Apply(std::vector<ManagerAction> actions);
  void Submit(tuplespace::RequestBody body);
  tuplespace::RequestId SubmitRead(tuplespace::Read read,
                                   std::function<void(tuplespace::Found&&)> then);
  void OnNotice(tuplespace::Notice&& notice);
  void SendProgress();
  void Log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  void ThrowIfStopped();
  void FollowStop();
  void SayStopped() const;
  bool SomebodyStandsBy();
  void PollOnce();  // for a little while at most, and keeps the lead
  TileMover Mover() {
    return {client_, [this] { KeepLead(); }};
  }
  std::string OutPath(const char* name) const { return options_.out_dir + "/" + name; }
  double SecondsSoFar() const;

  void OrderEpoch(std::int64_t epoch);
  void Do(const PutPassData& action);
  void Do(PutTasks& action);
  void ReadDone(const PutTasks& action, std::size_t begin, std::size_t end);
  void Do(const PutVote& action);
  void Do(const DropVote& action);
  void Do(const Quarantine& action);
  void Do(const ReadLosses& action);
  void Do(const LoadWeights& action);
  void Do(const RemoveResults& action);
  void Do(const RemoveStep& action);
  void Do(const RetireThrough& action);
  void Do(const MoveTiles& action);
  void Do(TakeSnapshot& action);
  void Do(const DropSnapshot&);
  void Do(const ReadyToStop& action);
  bool SnapshotMayCommit() const;
  void TakeSnapshotDone();
  void CheckMetrics() const;
  void Do(const StepCommitted& action);
  void Do(const Evaluated& action);
  void NoteConflict(const tuplespace::Notice& notice);
  void Do(const Stalled& action);
  void Do(const Say& action) { Log(action.text); }
  void Do(const GiveUp& action);
  void Do(AllDone& action) { final_tiles_ = std::move(action.tiles); }
  RunState StateAt(std::int64_t version) const;
  void WriteWeights();
  Receipt Finish();

  // ---- losses and weights that are not finite (job_run_not_finite.cpp)
  void NoteEarlierNotFinite();
  void LookAtStep(const StepCommitted& action);
  void NoteNotFinite(const NotFinite& found);
  void KeepVersion(std::int64_t version);
  void WriteKept();

  // ---- wrong results (job_run_audits.cpp)
  bool WatchesResults() const { return job_.tasks.audit > 0 || audit_log_; }
  void CheckAuditLog() const;
  void OpenAuditLog();
  void FindQuarantined();
  void OnChunk(ChunkDone event, tuplespace::Found&& found);
  std::pair<std::int64_t, std::int64_t> AuditsSoFar() const;  // passed, skipped; of all lives
  void AddAudits();                                           // to the receipt

  const ManagerOptions& options_;
  const Job& job_;
  const Data& data_;
  const int earlier_lives_;
  // Set: this life looks for the last good weights, which are of this version at the latest.
  const std::optional<std::int64_t> finite_through_;
  std::vector<std::string> earlier_runs_;           // in the space, of managers that are gone
  std::map<std::string, std::string> quarantined_;  // client ids, and why
  std::set<std::string> contributors_;  // of whose results something may be in what is there now
  std::optional<AuditLog> audit_log_;
  std::map<AuditId, tuplespace::RequestId> votes_;  // reads of their results
  const std::string job_id_;
  tuplespace::Client client_;
  const std::string run_;  // names this life's tuples
  // Of the output folder: from when this one leads to its end. A manager that waits for the lead or
  // for a broker gives it up, as it may be another one's turn.
  std::shared_ptr<FolderLock> folder_;
  std::optional<SnapshotFolder> snapshots_;
  std::unique_ptr<MetricsLog> metrics_;  // the snapshots' thread looks at it
  std::optional<SnapshotWriter> snapshot_writer_;
  std::optional<KeptMetrics> kept_metrics_;

  std::unique_ptr<ManagerCore> core_;
  std::deque<ManagerEvent> events_;
  // How long it may take to stop; kGoOn: nobody wants it to.
  static constexpr std::int64_t kGoOn = INT64_MAX;
  std::atomic<std::int64_t> stop_within_us_{kGoOn};
  struct Stopping {
    std::int64_t by_us = 0;
    bool asked_core = false;
    std::optional<ReadyToStop> ready = {};
  };
  std::optional<Stopping> stopping_;
  std::optional<tuplespace::LeaseRef> leadership_;
  bool trains_ = false;               // from Begin to the end
  bool results_lost_ = false;         // until the run has gone back
  std::int64_t disconnected_us_ = 0;  // since when, if it is
  bool leads_ = false;  // not while it is asked again: after a reconnection, and by ConfirmLead
  std::unique_ptr<TileSource> beginning_;  // the weights to begin with; null: drawn
  std::shared_ptr<const ModelReader> beginning_file_;
  std::unique_ptr<TileSource> initial_;  // the job's initial weights, if it has some
  RunState past_;                        // of earlier lives
  std::int64_t saved_version_ = 0;       // the one to begin with, if it has a snapshot
  EarlierMetrics earlier_metrics_;
  std::optional<std::string> earlier_receipt_;  // of a run that is to be done anew

  std::set<tuplespace::RequestId> open_reads_;
  std::optional<std::vector<TileCell>> final_tiles_;
  std::pair<std::int64_t, std::vector<std::int64_t>> order_{-1, {}};  // an epoch and its order
  std::int64_t next_look_us_ = 0, next_list_us_ = 0, next_extend_us_ = 0, begin_us_ = 0;
  bool listing_ = false, looking_ = false;
  std::deque<std::pair<std::int64_t, std::int64_t>> recent_;  // (time, samples)
  TimeLeft time_left_;
  Progress progress_;
  Tuning tuning_;
  bool tuning_due_ = false;
  std::unique_ptr<TuningLog> tuning_log_;
  HandlerSpeeds speeds_;
  double overhead_us_ = 0;
  std::map<std::string, HandlerSeen> handlers_;  // by client id
  std::vector<ResultConflict> conflicts_;        // of all lives
  std::optional<tuplespace::Counters> first_counters_;
  Receipt receipt_;
};

}  // namespace acan
