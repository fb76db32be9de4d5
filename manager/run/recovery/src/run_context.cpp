#include "acan/manager/run_context.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "acan/core/schedule.h"
#include "acan/manager/job.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/training_id.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

// The end of a client's id is random; with keys, the id begins with a name.
std::string RunName(const std::string& job_id, const std::string& client_id) {
  return job_id + "-" +
         client_id.substr(client_id.size() - std::min<std::size_t>(client_id.size(), 12));
}

}  // namespace

RunContext::RunContext(RunSettings with, tuplespace::ClientOptions client_options, const Job& of,
                       std::shared_ptr<const TrainedModel> model_of, const Data& with_data)
    : settings(std::move(with)),
      job(of),
      model(std::move(model_of)),
      planned(LowerModel(model)),
      data(with_data),
      job_id(TrainingId(job, data.train_sha256(), data.test_sha256())),
      client(std::move(client_options)),
      run(RunName(job_id, client.id())) {}

std::optional<Receipt> RunContext::ReceiptOfThisJob(const nlohmann::json& json,
                                                    const std::string& where) const {
  Receipt receipt = ReceiptFromJson(json, where, JobCheck::kLeftOut);
  if (TrainingIdOf(receipt.job, receipt.train_sha256, receipt.test_sha256,
                   receipt.numerics_revision) == job_id) {
    return receipt;
  }
  // Another version of acan may write the same job in another way. The graph file that the receipt
  // names may be gone, or lie on another host, but this manager has the same one, or the job is
  // another.
  nlohmann::json its = receipt.job;
  if (const nlohmann::json::json_pointer file("/model/file"); its.contains(file)) {
    const auto* graph = std::get_if<GraphFile>(&job.model);
    const nlohmann::json::json_pointer hash("/model/file_sha256");
    if (graph == nullptr || !its.contains(hash) || its[hash] != graph->sha256) return std::nullopt;
    its[file] = graph->path;
  }
  if (TrainingIdOf(receipt, JobFromJson(its, where)) != job_id) return std::nullopt;
  return receipt;
}

std::int64_t RunContext::Steps() const {
  return data.train_samples() == 0 ? 0 : TotalSteps(job.training, data.train_samples());
}

int RunContext::OptimizerStates() const {
  return StateCount(job.training.optimizer);
}

}  // namespace acan
