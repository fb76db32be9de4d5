// The tuples that a manager puts for a pass: the samples' inputs and targets, cut into cells.
#pragma once

#include <functional>
#include <vector>

#include "acan/manager/dataset.h"
#include "acan/manager/graph.h"

namespace acan {

// `sample_at`: the sample of `set` that is row r of the batch. Labels are put as the bits of int32.
std::vector<tuplespace::Tuple> PassTuples(
    const Graph& graph, const Pass& pass, const DataSet& set,
    const std::function<std::int64_t(std::int64_t)>& sample_at);

}  // namespace acan
