// The gradient of a graph as a graph.
#pragma once

#include <vector>

#include "acan/model/graph.h"

namespace acan::model {

// `forward` with the nodes appended that compute the loss' gradient with respect to every trained
// parameter and every value of `also` (inputs); Graph::gradients() says where each is.
//
// - Backward nodes come in descending order of the forward nodes that they belong to.
// - Where a value has several consumers their gradients are added in ascending order of the
//   consumers, ((g0 + g1) + g2). For a tied weight that is the embedding's and then the head's;
//   of two it does not matter which is first.
// - Nothing is computed that only frozen parameters, or nobody, would need.
//
// Throws Error (usage) if `forward` has no loss, has gradients already, or if the loss does not
// depend on a trained parameter or a value of `also`; the sentence names it.
Graph WithGradients(const Graph& forward, const std::vector<ValueId>& also = {});

}  // namespace acan::model
