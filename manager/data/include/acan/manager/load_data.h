// LoadData: loads the samples of a job for the inputs of its model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/manager/job.h"
#include "acan/manager/sample_set.h"
#include "acan/manager/vocabulary.h"
#include "acan/model/graph.h"

namespace acan {

// The inputs that a model takes: "x" and "labels" or "targets" for a multi-layer perceptron, as
// model::Mlp names them; or a graph's inputs, in the graph's order.
std::vector<WantedInput> WantedInputs(const Perceptron& model);
std::vector<WantedInput> WantedInputs(const model::Graph& graph);

// Reads and checks the job's data. Text of a job with initial weights is tokenized with the
// vocabulary of these, or of the run in `run_folder`, which the job continues or repeats
// (GivenVocabulary). Throws Error (usage) that names the file, the place in it, the value found and
// what is expected.
Data LoadData(const Job& job, const std::vector<WantedInput>& wanted,
              const std::string& run_folder = "");
// For the inputs of the job's model.
Data LoadData(const Job& job, const std::string& run_folder = "");
// Loads only the test data, to evaluate a trained model; Data::train is null. Needs no file of the
// training data unless one file contains both, but warns if inputs of the training that still exist
// are scaled otherwise. Text is tokenized with the numbers of `vocabulary`, which is null for other
// data. REQUIRES: the job names test data.
Data LoadTestData(const Job& job, const Vocabulary* vocabulary);

// Files of samples without labels. Only sequences of tokens have the last two; empty: the default.
struct SampleFiles {
  std::string inputs;
  std::string lengths;      // [samples]
  std::string token_types;  // [samples, positions]
};
// Loads samples for all inputs of `graph` but its labels or targets; the job says how its test data
// are read. Adds to `warnings`, unless it is null, as LoadTestData does. Throws Error (usage) as
// LoadData does.
std::shared_ptr<const SampleSet> LoadInputs(const Job& job, const model::Graph& graph,
                                            const SampleFiles& files,
                                            std::vector<std::string>* warnings = nullptr);

}  // namespace acan
