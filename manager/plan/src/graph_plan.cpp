#include "graph_plan.h"

#include <utility>

#include "acan/manager/graph_planner.h"

namespace acan {

std::optional<Plan> MakeGraphPlan(const PlanRequest& request, std::uint64_t* smallest_need_bytes) {
  const CutRequest cuts{.model = *request.graphs,
                        .training = request.training,
                        .capacity_bytes = request.capacity_bytes,
                        .size_bytes = request.size_bytes,
                        .batch_rows = request.batch_rows,
                        .workers = request.handlers.workers,
                        .is_unequal = request.handlers.slowest_share > 0,
                        .gflops = request.handlers.gflops,
                        .overhead_us = request.overhead_us,
                        .tuple_bytes = request.tuple_bytes,
                        .task_inputs = request.task_inputs};
  std::optional<ChosenCuts> chosen = ChooseCuts(cuts, smallest_need_bytes);
  if (!chosen) return std::nullopt;
  Plan plan;
  plan.block = request.training.block;
  plan.batch = request.training.batch;
  plan.task_bytes = chosen->cuts.task_bytes;
  plan.largest_need_bytes = chosen->cost.largest_need_bytes;
  plan.tasks_per_step = chosen->cost.tasks;
  plan.graph_summary = Summary(*chosen, request.training.batch);
  plan.graph = std::move(chosen->cuts);
  plan.grids = MakeGrids(*request.graphs, *plan.graph);
  return plan;
}

}  // namespace acan
