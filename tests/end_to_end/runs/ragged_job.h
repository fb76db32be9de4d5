// A small job whose every axis is ragged: sizes, batch and samples are no multiples of anything.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {

inline constexpr int kTrainSamples = 300;
inline constexpr int kTestSamples = 75;

// 97-211-53-10, cross entropy, batch 37, momentum, on IDX files of `kTrainSamples` samples whose
// class can be learned from the inputs. The files and the job are written to `folder`; returns the
// job's path.
std::string WriteRaggedJob(const TestFolder& folder);

// Trains and returns the receipt; `words` are further arguments. Fails the test (and returns null)
// if the program fails.
nlohmann::json Train(const std::string& job, const std::string& out,
                     const std::vector<std::string>& words, const Environment& environment = {});

// SHA-256 over the tensors of a safetensors file in the order of their names, computed from the
// file's format alone.
std::string HashOfModelFile(const std::string& path);

}  // namespace acan::testing
