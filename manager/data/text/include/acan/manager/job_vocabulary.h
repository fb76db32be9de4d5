// The vocabulary that a job's text must have, because the job does not train from random weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/vocabulary.h"

namespace acan {

// Weights mean the token numbers with which they were trained. So the text of a job with initial
// weights has their vocabulary (VocabularyOfWeights), if there is one. A run that such a job
// continues or repeats has its own: `run_folder` is the run's folder, or empty. Its vocabulary.json
// counts if the run began from the same weights, because those beside the weights may have been
// removed since; if they differ, a sentence is added to `warnings`. Nothing for other jobs: the
// text itself makes their vocabulary. Throws Error (usage) for files that are no vocabularies, and
// Unreadable.
std::optional<VocabularyFile> GivenVocabulary(const Job& job, const std::string& run_folder,
                                              std::vector<std::string>* warnings);

}  // namespace acan
