// Manager: cuts a job into tasks, puts them, follows progress and writes the outputs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/expected_handlers.h"
#include "acan/manager/job.h"
#include "acan/manager/progress.h"
#include "acan/manager/receipt.h"
#include "acan/manager/sample_set.h"
#include "acan/manager/tuning.h"
#include "tuplespace/access.h"

namespace zmq {
class context_t;
}

namespace acan {

struct ManagerOptions {
  std::string endpoint;
  std::string out_dir;          // empty: nothing is written
  int expected_handlers = 0;    // wait for this many before planning, for some seconds
  bool fixed_handlers = false;  // none but coming_handlers come; if all are too small, the job ends
  bool resume = false;          // continue an earlier run from the space or from a snapshot
  bool standby = false;         // wait until no other manager has the job, then continue it
  std::string source;           // the origin of the job, for messages
  std::string machine;          // of this process, as Capacity::machine; empty: unknown
  std::string audit_log;        // the path of an AuditLog of all results; empty: none
  // Spent results of this size or more are removed at once; requests for smaller ones would cost
  // more than their memory is worth. With audits all results stay for a step.
  std::uint64_t least_removed_bytes = 256 << 10;
  // Plans consider the links of the handlers, and tasks name the handlers that should get them. If
  // false, for tests and experiments, all handlers count as on one host.
  bool knows_links = true;
  std::optional<tuplespace::ClientAccess> access = {};  // for a broker with keys
  // Over tcp, where no memory is shared with the broker, data goes directly from this process to
  // handlers. If false, and for handlers that cannot reach this process, it goes through the
  // broker.
  bool direct = true;
  zmq::context_t* context = nullptr;                 // shared for inproc; null: its own
  std::function<void(const Progress&)> progress;     // on Run's thread; may be null
  std::function<void(const Tuning&)> tuning;         // on Run's thread; may be null
  std::function<void(const std::string& line)> log;  // rare events, one line each; may be null
  // Called about once a second or more often on Run's thread, unless that thread is stuck; may be
  // null.
  std::function<void()> alive = {};
  // With fixed_handlers: those that are there, or will come or come back, so that the job does not
  // end while one of them is missing. Called several times a second on Run's thread. Null: the
  // handlers that are gone do not come back.
  std::function<std::vector<ExpectedHandler>()> coming_handlers = {};
  // With coming_handlers: all that were ever started, also those that will not come back.
  std::vector<ExpectedHandler> started_handlers = {};
};

// Throws Error (failure) if a manager writes to this output folder; the message says which one, and
// what to do. Managers check this when they lead; this function allows an earlier check.
void CheckFolderIsFree(const std::string& out_dir);

class Manager {
 public:
  // Takes ownership of the data. Throws Error if the job is impossible or the folder is not
  // writable.
  Manager(ManagerOptions options, Job job, Data data);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // Trains, evaluates, and writes the outputs. If the broker or the connection is lost, continues
  // from the tuples in the space, or from the last snapshot; if another manager leads by then,
  // stands by until that one is done or gone. A run that diverged ends early, with the last good
  // weights (Receipt::not_finite). nullopt if stopped by Stop(). Throws Error; so it does if the
  // disk does not keep the run's files and many lives in succession did no new step.
  std::optional<Receipt> Run();
  // Whether a later manager can resume this run, after Run has returned: false for a new run that
  // ended before its first plan. Such a run has changed nothing in its output folder.
  bool HasBegun() const;
  // Whether a run that was stopped has left finished steps in the space that are in no snapshot.
  // They stay there until another manager of the job has begun, or until the broker ends.
  bool LeftStepsInSpace() const;
  // Thread-safe. Ends Run at once or, during a training, as soon as a snapshot of its newest
  // version is written, at the latest after `within`. May be called again.
  void Stop(std::chrono::microseconds within = std::chrono::microseconds(0));

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
