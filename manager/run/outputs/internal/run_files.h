// RunFiles: the files of one life of a run in its output folder, and the copies of metrics lines
// that it keeps in the space. Without a folder it does nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/config_file.h"
#include "acan/manager/folder_claim.h"
#include "acan/manager/kept_metrics.h"
#include "acan/manager/leadership.h"
#include "acan/manager/metrics_log.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/snapshot_writer.h"
#include "acan/manager/tuning.h"
#include "run_notes.h"

namespace acan {

class RunFiles {
 public:
  // Creates the folder. Throws Error (failure) if the outputs cannot be written there, or if the
  // disk is full and there is nothing whose removal would make room. `sync_others` is called on the
  // thread of snapshots before one becomes visible: it syncs what must be on the disk by then. The
  // references, and what it uses, must outlive this object.
  RunFiles(RunContext& context, FolderClaim& folder, const tuplespace::ClientOptions& client,
           std::function<void()> sync_others);

  // nullopt: there is no such file. Throws Unreadable.
  std::optional<std::string> ReceiptText() const;
  // A receipt with another text belongs to a manager that finished in the meantime.
  void NoteReceipt(std::optional<std::string> text) { earlier_receipt_ = std::move(text); }
  const std::optional<std::string>& earlier_receipt() const { return earlier_receipt_; }
  // Such a receipt, if it belongs to this job.
  std::optional<Receipt> NewReceipt() const;

  // When a run last began its files here; nullopt: never, or there is no folder.
  std::optional<std::filesystem::file_time_type> BegunAt() const;

  // The state from which the files continue.
  struct Start {
    bool goes_on = false;  // false: the files of earlier runs are removed
    std::int64_t version = 0;
    EarlierMetrics metrics;
    bool is_new = true;  // false: an earlier life or process has begun this run
  };
  // Begins all files. Before it changes any it copies the earlier metrics, which may take long:
  // meanwhile it keeps the lead, and then it checks again that this manager leads and that there is
  // no new receipt. A manager that has lost the lead without noticing either wrote its receipt
  // before that, or notices that its metrics were replaced. `submit` sends a request. REQUIRES:
  // called immediately after a check for a new receipt. Throws Error, RunLost, Stopped.
  void Begin(Start start, Leadership& leadership,
             std::function<void(tuplespace::RequestBody)> submit);

  const RunNotes& notes() const { return notes_; }
  void AddStep(const StepMetrics& metrics);
  void AddEvaluation(const EvaluationMetrics& metrics);
  // Makes room in a full space; says so.
  void KeepOnlyNewestMetrics();
  void AddTuning(const Tuning& tuning);
  // Called at the end. Throws Error (failure) if lines still cannot be written.
  void FinishLines();
  void WriteReceipt(const Receipt& receipt) const;
  // All steps so far that have no line in metrics.jsonl.
  std::vector<StepRange> MissingMetrics();
  // Writes the additional configuration that the job requests (output.config) beside the model.
  void WriteConfig() const;
  // Throws RunLost if another manager has begun the files anew, and FilesLost if metrics were lost
  // on the way to the disk: the next life writes them again. Also does CheckNotRemoved.
  void Check() const;
  // Throws RunLost if the folder or the metrics were removed or renamed: the next life makes them
  // again. But without snapshots a run with audits would have to start over: then it throws Error
  // (failure). Costs one or two calls of the system.
  void CheckNotRemoved() const;
  void CheckNotRemovedIfDue(std::int64_t now_us);  // about once a second
  // Null before Begin, and without a folder.
  const MetricsLog* metrics() const { return metrics_.get(); }

  const SnapshotFolder* snapshots() const { return snapshots_ ? &*snapshots_ : nullptr; }
  // REQUIRES: there is a folder, and no snapshot is under way.
  void StartSnapshot(const RunState& state, std::vector<TileCell> tiles);
  void DropSnapshot(const std::function<void()>& poll);
  std::optional<SnapshotWriter::Done> TakeSnapshotDone();

 private:
  // The metrics are now at `moved_to`; empty: they, or the folder before there were any, are gone.
  [[noreturn]] void OnRemoved(const std::string& moved_to) const;
  void SayIfMetricsAreCut() const;
  void SayIfLinesWait();
  void RequireRoomForModel() const;
  void SayIfSnapshotIsSlow();
  MetricsCopy CopyMetrics(const Start& start, Leadership& leadership) const;
  void KeepEarlierMetrics(Leadership& leadership);
  void RemoveLaterSnapshots(const Start& start) const;
  void BeginGraphFile() const;
  void BeginVocabulary() const;
  bool SnapshotMayCommit() const;

  RunContext& context_;
  FolderClaim& folder_;
  const std::function<void()> sync_others_;
  ConfigFile config_;
  const RunNotes notes_;
  std::optional<SnapshotFolder> snapshots_;
  std::unique_ptr<MetricsLog> metrics_;  // the snapshots' thread reads it
  std::optional<SnapshotWriter> snapshot_writer_;
  std::optional<KeptMetrics> kept_metrics_;
  std::unique_ptr<TuningLog> tuning_log_;
  std::optional<std::string> earlier_receipt_;
  std::int64_t check_us_ = 0;           // the earliest time
  std::int64_t say_lines_wait_us_ = 0;  // the earliest time
  bool said_lines_wait_ = false;        // and has not said yet that they are written
  bool said_room_made_ = false;
};

}  // namespace acan
