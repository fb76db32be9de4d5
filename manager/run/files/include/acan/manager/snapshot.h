// Snapshots: all weights and optimizer state of one version in a file, from which a run can
// continue after everything else is lost. A snapshot is a safetensors file whose header also has a
// checksum of the whole file and the state of the run. It does not depend on which handlers
// computed the values and how they were cut, so a run can continue from it under any plan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/model_file.h"
#include "acan/manager/run_state.h"

namespace acan {

// Snapshots from which a run must not continue, even if they are intact and could not be removed.
struct BarredSnapshots {
  std::set<std::string> wrong = {};  // those that depend on them: RunState::MayDependOn
  DoubtfulKeys in_doubt = {};  // those with results that they made: RunState::HasUnconfirmedOf
  std::optional<std::int64_t> newest = {};  // those of later versions
};

// Touches only snapshot files. Only one thread at a time may write or remove.
class SnapshotFolder {
 public:
  // `steps`: of the whole training. A snapshot of a later version is not one of it.
  SnapshotFolder(std::string folder, std::string training_id,
                 std::shared_ptr<const TrainedModel> model, int states,
                 std::int64_t steps = INT64_MAX);

  // A writer for `state.version`. Creates the folder if needed. Throws Error (failure).
  std::unique_ptr<ModelWriter> Begin(const RunState& state) const;
  // Of the snapshots up to `version`, which this run has, removes all but the newest `count`, and
  // removes the remains of killed writers. Later ones are not this run's: they could not be removed
  // when it began or went back, and must not take the place of its own. If a life with audits wrote
  // the newest one, this also keeps, for each handler that contributed to it, the newest one to
  // which that handler did not contribute: the run goes back to it if the handler turns out to be
  // wrong. Of these it keeps at most eight, whose distances grow with their age; then the run may
  // have to go back further. Removes nothing if the system cannot read a file. REQUIRES: no writer
  // is at work.
  void KeepNewest(std::size_t count, std::int64_t version) const;
  // Removes what killed writers left. Returns whether there was anything.
  bool RemoveUnfinished() const;
  // Frees space on a full disk: removes what killed writers left, or else, of several snapshots,
  // all but the newest intact one and those that KeepNewest keeps with it, or else one of these,
  // the oldest at last. False: nothing was removed. `go_on`: as for Newest. REQUIRES: no writer is
  // at work.
  bool MakeRoom(const std::function<void()>& go_on) const;
  void RemoveAll() const;
  void Remove(std::int64_t version) const;
  void RemoveNewerThan(std::int64_t version) const;  // those that can be removed
  // Removes the snapshots to which a handler of `wrong` may have contributed. Throws Unreadable if
  // the system cannot read one. One that cannot be removed stays: see BarredSnapshots.
  void RemoveOf(const std::set<std::string>& wrong) const;
  // As RemoveOf, for those with results that only handlers with one of these keys have confirmed:
  // RunState::HasUnconfirmedOf.
  void RemoveUnconfirmedOf(const DoubtfulKeys& keys) const;

  struct Found {
    std::string path;
    RunState state;
    std::shared_ptr<const ModelReader> file;
  };
  // The newest intact snapshot that is not barred. Snapshots that are incomplete, damaged, barred
  // or of another training are reported through `say` and skipped; `*others` is set to whether one
  // of another training is intact, so that another job or another version of acan may need it.
  // Throws Unreadable if the system cannot read one, or one changes meanwhile: it may be intact,
  // and what begins without it removes it. Files may be large: `go_on` is called after each MiB,
  // and may throw to end it.
  std::optional<Found> Newest(const std::function<void(const std::string&)>& say, bool* others,
                              const std::function<void()>& go_on = {},
                              const BarredSnapshots& barred = {}) const;

 private:
  // Removes the snapshots with such states. Throws Unreadable.
  void RemoveIf(const std::function<bool(const RunState&)>& is_bad) const;
  std::string PathOf(std::int64_t version) const;
  std::vector<std::string> Files(const char* suffix) const;        // newest first
  std::vector<std::string> FilesUpTo(std::int64_t version) const;  // snapshots, newest first
  // KeepNewest of these, newest first; throws Unreadable.
  void RemoveAllBut(std::size_t count, const std::vector<std::string>& paths) const;
  std::optional<RunState> StateOf(const std::string& path) const;  // nullopt: the file is damaged
  std::optional<RunState> ReadState(const SafetensorsFile& file, const std::function<void()>& go_on,
                                    std::string* problem, bool* others) const;
  std::shared_ptr<const ModelReader> ReadTensors(const std::shared_ptr<const SafetensorsFile>& file,
                                                 bool* others) const;

  const std::string folder_;
  const std::string training_id_;
  const std::shared_ptr<const TrainedModel> model_;
  const int states_;
  const std::int64_t steps_;
};

// The id of the training of which the file is a snapshot. Empty if it is none that can be read.
std::string TrainingIdOfSnapshot(const std::string& path);

// Does `work`, and repeats it as long as the disk is full and `folder` can make room. `*room_made`
// says whether it did. `go_on`: as for SnapshotFolder::Newest.
template <class Work>
auto WithRoom(const SnapshotFolder& folder, const std::function<void()>& go_on, bool* room_made,
              const Work& work) {
  *room_made = false;
  for (;;) {
    try {
      return work();
    } catch (const DiskFull&) {
      if (!folder.MakeRoom(go_on)) throw;
      *room_made = true;
    }
  }
}

}  // namespace acan
