// RunContext: what all parts of one life of a run share. A life lasts from the first connection to
// the broker until the job is done, or until what the life was made of is lost; then another
// begins.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "acan/core/error.h"
#include "acan/manager/job.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/sample_set.h"
#include "acan/manager/trained_model.h"
#include "tuplespace/client.h"

namespace acan {

// ---- how a life ends, if not with the job: thrown ----------------------------------------------

// What this life was made of is gone, or somebody else may lead: begin another one.
struct RunLost {
  std::string why;
};
// Handlers were wrong: what this life made of their results must go. Begin another one without
// them.
struct HandlersWrong {
  std::map<std::string, std::string> handlers;  // client ids, and why
};
// The run diverged. Versions up to `finite_through` may be good, no later one is. Begin another
// life, which does the steps from the last good version on again, and keeps the last good weights.
struct NotFiniteFound {
  std::int64_t finite_through = 0;
};
// By what waits, because of StopRequest.
struct Stopped {};
// The job cannot be done, whichever manager leads, or nobody knows what is wrong with what the run
// has in the space: that goes. After any other Error it stays there, for the next manager: a full
// disk must not cost more than a kill.
class JobFailed : public Error {
 public:
  explicit JobFailed(const std::string& text) : Error(Kind::kFailure, text) {}
};

// How a manager goes about the job.
struct RunSettings {
  std::string endpoint;
  std::string out_dir;   // empty: nothing is written
  std::string source;    // where the job came from, for messages
  bool resume = false;   // go on from what an earlier run has left: in the space, or a snapshot
  bool standby = false;  // wait until no other manager has the job
  std::function<void(const std::string& line)> log;  // may be null
};

struct RunContext {
  // The references must outlive it.
  RunContext(RunSettings settings, tuplespace::ClientOptions client, const Job& job,
             std::shared_ptr<const TrainedModel> model, const Data& data);

  void Log(const std::string& line) const {
    if (settings.log) settings.log(line);
  }
  bool HasFolder() const { return !settings.out_dir.empty(); }
  std::string OutPath(const char* name) const { return settings.out_dir + "/" + name; }
  int OptimizerStates() const;

  const RunSettings settings;
  const Job& job;
  const std::shared_ptr<const TrainedModel> model;  // the job's; not null
  const PlannedModel planned;
  const Data& data;
  const std::string job_id;  // TrainingId
  tuplespace::Client client;
  const std::string run;  // names this life's tuples
};

}  // namespace acan
