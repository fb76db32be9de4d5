// The configuration that other frameworks want beside a model's weights.
#pragma once

#include <string>

#include "acan/manager/job.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

// Why there is no config.json of transformers for the model, as the end of a sentence; empty: there
// is one.
std::string NoTransformersConfig(const ModelOptions& options);

// What config.json has, so that transformers' class of the model loads the folder
// (`GPT2LMHeadModel.from_pretrained`). REQUIRES: NoTransformersConfig is empty.
nlohmann::json TransformersConfig(const ModelOptions& options);

// The other way round: the options of the BertModel that a config.json of transformers describes.
// Throws Error (usage) that names the file, the field, its value and what is expected.
model::BertOptions ReadBertConfig(const std::string& path);

}  // namespace acan
