// LoadData: the samples of a job, for the inputs that its model has.
#pragma once

#include <vector>

#include "acan/core/model.h"
#include "acan/manager/job.h"
#include "acan/manager/sample_set.h"
#include "acan/manager/vocabulary.h"
#include "acan/model/graph.h"

namespace acan {

// What a model takes: "x" and "labels" or "targets" of a multi-layer perceptron, as model::Mlp
// names them; or a graph's inputs, in the graph's order.
std::vector<WantedInput> WantedInputs(const Model& model);
std::vector<WantedInput> WantedInputs(const model::Graph& graph);

// Reads and checks the job's data. Throws Error (usage) that names the file, the place in it, the
// value found and what would be right.
Data LoadData(const Job& job, const std::vector<WantedInput>& wanted);
// For the multi-layer perceptron of the job.
Data LoadData(const Job& job);
// The test data alone, to evaluate a model that is trained: no file of the training data is read,
// unless one file has both, and Data::train is null. Text has the numbers that `vocabulary` gives
// its tokens; null for data that is no text. REQUIRES: the job names test data.
Data LoadTestData(const Job& job, const Vocabulary* vocabulary);

}  // namespace acan
