#include "acan/manager/config_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "acan/core/text/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/model_config.h"
#include "acan/manager/output_names.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

std::string InFolder(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

ConfigFile::ConfigFile(const Job& job)
    : weights_(job.initial_weights), weights_sha256_(job.initial_weights_sha256) {
  if (job.output_config == OutputConfig::kNone) return;
  text_ = JsonText(TransformersConfig(job.model), 2) + "\n";
  if (!weights_.empty()) TakeNames(FileOfWeights(weights_, kConfigName));
}

void ConfigFile::TakeNames(const std::string& path) {
  nlohmann::json config = nlohmann::json::parse(text_);
  TakeNamesOf(path, &config);
  text_ = JsonText(config, 2) + "\n";
}

std::string ConfigFile::Begin(const std::string& folder, bool resumes) {
  const std::string path = InFolder(folder, kConfigName);
  if (text_.empty()) {
    std::filesystem::remove(path);
    return "";
  }
  std::string warning;
  if (resumes && Exists(path) && BeganFromWeights(weights_sha256_, folder)) {
    TakeNames(path);
  } else if (resumes && !weights_.empty() && !Exists(weights_)) {
    warning =
        fmt::format("{}: {} is gone, so special tokens and the names of labels have their defaults",
                    path, weights_);
  }
  Write(folder);
  return warning;
}

void ConfigFile::Write(const std::string& folder) const {
  if (!text_.empty()) WriteFileAtomically(InFolder(folder, kConfigName), text_);
}

}  // namespace acan
