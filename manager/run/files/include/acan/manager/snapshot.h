// Snapshots: all weights and optimizer state of one version in a file, from which a run goes on
// after everything else was lost. A file is a safetensors file whose header also has a checksum
// over all of it and what a run must know to go on. Which handlers wrote the values, and how they
// were cut, leaves no trace: a snapshot resumes under any plan.
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
#include "acan/manager/receipt.h"

namespace acan {

// What a run knows when it has `version` behind it.
struct RunState {
  std::int64_t version = 0;  // steps done
  std::optional<double> train_loss;
  std::int64_t tasks_done = 0;
  double seconds = 0;         // of work so far, all lives of the run together
  std::int64_t failures = 0;  // how often it had to be resumed
  // Handlers (client ids) of whose results something may be in it, if the run has audits; sorted.
  std::vector<std::string> contributors = {};
  std::int64_t audits_passed = 0, audits_skipped = 0;  // of all lives
  std::vector<ResultConflict> conflicts = {};          // of all lives
};

// Touches only its own kind of files. One thread at a time may write or remove.
class SnapshotFolder {
 public:
  SnapshotFolder(std::string folder, std::string training_id,
                 std::shared_ptr<const TrainedModel> model, int states);

  // A writer for `state.version`, in the folder, which is made if it is not there. Throws Error
  // (failure).
  std::unique_ptr<ModelWriter> Begin(const RunState& state) const;
  // Removes all but the newest `count`, and what killed writers left. For each handler that had a
  // part in the newest it also keeps the newest in which that one had none: where a run goes back
  // to when the handler turns out to be wrong. REQUIRES: none is at work.
  void KeepNewest(std::size_t count) const;
  // For a full disk: of several, all go but the newest that is whole, and what KeepNewest keeps
  // with it. False: none has gone. `go_on` as for Newest. REQUIRES: none is at work.
  bool MakeRoom(const std::function<void()>& go_on) const;
  void RemoveAll() const;
  void RemoveNewerThan(std::int64_t version) const;
  // Removes those in which a handler of `wrong` had a part.
  void RemoveOf(const std::set<std::string>& wrong) const;

  struct Found {
    std::string path;
    RunState state;
    std::shared_ptr<const ModelReader> file;
  };
  // The newest that is whole. What is torn, damaged or of another training is named through `say`
  // and passed over; `*others` becomes whether something whole was, which has an owner elsewhere.
  // Files may be large: `go_on` is called after each MiB, and may throw to end it.
  std::optional<Found> Newest(const std::function<void(const std::string&)>& say, bool* others,
                              const std::function<void()>& go_on = {}) const;

 private:
  std::string PathOf(std::int64_t version) const;
  std::vector<std::string> Files(const char* suffix) const;  // newest first
  std::vector<std::string> ContributorsOf(const std::string& path) const;
  std::optional<RunState> ReadState(const SafetensorsFile& file, const std::function<void()>& go_on,
                                    std::string* problem, bool* others) const;
  std::shared_ptr<const ModelReader> ReadTensors(const std::shared_ptr<const SafetensorsFile>& file,
                                                 bool* others) const;

  const std::string folder_;
  const std::string training_id_;
  const std::shared_ptr<const TrainedModel> model_;
  const int states_;
};

// Does `work`, and does it again if the disk was full and `folder` could make room, which
// `room_made` is told. `go_on` as for SnapshotFolder::Newest.
template <class Work>
auto WithRoom(const SnapshotFolder& folder, const std::function<void()>& go_on, bool* room_made,
              const Work& work) {
  *room_made = false;
  try {
    return work();
  } catch (const DiskFull&) {
    *room_made = folder.MakeRoom(go_on);
    if (!*room_made) throw;
  }
  return work();
}

}  // namespace acan
