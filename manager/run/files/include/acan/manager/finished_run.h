// FinishedRun: the content of a finished run's folder, for users of its model.
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
  Job job;                 // from the receipt
  std::string model_path;  // if the run diverged: the snapshot that it kept
  std::shared_ptr<const TrainedModel> model;

  // Throws Error (usage) if the file does not fit the model, and Error (failure) if its weights
  // differ from the receipt's. Reads the whole file.
  std::unique_ptr<ModelReader> OpenWeights() const;
};

// The path of the receipt in `folder`, the output folder (--out) of a run. Throws Error (usage) if
// there is none, because the run is not done or the folder is that of no run.
std::string ReceiptPathIn(const std::string& folder);

// Throws Error (usage) as ReceiptPathIn does, or one that names what else is missing or wrong.
FinishedRun ReadFinishedRun(const std::string& folder);

// Called before --resume in `folder` with `job`, whose id is `job_id`. Throws Error (usage) if the
// folder has a finished run of another training, which would be lost.
void RequireNoOtherFinishedRun(const std::string& folder, const Job& job,
                               const std::string& job_id);

}  // namespace acan
