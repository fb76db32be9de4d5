// Runs the tasks of a graph one after the other in this process, with a map as the space. The
// result is what any set of handlers would compute.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/schedule.h"
#include "acan/cpu/cpu_device.h"
#include "acan/manager/graph_tasks.h"
#include "acan/manager/sha256.h"
#include "acan/manager/tuple_names.h"
#include "device/executor.h"
#include "reference.h"

namespace acan {

class LoweringRunner {
 public:
  // Uses `device`, or a CPU with one thread.
  LoweringRunner(const LoweredModel& model, Training training, GraphCuts cuts,
                 std::unique_ptr<Device> device = nullptr)
      : model_(model),
        training_(training),
        cuts_(std::move(cuts)),
        tasks_(model_, training_, cuts_),
        device_(device ? std::move(device) : MakeCpu()) {}

  static std::unique_ptr<Device> MakeCpu() {
    return MakeCpuDevice({.threads = 1, .memory_limit_bytes = 1ull << 30, .isa = {}});
  }

  void Initialize() { RunAll(tasks_.Initialize("job")); }

  // Keys are the names of the graph's inputs.
  using Inputs = std::map<std::string, model::Matrix>;

  void Step(std::int64_t step, std::int64_t samples, const Inputs& inputs, std::int64_t counted) {
    Pass pass = PassOf(step, samples, counted);
    pass.optimizer = OptimizerScalarsAt(training_, step, 10);
    Training without = training_;
    without.weight_decay = 0;
    pass.optimizer_without_decay = OptimizerScalarsAt(without, step, 10);
    Run(pass, inputs);
  }
  void Evaluate(std::int64_t version, std::int64_t samples, const Inputs& inputs,
                std::int64_t counted) {
    Pass pass = PassOf(version, samples, counted);
    pass.train = false;
    pass.batch_id = 1;
    Run(pass, inputs);
  }

  std::vector<float> ValueOf(std::int32_t parameter, std::int64_t version,
                             ParameterState state = ParameterState::kValue) {
    const model::Parameter& p = model_.training.graph().parameter(parameter);
    std::vector<float> all(static_cast<std::size_t>(p.elements()), NAN);
    for (const TileCell& tile : tasks_.Tiles("job", version)) {
      if (tile.matrix != MatrixId{ParameterId{parameter}, state}) continue;
      const std::vector<float> values = Floats(tile.key);
      const Range rows = tile.outputs, columns = tile.inputs;
      for (std::int64_t r = 0; r < rows.size(); ++r) {
        for (std::int64_t c = 0; c < columns.size(); ++c) {
          all[static_cast<std::size_t>((rows.begin + r) * p.columns + columns.begin + c)] =
              values[static_cast<std::size_t>(r * columns.size() + c)];
        }
      }
    }
    return all;
  }

  std::string Hash(std::int64_t version) {
    Sha256 hash;
    const auto count = static_cast<std::int32_t>(model_.training.graph().parameters().size());
    for (std::int32_t p = 0; p < count; ++p) {
      const std::vector<float> values = ValueOf(p, version);
      hash.Add(values.data(), 4 * values.size());
    }
    return hash.Hex();
  }

  // The rows of a value, with all columns, that one task of an evaluation put for others.
  std::vector<float> Evaluated(std::int64_t version, int value, const Range& rows) {
    const Range columns{0, model_.evaluation.value(value).columns};
    return Floats(
        PassKeys("job", version, 1).Features(StepTuple::kActivation, value, rows, columns));
  }

  // The sum over all rows in canonical order: the loss and, for classes, the right answers.
  const std::vector<float>& loss() const { return loss_; }
  // The sum of the squares of all gradients of the last step; empty: not computed.
  const std::vector<float>& squares() const { return squares_; }
  std::size_t tasks_run() const { return tasks_run_; }
  std::uint64_t largest_need_bytes() const { return largest_need_bytes_; }

 private:
  Pass PassOf(std::int64_t step, std::int64_t samples, std::int64_t counted) const {
    Pass pass;
    pass.job = "job";
    pass.step = step;
    pass.rows = samples;
    pass.counted_rows = counted;
    return pass;
  }

  static const model::Input& InputOf(const model::Graph& graph, const std::string& name) {
    for (const model::Input& input : graph.inputs()) {
      if (input.name == name) return input;
    }
    throw std::out_of_range(name);
  }

  void Run(const Pass& pass, const Inputs& inputs) {
    const LoweredGraph& graph = pass.train ? model_.training : model_.evaluation;
    for (const DataCell& cell : tasks_.InputCells(pass)) {
      const model::Input& input = InputOf(graph.graph(), cell.input);
      const model::Matrix& values = inputs.at(input.name);
      const bool integers =
          graph.graph().value(input.value).shape.element == model::Element::kInteger;
      std::vector<float> words;
      for (std::int64_t r = cell.rows.begin; r < cell.rows.end; ++r) {
        for (std::int64_t c = cell.features.begin; c < cell.features.end; ++c) {
          const double value = values.at(r, c);
          float word = static_cast<float>(value);
          if (integers) {
            const auto integer = static_cast<std::int32_t>(value);
            std::memcpy(&word, &integer, sizeof word);
          }
          words.push_back(word);
        }
      }
      space_[cell.key] = tuplespace::Payload::Copy(words.data(), 4 * words.size());
    }
    for (const tuplespace::Tuple& table : tasks_.Tables(pass)) space_[table.key] = table.payload;
    RunAll(tasks_.Tasks(pass));
    std::vector<std::vector<float>> sums;
    std::vector<Range> places;
    for (const LossCell& loss : tasks_.Losses(pass)) {
      sums.push_back(Floats(loss.key));
      places.push_back(loss.place);
    }
    for (const Combine& combine : CombineOrder(places, cuts_.block)) {
      for (std::size_t i = 0; i < sums[combine.left].size(); ++i) {
        sums[combine.left][i] += sums[combine.right][i];
      }
    }
    loss_ = sums.front();
    if (const auto norm = tasks_.GradientNorm(pass)) squares_ = Floats(*norm);
  }

  void RunAll(const std::vector<PlannedTask>& tasks) {
    for (const PlannedTask& planned : tasks) {
      ASSERT_TRUE(keys_.insert(planned.key).second) << planned.key.ToString() << " planned twice";
      const tuplespace::Tuple tuple = ToTuple(planned, 0);
      const Task task = DecodeTask(tuple.payload, planned.inputs.size());
      std::vector<TaskInput> inputs;
      for (const tuplespace::Key& key : planned.inputs) {
        ASSERT_TRUE(space_.count(key)) << planned.key.ToString() << " needs " << key.ToString()
                                       << ", which no task before it makes";
        inputs.push_back({space_[key], nullptr});
      }
      for (TaskResult& result : RunTaskOn(*device_, task, inputs)) {
        const tuplespace::PayloadHash hash = tuplespace::HashOf(result.payload.bytes());
        ASSERT_EQ(result.payload.hash().value_or(hash), hash) << result.key.ToString();
        const tuplespace::Payload copy =
            tuplespace::Payload::Copy(result.payload.data(), result.payload.size());
        ASSERT_TRUE(space_.emplace(result.key, copy).second)
            << result.key.ToString() << " is made by two tasks";
      }
      largest_need_bytes_ = std::max(largest_need_bytes_, NeedBytes(task));
      ++tasks_run_;
    }
  }

  std::vector<float> Floats(const tuplespace::Key& key) {
    const auto it = space_.find(key);
    EXPECT_TRUE(it != space_.end()) << key.ToString() << " was not made";
    if (it == space_.end()) return {};
    std::vector<float> values(it->second.size() / 4);
    std::memcpy(values.data(), it->second.data(), it->second.size());
    return values;
  }

  const LoweredModel& model_;
  const Training training_;
  const GraphCuts cuts_;
  const GraphTasks tasks_;
  std::unique_ptr<Device> device_;
  std::map<tuplespace::Key, tuplespace::Payload> space_;
  std::set<tuplespace::Key> keys_;
  std::vector<float> loss_, squares_;
  std::size_t tasks_run_ = 0;
  std::uint64_t largest_need_bytes_ = 0;
};

}  // namespace acan
