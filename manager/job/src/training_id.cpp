#include "acan/manager/training_id.h"

#include "acan/core/text/json_text.h"
#include "acan/manager/sha256.h"
#include "nlohmann/json.hpp"

namespace acan {

std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256) {
  nlohmann::json fields = JobToJson(job);
  fields.erase("tasks");
  fields.erase("snapshots");
  fields.erase("output");
  fields["train"].erase("stop_if_not_finite");
  fields["train"].erase("evaluate_every");
  // Hashes identify the data and the model's files, wherever these lie.
  if (fields["model"].contains("file_sha256")) fields["model"].erase("file");
  if (fields["model"].contains("initial_weights_sha256")) fields["model"].erase("initial_weights");
  fields["data"] = {{"shuffle", job.training.shuffle}};
  const std::string text = JsonText(fields) + train_sha256 + test_sha256;
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Hex().substr(0, 16);
}

}  // namespace acan
