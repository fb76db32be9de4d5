// Beginning: from which weights, and from which step, a life of a run goes on.
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
    int earlier_lives = 0;  // of this process
    // Set: weights after later steps are not good.
    std::optional<std::int64_t> finite_through;
  };
  // The references must outlive it.
  Beginning(RunContext& context, Leadership& leadership, Limits limits)
      : context_(context), leadership_(leadership), limits_(limits) {}

  // The weights that the job names, if it does. Before any file is touched: those of an earlier run
  // must not go for one that cannot begin. Throws Error (usage).
  void OpenInitialWeights();
  // The furthest whole state that can be had: what a manager that died left in the space, or the
  // newest snapshot; else the beginning. `snapshots`: null without a folder.
  void Find(const SnapshotFolder* snapshots, const std::vector<std::string>& earlier_runs);

  // Of this process.
  bool IsFirstLife() const { return limits_.earlier_lives == 0; }
  // Whether an earlier life's weights were found, not merely the job's initial ones.
  bool GoesOn() const { return source_ == Source::kEarlierLife; }
  TileSource* weights() const { return weights_.get(); }  // null: they are drawn from the seed
  // They are in the space for good. A snapshot that is removed now makes room on the disk.
  void ForgetWeights() {
    weights_.reset();
    file_.reset();
  }
  const RunState& past() const { return past_; }  // of earlier lives
  // The version to begin with, if it has a snapshot; else 0.
  std::int64_t saved_version() const { return saved_version_; }
  EarlierMetrics TakeMetrics() { return std::move(metrics_); }  // they may be many: once

 private:
  enum class Source : std::uint8_t { kNothing, kInitialWeights, kEarlierLife };

  void FindInSnapshots(const SnapshotFolder& snapshots, bool* others);
  void FindInSpace(const std::string& run);
  bool FileMetricsAreOfThisJob() const;
  void GoOnFrom(std::unique_ptr<TileSource> weights);

  RunContext& context_;
  Leadership& leadership_;
  const Limits limits_;
  Source source_ = Source::kNothing;
  std::shared_ptr<const ModelReader> file_;  // behind `weights_`, if they are in one
  std::unique_ptr<TileSource> weights_;
  RunState past_;
  std::int64_t saved_version_ = 0;
  EarlierMetrics metrics_;
};

}  // namespace acan
