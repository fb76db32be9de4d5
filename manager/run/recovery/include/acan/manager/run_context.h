// RunContext: what all parts of one life of a run share. A life lasts from the first connection to
// the broker until the job is done, or until the basis of the life is lost; then the next one
// begins.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "acan/core/error.h"
#include "acan/manager/job.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/receipt.h"
#include "acan/manager/sample_set.h"
#include "acan/manager/trained_model.h"
#include "nlohmann/json_fwd.hpp"
#include "tuplespace/client.h"

namespace acan {

// ---- how a life ends, if not with the job: thrown types ----------------------------------------

// The tuples of this life are lost, or another manager may lead: begin another life.
struct RunLost {
  std::string why;
};
// The same, because the system did not write to the disk what the run had passed to it for its own
// files. The next life writes them again.
struct FilesLost : RunLost {};
// Handlers were wrong: everything in this life that depends on their results must be removed. Begin
// another life without them.
struct HandlersWrong {
  std::map<std::string, std::string> handlers;  // AuditTrail::Handlers
};
// The run diverged at `step`: its loss is not finite, or the weights that it made. Versions up to
// `finite_through` may be good, later ones are not. Begin another life, which repeats the steps
// from the last good version, and keeps the last good weights.
struct NotFiniteFound {
  std::int64_t finite_through = 0;
  NotFinite::What what = NotFinite::What::kWeights;
  std::int64_t step = 0;
  std::int64_t finite_losses = 0;  // of all steps before this one, earlier lives had finite losses
  bool disputed = false;           // an earlier life did not stop being finite there
};
// What one life found not finite was finite in the next one: the run has not diverged. Begin
// another life, which goes on from the space.
struct NotDiverged : RunLost {};
// Thrown by functions that wait, because of a StopRequest.
struct Stopped {};
// The job cannot be done by any manager, or nobody knows what is wrong with the run's tuples in the
// space: they are removed. After any other Error they stay for the next manager, so that a full
// disk costs no more than a kill.
class JobFailed : public Error {
 public:
  explicit JobFailed(const std::string& text) : Error(Kind::kFailure, text) {}
};

// How a manager runs the job.
struct RunSettings {
  std::string endpoint;
  std::string out_dir;   // empty: nothing is written
  std::string source;    // the origin of the job, for messages
  bool resume = false;   // continue an earlier run from the space or from a snapshot
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
  std::int64_t Steps() const;  // of the whole training; 0 without samples
  // The receipt, if it is one of this job. `where` names it in the messages of errors, which are
  // thrown as by ReceiptFromJson. The graph file that it names need not be there.
  std::optional<Receipt> ReceiptOfThisJob(const nlohmann::json& json,
                                          const std::string& where) const;

  const RunSettings settings;
  const Job& job;
  const std::shared_ptr<const TrainedModel> model;  // the job's; not null
  const PlannedModel planned;
  const Data& data;
  const std::string job_id;  // TrainingId
  tuplespace::Client client;
  const std::string run;  // the prefix of this life's keys
};

}  // namespace acan
