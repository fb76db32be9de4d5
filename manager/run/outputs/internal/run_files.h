// RunFiles: what a life of a run has in its output folder, and the lines of metrics that it keeps
// in the space beside them. Without a folder all of it does nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/conflict_log.h"
#include "acan/manager/folder_claim.h"
#include "acan/manager/kept_metrics.h"
#include "acan/manager/metrics_log.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_context.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/snapshot_writer.h"
#include "acan/manager/tuning.h"

namespace acan {

class RunFiles {
 public:
  // Makes the folder, and throws Error (failure) if the outputs cannot be written there, or the
  // disk is full and nothing is there that would make room. The references must outlive it.
  RunFiles(RunContext& context, FolderClaim& folder, const tuplespace::ClientOptions& client);

  // A receipt that is written from here on is of a manager that finishes meanwhile.
  void NoteReceipt() { earlier_receipt_ = ReceiptText(); }
  // Such a receipt, if it is of this job.
  std::optional<Receipt> NewReceipt() const;

  // Where the files go on.
  struct Start {
    bool goes_on = false;  // false: what an earlier run has left goes
    std::int64_t version = 0;
    EarlierMetrics metrics;
    bool is_new = true;  // false: an earlier life or process has begun this run
  };
  // Begins all files. REQUIRES: called without a pause after it was looked whether there is a new
  // receipt. Then a manager that has lost the lead, and does not know it, either wrote its receipt
  // before, or finds that its metrics were replaced. `submit` sends a request.
  void Begin(Start start, std::function<void(tuplespace::RequestBody)> submit);

  // Those that an earlier life or process found, also after its last snapshot.
  std::vector<ResultConflict> EarlierConflicts() const;
  // At once, as a conflict ends no run: the manager may be killed before the next snapshot.
  void KeepConflict(const ResultConflict& conflict) const;
  void AddStep(const StepMetrics& metrics);
  void AddEvaluation(const EvaluationMetrics& metrics);
  void AddTuning(const Tuning& tuning);
  // At the end. Throws Error (failure) if lines of these still cannot be written.
  void FinishLines();
  void WriteReceipt(const Receipt& receipt) const;
  // Of all steps so far, those of which metrics.jsonl has no line.
  std::vector<StepRange> MissingMetrics();
  // What the job wants beside the model (output.config).
  void WriteConfig() const;
  // Throws RunLost if another manager has begun the files anew, Error (failure) if somebody has
  // removed them.
  void Check() const;
  // Null before Begin, and without a folder.
  const MetricsLog* metrics() const { return metrics_.get(); }

  const SnapshotFolder* snapshots() const { return snapshots_ ? &*snapshots_ : nullptr; }
  // REQUIRES: there is a folder, and no snapshot is under way.
  void StartSnapshot(const RunState& state, std::vector<TileCell> tiles);
  void DropSnapshot(const std::function<void()>& poll);
  std::optional<SnapshotWriter::Done> TakeSnapshotDone();

 private:
  void SayIfMetricsAreCut() const;
  void SayIfLinesWait();
  void RequireRoomForModel() const;
  void SayIfSnapshotIsSlow();
  std::optional<std::string> ReceiptText() const;  // nullopt: there is no such file
  void RemoveLaterSnapshots(const Start& start) const;
  bool SnapshotMayCommit() const;

  RunContext& context_;
  FolderClaim& folder_;
  std::optional<SnapshotFolder> snapshots_;
  std::unique_ptr<MetricsLog> metrics_;  // the snapshots' thread looks at it
  std::optional<SnapshotWriter> snapshot_writer_;
  std::optional<KeptMetrics> kept_metrics_;
  std::unique_ptr<TuningLog> tuning_log_;
  std::optional<ConflictLog> conflict_log_;
  std::optional<std::string> earlier_receipt_;
  std::int64_t say_lines_wait_us_ = 0;  // not before
  bool said_lines_wait_ = false;        // and not yet that they do no more
  bool said_room_made_ = false;
};

}  // namespace acan
