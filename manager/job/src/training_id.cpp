#include "acan/manager/training_id.h"

#include <algorithm>
#include <utility>

#include "acan/core/text/json_text.h"
#include "acan/manager/sha256.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

// Leaves out what does not decide the bits, and the data, which have hashes of their own.
void KeepDeciding(nlohmann::json& fields) {
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
}

}  // namespace

std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256, std::uint32_t numerics_revision) {
  return TrainingIdOf(JobToJson(job), train_sha256, test_sha256, numerics_revision);
}

std::string TrainingIdOf(const Receipt& receipt, const Job& job) {
  return TrainingId(job, receipt.train_sha256, receipt.test_sha256, receipt.numerics_revision);
}

std::string TrainingIdOf(nlohmann::json fields, const std::string& train_sha256,
                         const std::string& test_sha256, std::uint32_t numerics_revision) try {
  KeepDeciding(fields);
  std::string text = JsonText(fields) + train_sha256 + test_sha256;
  // Trainings of the first revision keep the ids that they had before there were revisions.
  if (numerics_revision != 1) text += fmt::format("numerics {}", numerics_revision);
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Hex().substr(0, 16);
} catch (const nlohmann::json::exception&) {
  return "";
}

std::string FirstDifference(const Job& job, const Job& expected) {
  // The first key that differs may be one that only one of the two kinds has.
  const std::string_view kind = KindOf(job.model), expected_kind = KindOf(expected.model);
  if (kind != expected_kind) {
    return fmt::format("model.kind is \"{}\", must be \"{}\"", kind, expected_kind);
  }
  nlohmann::json fields = JobToJson(job), right = JobToJson(expected);
  KeepDeciding(fields);
  KeepDeciding(right);
  const nlohmann::json changes = nlohmann::json::diff(right, fields);
  if (changes.empty()) return "";
  const nlohmann::json::json_pointer at(changes[0].at("path").get<std::string>());
  const auto text = [&](const nlohmann::json& of) {
    return of.contains(at) ? JsonText(of.at(at)) : "absent";
  };
  std::string name = at.to_string().substr(1);
  std::ranges::replace(name, '/', '.');
  return fmt::format("{} is {}, must be {}", name, text(fields), text(right));
}

}  // namespace acan
