// TrainedModel: the model of a job, as graphs.
#pragma once

#include <memory>
#include <string>

#include "acan/manager/job.h"

namespace acan {

// Immutable, and shared by all who need it: graphs of large models have many nodes.
struct TrainedModel {
  std::string kind;         // a word of kModelKinds
  model::Graph training;    // with gradients
  model::Graph evaluation;  // the same parameters in the same order
};

// With the job's `freeze` and `decay` applied. Throws Error (usage) for options that make no model;
// the sentence names the option ("model: n_head = 5 ...").
std::shared_ptr<const TrainedModel> BuildModel(const Job& job);
// Of a perceptron in which everything is trained.
std::shared_ptr<const TrainedModel> BuildModel(const Model& perceptron);

}  // namespace acan
