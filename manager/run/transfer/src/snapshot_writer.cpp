#include "acan/manager/snapshot_writer.h"

#include <cassert>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/tile_mover.h"
#include "fmt/format.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

constexpr std::size_t kSnapshotsKept = 2;  // the last one may turn out to be damaged

// Longer than the time after which the run's own client considers a silent broker lost, too: then
// the run goes back, and drops the snapshot.
constexpr std::int64_t kJoinPatienceUs = 15'000'000;
// A broker whose socket was removed listens again within a second, if it can.
constexpr std::int64_t kSocketPatienceUs = 3'000'000;

struct Dropped {};  // thrown through Write by Drop

bool SocketIsGone(const std::string& endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  std::error_code error;
  return endpoint.starts_with(kIpc) &&
         !std::filesystem::exists(endpoint.substr(kIpc.size()), error) && !error;
}

// The run does not notice that new connections fail while its own connection works, so the
// snapshot's client must not wait for one without a limit.
class ConnectionWait {
 public:
  ConnectionWait(const tuplespace::Client& client, std::string endpoint)
      : client_(client), endpoint_(std::move(endpoint)) {}

  // The disk may be slow between two calls, so only the client's own waiting time counts.
  void Check() {
    if (client_.connected()) return since_us_.reset();
    const std::int64_t now_us = tuplespace::MonotonicUs();
    if (!since_us_) since_us_ = now_us;
    const bool gone = SocketIsGone(endpoint_);
    if (now_us - *since_us_ < (gone ? kSocketPatienceUs : kJoinPatienceUs)) return;
    throw FailureError(
        fmt::format("cannot connect to {}{}", endpoint_, gone ? " (the socket is gone)" : ""));
  }

 private:
  const tuplespace::Client& client_;
  const std::string endpoint_;
  std::optional<std::int64_t> since_us_;  // since when it is known to be disconnected
};

}  // namespace

SnapshotWriter::SnapshotWriter(const SnapshotFolder& folder, tuplespace::ClientOptions client,
                               std::function<bool()> may_commit, std::function<void()> on_done)
    : folder_(folder),
      client_options_(std::move(client)),
      may_commit_(std::move(may_commit)),
      on_done_(std::move(on_done)) {}

SnapshotWriter::~SnapshotWriter() {
  Drop();
}

void SnapshotWriter::Start(const RunState& state, std::vector<TensorInfo> tensors,
                           std::vector<TileCell> tiles, bool only_finite,
                           const std::string& endpoint) {
  thread_.Join();
  // Trying other endpoints first would delay each snapshot by a second or more.
  client_options_.endpoint = endpoint;
  dropped_ = false;
  running_ = true;
  wait_.Begin(tuplespace::MonotonicUs());
  const std::int64_t version = state.version;
  try {
    thread_.Start([this, state, tensors = std::move(tensors), tiles = std::move(tiles),
                   only_finite] { End(WriteOrDrop(state, tensors, tiles, only_finite)); });
  } catch (const std::system_error& error) {
    Done done;
    done.version = version;
    done.problem = fmt::format("the system cannot start a thread for it: {}",
                               SystemErrorText(error.code().value()));
    End(std::move(done));
  }
}

void SnapshotWriter::End(std::optional<Done> done) {
  {
    const std::lock_guard lock(mutex_);
    done_ = std::move(done);
  }
  running_ = false;
  on_done_();
}

// nullopt if it was dropped.
std::optional<SnapshotWriter::Done> SnapshotWriter::WriteOrDrop(
    const RunState& state, const std::vector<TensorInfo>& tensors,
    const std::vector<TileCell>& tiles, bool only_finite) {
  const std::int64_t begin_us = tuplespace::MonotonicUs();
  Done done;
  done.version = state.version;
  try {
    done.finite = Write(state, tensors, tiles, only_finite, &done.room_made);
  } catch (const Dropped&) {
    return std::nullopt;
  } catch (const std::exception& error) {
    done.problem = error.what();
  }
  done.took_us = tuplespace::MonotonicUs() - begin_us;
  return done;
}

bool SnapshotWriter::Write(const RunState& state, const std::vector<TensorInfo>& tensors,
                           const std::vector<TileCell>& tiles, bool only_finite, bool* room_made) {
  tuplespace::Client client(client_options_);
  const auto go_on = [this] {
    if (dropped_) throw Dropped{};
  };
  ConnectionWait connection(client, client_options_.endpoint);
  const auto check = [&] {
    go_on();
    connection.Check();
  };
  const auto check_all = [&] {
    client.Poll(std::chrono::microseconds(0));
    check();
  };
  return WithRoom(folder_, check_all, room_made, [&] {
    const std::unique_ptr<ModelWriter> writer = folder_.Begin(state);
    const bool finite = TileMover(client, check).Write(*writer, tensors, tiles);
    if (only_finite && !finite) return false;
    // Reading the file back and the disk take long. The answer may change until the file has its
    // name: another manager then either is noticed here or finds the file.
    const auto require_may_commit = [this] {
      if (!may_commit_()) throw FailureError("the run's other outputs are gone");
    };
    writer->Finish(go_on, require_may_commit);
    try {
      require_may_commit();
    } catch (const Error&) {
      folder_.Remove(state.version);
      throw;
    }
    folder_.KeepNewest(kSnapshotsKept, state.version);
    return finite;
  });
}

void SnapshotWriter::Drop(const std::function<void()>& meanwhile) {
  dropped_ = true;
  while (meanwhile && running_) meanwhile();
  thread_.Join();
  const std::lock_guard lock(mutex_);
  done_.reset();
}

std::optional<std::int64_t> SnapshotWriter::SlowSeconds() {
  return running_ ? wait_.Due(tuplespace::MonotonicUs()) : std::nullopt;
}

std::optional<SnapshotWriter::Done> SnapshotWriter::TakeDone() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, std::nullopt);
}

}  // namespace acan
