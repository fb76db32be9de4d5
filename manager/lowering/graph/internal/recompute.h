// Finds the nodes that the backward pass recomputes, and inserts copies of them.
//
//   before    x --> norm --> y --> product ...        backward ... product's gradient(y)
//   after     x --> norm --> y --> product ...        backward ... norm' (x) --> y'
//                                                                  product's gradient(y')
//
// A copy stands before the first node that reads it. So y stays within one task and y' within
// another, and neither lies in the space between the passes.
#pragma once

#include <vector>

#include "acan/manager/lowered_graph.h"

namespace acan {

class Recomputation {
 public:
  // The views must have been made. It changes `nodes` and `values`, and appends to both.
  Recomputation(Recompute recompute, std::vector<LoweredNode>* nodes,
                std::vector<LoweredValue>* values);
  void Run();

 private:
  bool IsAgain(const LoweredNode& node) const;
  int Again(int value);
  void Copy(int producer);

  Recompute recompute_;
  std::vector<LoweredNode>& nodes_;
  std::vector<LoweredValue>& values_;
  const std::vector<LoweredNode> before_;  // the original nodes
  std::vector<LoweredNode> after_;
  std::vector<int> again_;  // by value: the value to read instead; -1: not known yet
};

}  // namespace acan
