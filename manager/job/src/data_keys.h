// The keys of [data] for text, tokens and images.
#pragma once

#include <functional>
#include <string>

#include "acan/manager/job.h"
#include "job_reader.h"

namespace acan {

// Refuses keys that belong to another kind of data than the one that the section chooses by `text`
// or `train_text`, `train_tokens`, `generated`, or else `train_inputs`.
void RefuseOtherKinds(const Section& data);

// `path(key)` returns the absolute path that the key names; "" if the key is not set.
using PathOfKey = std::function<std::string(const std::string& key)>;

// Each of these changes nothing if the section chooses another kind of data.
void ReadTextKeys(const Section& data, const PathOfKey& path, TextData* text);
void ReadTokenKeys(const Section& data, const PathOfKey& path, DataFiles* files);
void ReadIgnoreLabel(const Section& data, std::optional<std::int64_t>* label);
void ReadImageKeys(const Section& data, ImageData* images);

}  // namespace acan
