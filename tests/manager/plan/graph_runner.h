// Runs the tasks of a plan one after the other in this process, with a map as the space. The result
// is what any set of handlers would compute.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "acan/core/schedule.h"
#include "acan/cpu/cpu_device.h"
#include "acan/manager/model_file.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/sha256.h"
#include "device/executor.h"

namespace acan {

class GraphRunner {
 public:
  GraphRunner(Perceptron model, Training training, Plan plan)
      : model_(std::move(model)),
        built_(BuildModel(model_)),
        training_(training),
        plan_(std::move(plan)),
        graph_(LowerModel(built_), training_, plan_),
        device_(MakeCpuDevice({.threads = 1, .memory_limit_bytes = 1ull << 30, .isa = {}})) {}

  void Initialize() { RunAll(graph_.Initialize("job")); }

  // `inputs` is [rows, in], `targets` is [rows, columns]; labels are the bits of int32.
  void Step(std::int64_t step, std::int64_t total, const std::vector<float>& inputs,
            const std::vector<float>& targets, std::int64_t rows) {
    Pass pass = PassOf(step, rows);
    pass.optimizer = OptimizerScalarsAt(training_, step, total);
    const auto target_columns = static_cast<std::int64_t>(targets.size()) / rows;
    for (const DataCell& cell : graph_.DataCells(pass)) {
      const bool is_input = cell.input == "x";
      Put(cell, is_input ? inputs : targets, is_input ? model_.layers.front() : target_columns);
    }
    RunAll(graph_.Tasks(pass));
    losses_.clear();
    for (const LossCell& loss : graph_.Losses(pass)) losses_.push_back(Floats(loss.key));
  }

  const std::vector<model::Parameter>& parameters() const { return built_->training.parameters(); }

  // The value of a parameter by its number.
  std::vector<float> ValueOf(std::size_t index, std::int64_t version) {
    const model::Parameter& parameter = parameters()[index];
    const std::int64_t cols = parameter.columns;
    std::vector<float> all(static_cast<std::size_t>(parameter.elements()), NAN);
    for (const TileCell& tile : graph_.Tiles("job", version)) {
      if (tile.matrix != MatrixId{ParameterId{static_cast<std::int64_t>(index)}}) continue;
      const std::vector<float> values = Floats(tile.key);
      for (std::int64_t r = 0; r < tile.outputs.size(); ++r) {
        for (std::int64_t c = 0; c < tile.inputs.size(); ++c) {
          all[static_cast<std::size_t>((tile.outputs.begin + r) * cols + tile.inputs.begin + c)] =
              values[static_cast<std::size_t>(r * tile.inputs.size() + c)];
        }
      }
    }
    return all;
  }

  std::string Hash(std::int64_t version) {
    Sha256 hash;
    for (std::size_t i = 0; i < parameters().size(); ++i) {
      const std::vector<float> values = ValueOf(i, version);
      hash.Add(values.data(), 4 * values.size());
    }
    return hash.Hex();
  }

  const std::vector<std::vector<float>>& losses() const { return losses_; }
  std::size_t tasks_run() const { return tasks_run_; }

 private:
  Pass PassOf(std::int64_t step, std::int64_t rows) const {
    Pass pass;
    pass.job = "job";
    pass.step = step;
    pass.rows = rows;
    return pass;
  }

  void Put(const DataCell& cell, const std::vector<float>& values, std::int64_t cols) {
    std::vector<float> part;
    for (std::int64_t r = cell.rows.begin; r < cell.rows.end; ++r) {
      for (std::int64_t c = cell.features.begin; c < cell.features.end; ++c) {
        part.push_back(values[static_cast<std::size_t>(r * cols + c)]);
      }
    }
    space_[cell.key] = tuplespace::Payload::Copy(part.data(), 4 * part.size());
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
      const std::uint64_t before = device_->budget().used_bytes();
      for (TaskResult& result : RunTaskOn(*device_, task, inputs)) {
        const tuplespace::PayloadHash hash = tuplespace::HashOf(result.payload.bytes());
        ASSERT_EQ(result.payload.hash().value_or(hash), hash) << result.key.ToString();
        const tuplespace::Payload copy =
            tuplespace::Payload::Copy(result.payload.data(), result.payload.size());
        ASSERT_TRUE(space_.emplace(result.key, copy).second)
            << result.key.ToString() << " is made by two tasks";
      }
      ASSERT_EQ(device_->budget().used_bytes(), before) << "memory was kept";
      ASSERT_LE(NeedBytes(task), std::max(plan_.largest_need_bytes, plan_.cuts.task_bytes));
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

  const Perceptron model_;
  const std::shared_ptr<const TrainedModel> built_;
  const Training training_;
  const Plan plan_;
  const PassTasks graph_;
  std::unique_ptr<Device> device_;
  std::map<tuplespace::Key, tuplespace::Payload> space_;
  std::set<tuplespace::Key> keys_;
  std::vector<std::vector<float>> losses_;
  std::size_t tasks_run_ = 0;
};

}  // namespace acan
