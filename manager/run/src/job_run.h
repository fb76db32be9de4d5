// JobRun: one life of a job's training: joins the broker, takes the lead, finds where to begin, and
// drives ManagerCore until the job is done, or until the lead, the broker or the connection is
// lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/manager/beginning.h"
#include "acan/manager/manager.h"
#include "acan/manager/run_context.h"
#include "acan/manager/stop_request.h"
#include "audit_trail.h"
#include "core_driver.h"
#include "divergence.h"
#include "run_files.h"
#include "run_statistics.h"
#include "space_actions.h"
#include "space_notices.h"
#include "takeover.h"

namespace acan {

// What was there when this process led for the first time: all of it is of other managers.
struct FoundAtFirst {
  std::vector<std::string> runs;                               // in the space
  std::vector<std::string> done;                               // receipts in the space
  std::optional<std::filesystem::file_time_type> files_begun;  // as RunFiles::BegunAt
};

// The earlier lives of this process.
struct EarlierLives {
  int count = 0;
  std::vector<std::string> runs;                   // runs that may have tuples left in the space
  std::map<std::string, std::string> quarantined;  // AuditTrail::Handlers
  std::vector<ResultConflict> conflicts;
  std::optional<NotFiniteFound> diverged = {};  // while the last good weights are sought
  std::shared_ptr<FolderLock> folder = {};      // the lock of the output folder, if held
  // The receipt in the output folder when this process began, if it began with a new run. It is of
  // an earlier run.
  std::optional<std::string> receipt = {};
  std::optional<FoundAtFirst> found = {};  // unset: no life has led
  std::optional<RunState> counted = {};    // by the last one that was of the run; see Beginning
};

class JobRun {
 public:
  // The references must outlive it. The remains of earlier lives are removed.
  JobRun(const ManagerOptions& options, const Job& job, std::shared_ptr<const TrainedModel> model,
         const Data& data, EarlierLives earlier);

  // nullopt if stopped. Throws Error, RunLost, FilesLost, HandlersWrong, NotFiniteFound.
  std::optional<Receipt> Run();
  // Thread-safe. Run saves the progress of a training, for at most this long, and ends.
  void Stop(std::int64_t within_us) { stop_.Want(within_us); }

  // ---- for the next life
  std::vector<std::string> RunsLeft() const { return takeover_.earlier_runs().Left(); }
  const std::vector<ResultConflict>& conflicts() const { return notices_.conflicts(); }
  std::shared_ptr<FolderLock> folder() const { return takeover_.folder().lock(); }  // null: none
  // Whether this life has begun the files of the run. A new run begins them with its first plan.
  bool HasBegun() const { return begun_; }
  bool Resumes() const { return resumes_; }
  // Whether it looks for the last good weights of a run that diverged.
  bool SeeksGoodWeights() const { return divergence_.IsSought(); }
  std::optional<std::string> earlier_receipt() const { return files_.earlier_receipt(); }
  const std::optional<FoundAtFirst>& found() const { return found_; }
  std::optional<RunState> Counted() const;  // nullopt: it was lost before it could begin
  // Those of the run that are done, with those of earlier lives from which it continued.
  std::int64_t committed_steps() const { return driver_.committed_steps(); }
  bool LeftStepsInSpace() const;  // as Manager::LeftStepsInSpace

 private:
  // ---- where it begins (job_run_begin.cpp)
  std::optional<Receipt> Begin();  // the receipt, if the job is done already
  void ChooseWhatToBegin();
  bool AnotherHasBegun();
  void NoteReceiptsInSpace();
  std::optional<Receipt> FinishedBefore();
  std::optional<Receipt> StartOver();  // the receipt, if the job is done by then
  void BeginOutputs();
  void BeginNewRun();
  void BeginFiles();
  ManagerConfig MakeConfig(double overhead_us);

  // ---- the loop (job_run.cpp)
  std::string EnoughPayloads() const;  // PayloadsText; empty without a plan
  // Continues the text of an error that ends the run.
  std::string HintFor(std::string_view error) const;
  // In a full space, for a run that does not advance: removes what it can do without, and says what
  // would be enough.
  void MakeRoom();
  void PostSeen(ManagerEvent event);  // by the statistics; adds what they do not know
  void Turn();
  void StepAll();
  void Apply(ManagerActions actions);
  // An overload for each action. A template for those of SpaceActions would be preferred to an
  // overload here that takes its action as const.
  void Do(PutTasks& action) { space_.Do(action); }
  void Do(const PutVote& action) { space_.Do(action); }
  void Do(const DropVote& action) { space_.Do(action); }
  void Do(const ReadLosses& action) { space_.Do(action); }
  void Do(const RemoveResults& action) { space_.Do(action); }
  void Do(const RemoveStep& action) { space_.Do(action); }
  void Do(const RetireThrough& action) { space_.Do(action); }
  void Do(const MakeSafe& action) { space_.Do(action); }
  void Do(const DropCopy& action) { space_.Do(action); }
  void Do(const PutPassData& action) { space_.PutData(action, *driver_.core().plan()); }
  void Do(const MoveTiles& action);
  void Do(const LoadWeights& action);
  void Do(const Quarantine& action);
  void Do(const Stalled& action);
  void Do(const AuditConflict& action) { notices_.OnUndecided(action); }
  void Do(TakeSnapshot& action);
  void Do(const DropSnapshot&);
  void Do(const ReadyToStop& action) { stop_.OnReady(action); }
  void Do(const StepCommitted& action);
  void Do(const Evaluated& action);
  void Do(const Say& action) { context_.Log(action.text); }
  void Do(const GiveUp& action);
  void Do(AllDone& action) { final_tiles_ = std::move(action.tiles); }
  void TakeSnapshotDone();
  void LookAtStep(const StepCommitted& step);
  void OnNotFinite(const NotFinite& found);
  void OnFinite(std::int64_t step);
  void KeepVersion(std::int64_t version, const NotFinite& found);
  void SayStopped() const;
  bool HasUnsavedSteps() const;
  std::string WhyUnsaved() const;
  void EndSnapshot();
  void SendProgress(const Progress& progress) const;
  void NoteTuning(bool at_once = false);
  RunState StateAt(std::int64_t version) const;
  void KeepState(std::int64_t version);  // in the space, if that is due
  double SecondsSoFar() const;

  // ---- how it ends (job_run_finish.cpp)
  Receipt Finish();
  std::int64_t WholeEpochs(std::int64_t steps) const;
  template <class Work>
  auto WithRoom(const std::string& what, const Work& work);
  bool MakeRoomForLock();  // as for FolderLock::Take
  void WriteWeights();
  void WriteKept();
  void AwaitAnswers();
  void FillReceipt();
  AuditSummary AuditsSoFar() const;

  const ManagerOptions& options_;
  RunContext context_;
  StopRequest stop_;
  Takeover takeover_;
  Beginning beginning_;
  AuditTrail audits_;
  RunFiles files_;
  CoreDriver driver_;
  SpaceNotices notices_;
  RunStatistics statistics_;
  SpaceActions space_;
  Divergence divergence_;
  std::optional<FoundAtFirst> found_;
  bool resumes_;  // false: begins a new run
  bool begun_ = false;
  std::optional<std::vector<TileCell>> final_tiles_;  // set: the training is done
  Receipt receipt_;
};

}  // namespace acan
