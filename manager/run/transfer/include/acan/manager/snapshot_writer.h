// SnapshotWriter: reads the tiles of a version out of the space and writes them to disk, on a
// thread of its own with a client of its own, while the run goes on.
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
    std::string problem;     // empty: it is on disk, if its weights may be
    bool finite = true;      // all weights
    bool room_made = false;  // the disk was full, and an older one went for it
  };

  // On the thread: `may_commit` is asked when all is written, before the file gets its name, and if
  // it says no the snapshot fails; `on_done` is called when a Done can be taken, or it was dropped.
  // `folder` must outlive this.
  SnapshotWriter(const SnapshotFolder& folder, tuplespace::ClientOptions client,
                 std::function<bool()> may_commit, std::function<void()> on_done);
  ~SnapshotWriter();  // drops what is under way

  // With `only_finite` weights that are not finite do not get onto the disk. `endpoint`: where the
  // broker of this life of the run is, one of those of `client`. Without a thread for it the
  // snapshot fails.
  // REQUIRES: none is under way (Done was taken, or it was dropped).
  void Start(const RunState& state, std::vector<TensorInfo> tensors, std::vector<TileCell> tiles,
             bool only_finite, const std::string& endpoint);
  // Waits for the thread to end; what it wrote so far is removed. A large file may be on its way to
  // the disk: `meanwhile`, if there is one, is called again and again until `on_done` was called.
  // It waits a little each time, and may throw; then Drop must be called once more.
  void Drop(const std::function<void()>& meanwhile = {});
  std::optional<Done> TakeDone();
  // For how many seconds one has been under way, if it takes long and it is time to say so.
  std::optional<std::int64_t> SlowSeconds();

 private:
  void End(std::optional<Done> done);
  std::optional<Done> WriteOrDrop(const RunState& state, const std::vector<TensorInfo>& tensors,
                                  const std::vector<TileCell>& tiles, bool only_finite);
  // Whether all weights are finite.
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
