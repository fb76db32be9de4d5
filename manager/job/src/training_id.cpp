#include "acan/manager/training_id.h"

#include <utility>

#include "acan/core/text/json_text.h"
#include "acan/manager/sha256.h"
#include "nlohmann/json.hpp"

namespace acan {

std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256) {
  return TrainingIdOf(JobToJson(job), train_sha256, test_sha256);
}

std::string TrainingIdOf(nlohmann::json fields, const std::string& train_sha256,
                         const std::string& test_sha256) try {
  fields.erase("tasks");
  fields.erase("snapshots");
  fields.erase("output");
  fields.at("train").erase("stop_if_not_finite");
  fields.at("train").erase("evaluate_every");
  // Hashes identify the data and the model's files, wherever these lie.
  nlohmann::json& model = fields.at("model");
  if (model.contains("file_sha256")) model.erase("file");
  if (model.contains("initial_weights_sha256")) model.erase("initial_weights");
  fields["data"] = {{"shuffle", fields.at("data").at("shuffle")}};
  const std::string text = JsonText(fields) + train_sha256 + test_sha256;
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Hex().substr(0, 16);
} catch (const nlohmann::json::exception&) {
  return "";
}

}  // namespace acan
