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

// Why statistics of batch norm make little of `samples` samples in batches of `batch`: one of the
// batches, which may be the last of an epoch, has one value for each channel, so its variance is 0.
// PyTorch refuses such a batch. Empty if none has.
std::string BatchNormProblem(const TrainedModel& model, std::int64_t batch, std::int64_t samples);

// The job's model as the text of a graph file (acan/model/graph_text.h), from which the same model
// comes again. Throws as BuildModel.
std::string GraphTextOf(const Job& job);

// What a mean loss says of a model of language, which has a label for each token: e^loss, the
// number of tokens that are equally likely on average. nullopt for other models, for losses that
// smooth their labels, and for losses that are not finite or above 700.
std::optional<double> PerplexityOf(const TrainedModel& model, double mean_loss);

}  // namespace acan
