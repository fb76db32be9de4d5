// The tuples that a manager puts for a pass: the samples' inputs and targets, cut into cells.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "acan/manager/pass_tasks.h"
#include "acan/manager/sample_set.h"
#include "tuplespace/shared_pool.h"

namespace acan {

// One cell. `sample_at(i)` is the sample of `set` that is sample i of the batch. Integers are put
// as the bits of int32. The payload is made in `pool` if that is not null and has room.
// REQUIRES: the set has the cell's input. Throws as SampleSet::Copy.
tuplespace::Tuple CellTuple(const DataCell& cell, const SampleSet& set, std::int64_t epoch,
                            const std::function<std::int64_t(std::int64_t)>& sample_at,
                            tuplespace::SharedPool* pool);

// Whether some labels of the set are not a class.
bool HasIgnoredLabels(const SampleSet& set);
// How many labels of the batch's `samples` samples are a class. REQUIRES: HasIgnoredLabels. Throws
// as SampleSet::Copy.
std::int64_t CountLabels(const SampleSet& set, std::int64_t samples, std::int64_t epoch,
                         const std::function<std::int64_t(std::int64_t)>& sample_at);

// All cells of a pass, made as CellTuple does.
std::vector<tuplespace::Tuple> PassTuples(
    const PassTasks& tasks, const Pass& pass, const SampleSet& set, std::int64_t epoch,
    const std::function<std::int64_t(std::int64_t)>& sample_at, tuplespace::SharedPool* pool);

}  // namespace acan
