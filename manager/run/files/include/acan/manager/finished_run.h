// FinishedRun: what the folder of a finished run has, for those who use its model.
#pragma once

#include <memory>
#include <string>

#include "acan/manager/job.h"
#include "acan/manager/model_file.h"
#include "acan/manager/receipt.h"
#include "acan/manager/trained_model.h"

namespace acan {

struct FinishedRun {
  std::string folder;
  Receipt receipt;
  Job job;                 // the receipt's
  std::string model_path;  // of a run that diverged: the snapshot that it kept
  std::shared_ptr<const TrainedModel> model;

  // Throws Error (usage) if the file is not of this model, and Error (failure) if it has other
  // weights than the receipt says. Reads all of the file.
  std::unique_ptr<ModelReader> OpenWeights() const;
};

// `folder` is the output folder (--out) of a run. Throws Error (usage) that names what is missing
// or wrong: there is no receipt before a run is done.
FinishedRun ReadFinishedRun(const std::string& folder);

// Before --resume in `folder` with the job whose id is `job_id`: throws Error (usage) if the run
// there is done and was another training, as it would be lost.
void RequireNoOtherFinishedRun(const std::string& folder, const std::string& job_id);

}  // namespace acan
