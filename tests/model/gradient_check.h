// Compares gradients with central differences, both in float64.
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

// A random integer in [least, most].
std::int64_t Draw(Random* random, std::int64_t least, std::int64_t most);

// A random value that is valid: tokens and labels below their bound (if the loss may ignore labels,
// one in five except the first is ignored), lengths from 1 to their bound, scales about 1,
// statistics above 0.5, all others normally distributed.
Matrix RandomValue(const Graph& graph, ValueId id, std::int64_t samples, Random* random);

struct CheckLimits {
  int elements = 24;        // at most, of each gradient; chosen at random
  double tolerance = 1e-6;  // relative to the gradient's largest element
};

// Adds gradients for all trained parameters and all numeric inputs, gives every input and parameter
// a random value, and compares. Returns the names of the operators that were computed.
std::set<std::string> ExpectGradientsAreRight(const Graph& forward, std::int64_t samples,
                                              Random* random, const CheckLimits& limits = {});

}  // namespace acan::model
