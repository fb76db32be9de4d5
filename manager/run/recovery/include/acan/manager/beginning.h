// Beginning: finds the weights and the step from which a life of a run continues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/leadership.h"
#include "acan/manager/metrics_log.h"
#include "acan/manager/model_file.h"
#include "acan/manager/run_context.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/tile_mover.h"

namespace acan {

class Beginning {
 public:
  struct Limits {
    int earlier_lives = 0;  // in this process
    // If set, weights of later versions are not good.
    std::optional<std::int64_t> finite_through;
    // What they counted, at the end of the last one.
    std::optional<RunState> counted = {};
    std::int64_t steps = INT64_MAX;  // of the whole training: no weights are of a later version
  };
  // The references must outlive it.
  Beginning(RunContext& context, Leadership& leadership, Limits limits)
      : context_(context), leadership_(leadership), limits_(std::move(limits)) {}

  // Opens the initial weights, if the job names a file, for a run that begins anew. The optimizer
  // begins anew, too, even if the file is a snapshot with the state of another one. Called before
  // any file is changed, so that a run that cannot begin does not destroy the files of an earlier
  // one. Reads the whole file, which may take long. Throws Error (usage).
  void OpenInitialWeights();
  // Finds the newest complete state: the newest snapshot, or what an earlier manager left in the
  // space, if that is newer. If there is none, the caller opens the initial weights. Logs the one
  // that it has chosen. `snapshots` is null without a folder. The counts and the conflicts of all
  // earlier lives become part of past(), even if none of their weights can be used. Uses no barred
  // snapshot; the caller need not set `barred.newest`. Throws Error (usage) if the folder has a run
  // of another job, which would be lost; a standby manager that finds weights in the space takes
  // over even so.
  void Find(const SnapshotFolder* snapshots, const std::vector<std::string>& earlier_runs,
            BarredSnapshots barred);
  // What these keys confirm from now on counts. Find does this, too. A run that begins anew calls
  // only this, because an earlier run may have left such keys in the space.
  void BeginAfter(const DoubtfulKeys& in_doubt);

  // In this process.
  bool IsFirstLife() const { return limits_.earlier_lives == 0; }
  // Whether weights of an earlier life were found, not just the job's initial weights.
  bool GoesOn() const { return source_ == Source::kEarlierLife; }
  TileSource* weights() const { return weights_.get(); }  // null: drawn from the seed
  // Called once the weights are safe in the space. Removing a snapshot after this makes room on the
  // disk.
  void ForgetWeights() {
    weights_.reset();
    file_.reset();
  }
  // The state after earlier lives, which counts them. Version 0: begins anew.
  const RunState& past() const { return past_; }
  // The version to begin with if a snapshot has it, otherwise 0.
  std::int64_t saved_version() const { return saved_version_; }
  EarlierMetrics TakeMetrics() { return std::move(metrics_); }  // call once; they may be many

 private:
  enum class Source : std::uint8_t { kNothing, kInitialWeights, kEarlierLife };

  void FindInSnapshots(const SnapshotFolder& snapshots, const BarredSnapshots& barred,
                       bool* others);
  void CountStepsInFile();
  std::int64_t CountInSpace(const std::string& run);
  void FindInSpace(const std::string& run);
  void RequireNoOthersRun(bool others) const;
  void AddToPast(const RunState& state);
  void GoOnFrom(std::unique_ptr<TileSource> weights);

  RunContext& context_;
  Leadership& leadership_;
  const Limits limits_;
  Source source_ = Source::kNothing;
  std::string found_in_;  // where the weights of an earlier life are, for a message
  std::shared_ptr<const ModelReader> file_;  // the file that `weights_` reads, if any
  std::unique_ptr<TileSource> weights_;
  RunState past_;
  std::int64_t saved_version_ = 0;
  EarlierMetrics metrics_;
  StepsInFile in_file_;  // if the file is of this job, and there are earlier runs
};

}  // namespace acan
