// Graph: the tasks of one pass (a training step, an evaluation batch, or the initialisation) under
// a plan, as tuples that name their inputs. A pure function; nothing is put or computed here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/core/parameter.h"
#include "acan/core/task.h"
#include "acan/manager/plan.h"
#include "tuplespace/messages.h"

namespace acan {

// A task with what the space must know of it.
struct PlannedTask {
  tuplespace::Key key;
  std::vector<tuplespace::Key> inputs;
  std::int32_t affinity = -1;
  std::int64_t priority = 0;
  int layer = 0;
  Task task;
  std::vector<tuplespace::ClientId> not_by = {};  // handlers that must not get it
};

struct Pass {
  std::string job;
  std::int64_t step = 0;      // reads weights of this version; a training step makes step + 1
  std::int64_t batch_id = 0;  // 0: training; 1..: evaluation batches of one version
  std::int64_t rows = 0;      // samples
  bool train = true;
  KernelScalars optimizer;  // of this step
  bool timed = false;       // the lease is the job's own time limit
};

// A cell that the manager puts for a pass: of one input of the model, rows of the whole batch
// (row = sample of the batch x positions of the input + position), and features.
struct DataCell {
  tuplespace::Key key;
  std::string input;  // as model::Graph names it
  Range rows;
  Range features;
};

// The part [outputs, inputs] of a parameter, or of the optimizer's state for it, in one version.
struct TileCell {
  tuplespace::Key key;
  MatrixId matrix;
  Range outputs;
  Range inputs;  // of a bias: [0, 1)

  bool IsOfValue() const { return matrix.state == ParameterState::kValue; }
};

class Graph {
 public:
  Graph(const Model& model, const Training& training, const Plan& plan)
      : model_(model), training_(training), plan_(plan) {}

  std::vector<PlannedTask> Initialize(const std::string& job) const;
  std::vector<PlannedTask> Tasks(const Pass& pass) const;

  std::vector<DataCell> DataCells(const Pass& pass) const;
  std::vector<TileCell> Tiles(const std::string& job, std::int64_t version) const;
  // One tuple [1, n] for each range of rows: sum of losses and, for cross-entropy, correct answers.
  std::vector<std::pair<tuplespace::Key, Range>> Losses(const Pass& pass) const;

 private:
  const Model& model_;
  const Training& training_;
  const Plan& plan_;
};

tuplespace::Tuple ToTuple(const PlannedTask& planned, std::int64_t lease_us);

}  // namespace acan
