// The cost of planning: the processor time in which ChooseCuts cuts a graph for handlers with
// little memory, and in which GraphTasks makes the tasks of a step. Prints JSON with medians.
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "acan/manager/graph_planner.h"
#include "acan/model/gradients.h"
#include "acan/model/presets.h"
#include "nlohmann/json.hpp"
#include "summary.h"
#include "tuplespace/space.h"

namespace acan::bench {
namespace {

// Processor time of this process, which other load does not affect.
double CpuS() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Case {
  std::string name;
  std::int64_t batch;
  std::uint64_t capacity_bytes;
  std::function<model::Graph(model::Mode)> make;
};

model::Graph TenMillionGpt(model::Mode mode) {
  model::GptOptions o;
  o.n_layer = 6;
  o.n_head = 6;
  o.n_embd = 384;
  o.block_size = 256;
  o.vocab_size = 96;
  o.dropout = 0;
  return model::Gpt(o, mode);
}

model::Graph WideLinears(model::Mode mode) {
  model::MlpOptions o;
  o.layers.assign(25, 4096);
  o.layers.push_back(10);
  return model::Mlp(o, mode);
}

std::vector<Case> Cases() {
  constexpr std::uint64_t kMiB = 1 << 20;
  return {{"gpt 6 x 384, 256 tokens", 16, 1024 * kMiB, TenMillionGpt},
          {"gpt 6 x 384, 256 tokens", 16, 4 * kMiB, TenMillionGpt},
          {"gpt 6 x 384, 256 tokens", 16, 2 * kMiB, TenMillionGpt},
          {"gpt 6 x 384, 256 tokens", 16, 1 * kMiB, TenMillionGpt},
          {"24 linear layers of 4096", 128, 1 * kMiB, WideLinears}};
}

nlohmann::json Run(const Case& of, int repeats) {
  const auto training =
      std::make_shared<const model::Graph>(model::WithGradients(of.make(model::Mode::kTraining)));
  const auto evaluation = std::make_shared<const model::Graph>(of.make(model::Mode::kEvaluation));
  const LoweredModel model{LoweredGraph(training), LoweredGraph(evaluation)};
  Training with;
  with.batch = of.batch;
  with.optimizer = Optimizer::kAdamW;
  CutRequest request{.model = model, .training = with, .size_bytes = {}, .batch_rows = {}};
  request.capacity_bytes = of.capacity_bytes;
  request.speed.workers = 2;
  request.tuple_bytes = tuplespace::SpaceLimits{}.message_bytes;
  request.task_inputs = tuplespace::SpaceLimits{}.task_inputs;
  std::vector<double> plan_s, tasks_s;
  std::optional<ChosenCuts> chosen;
  std::uint64_t smallest = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double begin_s = CpuS();
    chosen = ChooseCuts(request, &smallest);
    plan_s.push_back(CpuS() - begin_s);
    if (!chosen) continue;
    Pass pass;
    pass.job = "bench";
    pass.rows = of.batch;
    const double tasks_begin_s = CpuS();
    const std::vector<PlannedTask> tasks = GraphTasks(model, with, chosen->cuts).Tasks(pass);
    tasks_s.push_back(CpuS() - tasks_begin_s);
  }
  nlohmann::json result = {{"model", of.name},
                           {"batch", of.batch},
                           {"handler_bytes", of.capacity_bytes},
                           {"plan_s", Summary(plan_s)}};
  if (chosen) {
    result["tasks_s"] = Summary(tasks_s);
    result["plan"] = acan::Summary(*chosen, of.batch);
    result["tasks"] = chosen->cost.tasks;
    result["estimated_step_us"] = chosen->cost.step_us;
    result["largest_need_bytes"] = chosen->cost.largest_need_bytes;
  } else {
    result["smallest_need_bytes"] = smallest;
  }
  return result;
}

}  // namespace
}  // namespace acan::bench

// planning_bench [REPEATS]
int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 5;
  nlohmann::json results = {{"bench", "planning"}, {"unit", "s"}};
  for (const auto& of : acan::bench::Cases()) {
    results["points"].push_back(acan::bench::Run(of, repeats > 0 ? repeats : 1));
  }
  std::cout << results.dump(2) << "\n";
}
