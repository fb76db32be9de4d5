#include "acan/manager/job_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/output_names.h"
#include "acan/manager/receipt.h"
#include "acan/manager/text_file.h"
#include "acan/manager/unreadable.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

// The job of the run in `folder`, from its job.json or its receipt; null if it has neither.
nlohmann::json JobOfRun(const std::filesystem::path& folder) {
  std::error_code error;
  const std::string kept = (folder / kJobName).string();
  // Whether a file is there may be unknown: then opening it says why.
  if (std::filesystem::exists(kept, error) || error) {
    return ParseJsonOrDiscard(ReadTextFile(kept, kMaxJobBytes, "the job that a run keeps"));
  }
  const std::string receipt = (folder / kReceiptName).string();
  if (!std::filesystem::exists(receipt, error) && !error) return nullptr;
  return ReadReceiptJson(receipt).value("job", nlohmann::json());
}

// The folder may have another run, which this one replaces. Throws Unreadable: then nobody knows
// which vocabulary the run has.
bool BeganFrom(const std::string& weights_sha256, const std::string& run_folder) {
  const nlohmann::json::json_pointer field("/model/initial_weights_sha256");
  try {
    const nlohmann::json job = JobOfRun(run_folder);
    return job.is_object() && job.contains(field) && job[field] == weights_sha256;
  } catch (const Unreadable&) {
    throw;
  } catch (const Error&) {
    return false;  // what is no job is of no run
  }
}

}  // namespace

std::optional<VocabularyFile> GivenVocabulary(const Job& job, const std::string& run_folder,
                                              std::vector<std::string>* warnings) {
  if (!job.data.text.used() || job.initial_weights.empty()) return std::nullopt;
  std::optional<VocabularyFile> of_weights = VocabularyOfWeights(job.initial_weights);
  const std::string& sha256 = job.initial_weights_sha256;
  if (run_folder.empty() || sha256.empty() || !BeganFrom(sha256, run_folder)) return of_weights;
  std::optional<VocabularyFile> own = FindVocabulary(run_folder);
  if (!own) return of_weights;
  if (of_weights && !HaveSameTokens(*own, *of_weights)) {
    warnings->push_back(
        fmt::format("{} numbers the tokens otherwise than {}, beside the initial weights: the run "
                    "keeps its own numbers",
                    own->path, of_weights->path));
  }
  return own;
}

}  // namespace acan
