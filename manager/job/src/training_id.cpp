#include "acan/manager/training_id.h"

#include "acan/core/text/json_text.h"
#include "acan/manager/sha256.h"
#include "nlohmann/json.hpp"

namespace acan {

std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256) {
  nlohmann::json json = JobToJson(job);
  json.erase("tasks");
  json.erase("snapshots");
  json.erase("output");
  json["train"].erase("stop_if_not_finite");
  json["train"].erase("evaluate_every");
  // The data are known by their hashes, wherever the files lie, and so is a graph file.
  if (json["model"].contains("file_sha256")) json["model"].erase("file");
  json["data"] = {{"shuffle", job.training.shuffle}};
  const std::string text = JsonText(json) + train_sha256 + test_sha256;
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Hex().substr(0, 16);
}

}  // namespace acan
