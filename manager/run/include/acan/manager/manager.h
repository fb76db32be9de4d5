// Manager: cuts a job into tasks, puts them, follows progress and writes the outputs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

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
  int expected_handlers = 0;    // wait for so many before planning, at most some seconds
  bool fixed_handlers = false;  // no others will come: too small ones end the job
  bool resume = false;    // go on from what an earlier run has left: in the space, or a snapshot
  bool standby = false;   // wait until no other manager has the job, then go on from what it left
  std::string source;     // where the job came from, for messages
  std::string audit_log;  // the file of an AuditLog of all results; empty: none
  // Results that no task of their step needs any more go when they have so many bytes; a request
  // for each smaller one would cost more than its memory is worth. With audits all stay for a step.
  std::uint64_t least_removed_bytes = 256 << 10;
  // Plans are made for the links of the handlers, and tasks name the handlers that should get them.
  // Without this, for tests and experiments, all handlers count as on one host.
  bool knows_links = true;
  std::optional<tuplespace::ClientAccess> access = {};  // for a broker with keys
  // Over tcp, where no memory is shared with the broker: data goes from here to handlers; without
  // this, and where this cannot be reached, through the broker.
  bool direct = true;
  zmq::context_t* context = nullptr;                 // shared for inproc; null: one of its own
  std::function<void(const Progress&)> progress;     // on Run's thread; may be null
  std::function<void(const Tuning&)> tuning;         // on Run's thread; may be null
  std::function<void(const std::string& line)> log;  // rare events, one line each; may be null
  // Called about once a second or more often on Run's thread, unless that is stuck; may be null.
  std::function<void()> alive = {};
};

// Throws Error (failure) if a manager writes to this output folder: who, and what to do. Managers
// look themselves when they lead; this is for whoever wants to know before anything is started.
void CheckFolderIsFree(const std::string& out_dir);

class Manager {
 public:
  // Takes the data as loaded. Throws Error if the job is impossible or the folder not writable.
  Manager(ManagerOptions options, Job job, Data data);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // Trains, evaluates, writes the outputs. If the broker or the connection to it is lost, goes on
  // from what is in the space, or from the last snapshot; if another manager leads by then, stands
  // by until that one is done or gone. A run that diverged ends early, with the last good weights
  // (Receipt::not_finite). nullopt if stopped by Stop(). Throws Error.
  std::optional<Receipt> Run();
  // Thread safe. Ends Run at once, or, where a training is under way, as soon as a snapshot of its
  // newest version is written, after `within` at the latest. May be called again.
  void Stop(std::chrono::microseconds within = std::chrono::microseconds(0));

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace acan
