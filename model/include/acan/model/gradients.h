// The gradient of a graph as a graph.
#pragma once

#include <vector>

#include "acan/model/graph.h"

namespace acan::model {

// `forward` with appended nodes that compute the loss' gradient with respect to every trained
// parameter and every value of `also` (inputs); Graph::gradients() says where each gradient is.
//
// - Backward nodes come in descending order of the forward nodes that they belong to.
// - If a value has several consumers, their gradients are added in ascending order of the
//   consumers, ((g0 + g1) + g2). For a tied weight, the embedding's comes before the head's, though
//   the order of two does not matter.
// - Gradients that only frozen parameters need, or that nothing needs, are not computed.
//
// Throws Error (usage) if `forward` has no loss, if it has gradients already, or if the loss does
// not depend on a trained parameter or on a value of `also`; the message names the value.
Graph WithGradients(const Graph& forward, const std::vector<ValueId>& also = {});

}  // namespace acan::model
