// The tasks of a pass, their input data and their results: plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/parameter.h"
#include "acan/core/range.h"
#include "acan/core/task.h"
#include "acan/core/task_encoder.h"
#include "tuplespace/messages.h"

namespace acan {

// A task with the attributes that the space needs.
struct PlannedTask {
  tuplespace::Key key;
  std::vector<tuplespace::Key> inputs;
  std::int32_t affinity = -1;
  std::int64_t priority = 0;
  int segment = 0;  // the number of segments: initialization and updates, after all segments
  Task task;
  std::vector<tuplespace::ClientId> not_by = {};  // handlers that must not get it
  tuplespace::ClientId prefers = {};              // the handler for which it is reserved
  std::int64_t prefer_us = 0;                     // for this time
  std::shared_ptr<TaskEncoder> encoder = {};      // shared with this task of other steps; or null
};

// Each segment, and each place among the updates, has this many priorities, one per stage: a task's
// number is higher than those of the tasks of its segment that it waits for.
inline constexpr std::int64_t kStagesOfSegment = 4;
// The priorities of one step.
inline constexpr std::int64_t kPrioritiesOfStep = 1'000'000;
static_assert(kPrioritiesOfStep / 2 % kStagesOfSegment == 0);
inline std::int64_t StageOf(std::int64_t priority) {
  return priority % kStagesOfSegment;
}

struct Pass {
  std::string job;
  std::int64_t step = 0;      // reads weights of this version; a training step makes step + 1
  std::int64_t batch_id = 0;  // 0: training; 1..: the evaluation batches of one version
  std::int64_t rows = 0;      // samples
  bool train = true;
  KernelScalars optimizer;                     // of this step
  KernelScalars optimizer_without_decay = {};  // for parameters that do not decay
  std::int64_t counted_rows = -1;              // rows whose label is not ignored; -1: all
  bool timed = false;                          // the lease is a time limit
};

// A cell that the manager puts for a pass: rows of the whole batch of one input of the model (row =
// sample of the batch x positions of the input + position), and features.
struct DataCell {
  tuplespace::Key key;
  std::string input;  // as model::Graph names it
  Range rows;
  Range features;
};

// One tuple [1, n] for each box of the rows of the loss: the sum of its losses and, for classes,
// the number of correct answers.
struct LossCell {
  tuplespace::Key key;
  Range place;            // in the order of addition: a node of a tree (range.h)
  std::int64_t rows = 0;  // number of losses that it sums
  // Its task computes the losses from sums that other tasks made; otherwise from outputs and
  // targets alone.
  bool is_of_sums = false;
};

// A part [outputs, inputs] of a parameter (a vector is a row), or of its optimizer state, in one
// version.
struct TileCell {
  tuplespace::Key key;
  MatrixId matrix;
  Range outputs;
  Range inputs;
  bool frozen = false;  // the same tuple in every version

  bool IsOfValue() const { return matrix.state == ParameterState::kValue; }
};

// Appends tasks to a plan.
void AppendTo(std::vector<PlannedTask>* tasks, std::vector<PlannedTask> more);

tuplespace::Tuple ToTuple(PlannedTask&& planned, std::int64_t lease_us);
inline tuplespace::Tuple ToTuple(const PlannedTask& planned, std::int64_t lease_us) {
  return ToTuple(PlannedTask(planned), lease_us);
}

}  // namespace acan
