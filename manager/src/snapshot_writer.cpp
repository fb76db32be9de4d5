#include "snapshot_writer.h"

#include <cassert>
#include <chrono>
#include <utility>

#include "acan/core/error.h"
#include "tile_mover.h"

namespace acan {
namespace {

constexpr std::size_t kSnapshotsKept = 2;  // the last one may turn out damaged

struct Dropped {};  // thrown through Write by Drop

std::int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

SnapshotWriter::SnapshotWriter(const SnapshotFolder& folder, tuplespace::ClientOptions client,
                               std::function<void()> on_done)
    : folder_(folder), client_options_(std::move(client)), on_done_(std::move(on_done)) {}

SnapshotWriter::~SnapshotWriter() {
  Drop();
}

void SnapshotWriter::Start(const RunState& state, std::vector<TensorInfo> tensors,
                           std::vector<TileCell> tiles) {
  if (thread_.joinable()) thread_.join();
  dropped_ = false;
  thread_ = std::thread([this, state, tensors = std::move(tensors), tiles = std::move(tiles)] {
    const std::int64_t begin_us = NowUs();
    Done done{state.version, 0, ""};
    try {
      Write(state, tensors, tiles);
    } catch (const Dropped&) {
      return;
    } catch (const std::exception& error) {
      done.problem = error.what();
    }
    done.took_us = NowUs() - begin_us;
    {
      const std::lock_guard lock(mutex_);
      done_ = std::move(done);
    }
    on_done_();
  });
}

void SnapshotWriter::Write(const RunState& state, const std::vector<TensorInfo>& tensors,
                           const std::vector<TileCell>& tiles) {
  tuplespace::Client client(client_options_);
  const std::unique_ptr<ModelWriter> writer = folder_.Begin(state);
  TileMover(client, [this] {
    if (dropped_) throw Dropped{};
  }).Write(*writer, tensors, tiles);
  folder_.KeepNewest(kSnapshotsKept);
}

void SnapshotWriter::Drop() {
  dropped_ = true;
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  done_.reset();
}

std::optional<SnapshotWriter::Done> SnapshotWriter::TakeDone() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, std::nullopt);
}

}  // namespace acan
