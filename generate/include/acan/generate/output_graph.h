// OutputGraph: the part of a model's graph that computes one value. The other nodes may need inputs
// that prediction lacks, such as labels, and may cut the value's columns.
#pragma once

#include <vector>

#include "acan/manager/lowered_graph.h"
#include "acan/model/graph.h"

namespace acan {

// By ValueId: whether `value` is computed from it. `value` itself counts, too.
std::vector<bool> AncestorsOf(const model::Graph& graph, model::ValueId value);

struct OutputGraph {
  // It has the inputs and nodes that the value depends on, and all parameters with their indices.
  LoweredGraph lowered;
  int last_node = -1;  // its first result is the value
};

// REQUIRES: a node of `graph` makes `value`, and `graph` is one of evaluation.
OutputGraph MakeOutputGraph(const model::Graph& graph, model::ValueId value);

}  // namespace acan
