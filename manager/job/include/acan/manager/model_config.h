// The configuration files that other frameworks need beside a model's weights.
#pragma once

#include <string>

#include "acan/manager/job.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

// Why the model has no config.json for transformers, as the end of a sentence; empty if it has one.
std::string NoTransformersConfig(const ModelOptions& options);

// The content of config.json, with which transformers' class for the model loads the folder
// (`GPT2LMHeadModel.from_pretrained`). REQUIRES: NoTransformersConfig is empty, or the model is a
// Llama.
nlohmann::json TransformersConfig(const ModelOptions& options);

// Checks what the files of the run or the framework that wrote `weights` (FileOfWeights) say of its
// model, and the shapes of tensors do not show: heads, activations, epsilons, rotary positions,
// whether a Llama is tied, the sides of images of a vision transformer. These files are job.json,
// if its model has the job's kind, and config.json. Does nothing for a file that does not exist.
// Throws Error (usage) that names the file, the field and both values if the job's model has
// another value, and for a file that has no JSON object.
void RequireModelOfWeights(const Job& job, const std::string& weights);

// Takes over what a config.json of pretrained weights knows beyond the model: the tokens that
// begin, end and pad a text, and the names of the labels, if there are as many. The tokens that the
// file leaves out are those of transformers' class. Changes nothing if there is no such file or if
// it cannot be read.
void TakeNamesOf(const std::string& path, nlohmann::json* config);

// The inverse, for BERT: the options of the BertModel that a config.json of transformers describes.
// Throws Error (usage) that names the file, the field, its value and what is expected.
model::BertOptions ReadBertConfig(const std::string& path);

}  // namespace acan
