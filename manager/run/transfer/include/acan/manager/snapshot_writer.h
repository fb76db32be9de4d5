// SnapshotWriter: reads the tiles of a version from the space and writes them to disk while the run
// continues, on its own thread with its own client.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/long_wait.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/worker_thread.h"
#include "tuplespace/client.h"

namespace acan {

class SnapshotWriter {
 public:
  struct Done {
    std::int64_t version = 0;
    std::int64_t took_us = 0;
    std::string problem;     // empty: it is on disk, or its weights may not be
    bool finite = true;      // whether all weights are finite
    bool room_made = false;  // the disk was full, and an older snapshot was removed
  };

  // The thread calls `may_commit` when everything is written, immediately before the file gets its
  // name, and once more after that; if it returns false, the snapshot fails and there is no file.
  // The thread calls `on_done` when a Done can be taken, or after a drop. `folder` must outlive
  // this object.
  SnapshotWriter(const SnapshotFolder& folder, tuplespace::ClientOptions client,
                 std::function<bool()> may_commit, std::function<void()> on_done);
  ~SnapshotWriter();  // drops the current snapshot

  // With `only_finite`, weights that are not finite are not written to the disk. `endpoint` is the
  // broker's endpoint in this life of the run, one of those of `client`. The snapshot fails if the
  // system has no thread for it.
  // REQUIRES: none is under way (Done was taken, or it was dropped).
  void Start(const RunState& state, std::vector<TensorInfo> tensors, std::vector<TileCell> tiles,
             bool only_finite, const std::string& endpoint);
  // Waits for the thread to end; removes what it has written so far. If a large file is on its way
  // to the disk, this takes long: `meanwhile`, if set, is called repeatedly until `on_done` was
  // called. It should wait a little each time, and may throw; then Drop must be called again.
  void Drop(const std::function<void()>& meanwhile = {});
  std::optional<Done> TakeDone();
  // The age of the current snapshot in seconds, if it takes long and it is time to say so.
  std::optional<std::int64_t> SlowSeconds();

 private:
  void End(std::optional<Done> done);
  std::optional<Done> WriteOrDrop(const RunState& state, const std::vector<TensorInfo>& tensors,
                                  const std::vector<TileCell>& tiles, bool only_finite);
  // Returns whether all weights are finite.
  bool Write(const RunState& state, const std::vector<TensorInfo>& tensors,
             const std::vector<TileCell>& tiles, bool only_finite, bool* room_made);

  const SnapshotFolder& folder_;
  tuplespace::ClientOptions client_options_;
  const std::function<bool()> may_commit_;
  const std::function<void()> on_done_;
  std::atomic<bool> dropped_{false};
  std::atomic<bool> running_{false};
  LongWait wait_{0};
  std::mutex mutex_;
  std::optional<Done> done_;
  WorkerThread thread_;
};

}  // namespace acan
