// TrainedModel: the model of a job, as a training and an evaluation graph.
#pragma once

#include <memory>
#include <string>

#include "acan/manager/job.h"

namespace acan {

// Immutable and shared, because graphs of large models have many nodes.
struct TrainedModel {
  std::string kind;         // a word of kModelKinds
  model::Graph training;    // with gradients
  model::Graph evaluation;  // the same parameters in the same order
};

// Applies the job's `freeze` and `decay`. Throws Error (usage) for invalid model options; the
// message names the option ("model: n_head = 5 ...").
std::shared_ptr<const TrainedModel> BuildModel(const Job& job);
// The model of a perceptron in which every parameter is trained.
std::shared_ptr<const TrainedModel> BuildModel(const Perceptron& perceptron);

// Why a norm of the model computes only its bias in a training with `samples` samples: a group norm
// has one value in each group; or one of the batches, for example the last of an epoch, has one
// value per channel of a batch norm, so that the variance is 0. PyTorch refuses such a batch. Empty
// if the training takes no such step. REQUIRES: samples > 0.
std::string NormProblem(const TrainedModel& model, const Training& training, std::int64_t samples);

// The job's model as the text of a graph file (acan/model/graph_text.h), which describes the same
// model. Throws as BuildModel.
std::string GraphTextOf(const Job& job);

// The perplexity of a language model (a model with a label for each token): e^loss, the number of
// equally likely tokens on average. nullopt for other models, for losses with label smoothing, and
// for losses that are not finite or above 700.
std::optional<double> PerplexityOf(const TrainedModel& model, double mean_loss);

}  // namespace acan
