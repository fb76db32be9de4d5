// For tests of graphs: a graph with one value of each kind, and the message of a mistake.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "acan/core/error.h"
#include "acan/model/graph.h"

namespace acan::model {

// Returns the text of the Error (usage) that `run` throws.
template <class Run>
std::string ErrorOf(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

struct Small {
  Graph graph;
  ValueId x = graph.AddInput("x", InputRole::kNumbers, 6, 8);
  ValueId ids = graph.AddInput("ids", InputRole::kTokens, 6, 1, 10);
  ValueId weight = graph.AddParameter(MatrixParameter("w", 4, 8, Constant{}));
  ValueId bias = graph.AddParameter(VectorParameter("b", Role::kBias, 4, Constant{}));

  std::string Error(const Operator& op, const std::vector<ValueId>& operands) {
    return ErrorOf([&] { graph.Add("n", op, operands); });
  }
};

}  // namespace acan::model
