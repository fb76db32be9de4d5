// A small job in which every axis is ragged: layer sizes, batch and samples are multiples of
// nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {

inline constexpr int kTrainSamples = 300;
inline constexpr int kTestSamples = 75;

// Writes IDX files and a job to `folder`; returns the job's path. The job: layers 97-211-53-10,
// cross entropy, batch 37, momentum, `kTrainSamples` samples whose class can be learned from the
// inputs.
std::string WriteRaggedJob(const TestFolder& folder);

// Trains and returns the receipt; `words` are further arguments. If the program fails, fails the
// test and returns null.
nlohmann::json Train(const std::string& job, const std::string& out,
                     const std::vector<std::string>& words, const Environment& environment = {});

// The bytes of each tensor of a safetensors file by its name, from nothing but the file's format.
// Empty if the file is too short.
std::map<std::string, std::string> TensorsOfModelFile(const std::string& path);

// Computes SHA-256 over the tensors of a safetensors file in the order of their names, from nothing
// but the file's format.
std::string HashOfModelFile(const std::string& path);

}  // namespace acan::testing
