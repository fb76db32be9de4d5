// The keys of [data] for text, tokens and images.
#pragma once

#include <functional>
#include <string>

#include "acan/manager/job.h"
#include "job_reader.h"

namespace acan {

// Refuses keys of another kind of data than what the section chooses: `text` or `train_text`,
// `train_tokens`, `generated`, or else `train_inputs`.
void RefuseOtherKinds(const Section& data);

// `path(key)`: the absolute path that the key names; "" if it is not set.
using PathOfKey = std::function<std::string(const std::string& key)>;

// Each leaves the files alone if the section chooses another kind of data.
void ReadTextKeys(const Section& data, const PathOfKey& path, TextData* text);
void ReadTokenKeys(const Section& data, const PathOfKey& path, DataFiles* files);
void ReadIgnoreLabel(const Section& data, std::optional<std::int64_t>* label);
void ReadImageKeys(const Section& data, ImageData* images);

}  // namespace acan
