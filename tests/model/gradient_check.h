// Gradients against central differences, both in float64.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "acan/model/graph.h"
#include "reference.h"

namespace acan::model {

using Random = std::mt19937_64;

// In [least, most].
std::int64_t Draw(Random* random, std::int64_t least, std::int64_t most);

// A value that fits: tokens and labels below their bound (one label in five is ignored, where the
// loss may ignore some, the first never), lengths from 1 to theirs, scales about 1, statistics
// above 0.5, all others normal.
Matrix RandomValue(const Graph& graph, ValueId id, std::int64_t samples, Random* random);

struct CheckLimits {
  int elements = 24;        // of each gradient, at most; chosen at random
  double tolerance = 1e-6;  // relative to the gradient's largest element
};

// Adds gradients for all trained parameters and all inputs of numbers, gives every input and
// parameter a random value, and compares. Returns the names of the operators that were computed.
std::set<std::string> ExpectGradientsAreRight(const Graph& forward, std::int64_t samples,
                                              Random* random, const CheckLimits& limits = {});

}  // namespace acan::model
