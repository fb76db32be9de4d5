#include "acan/manager/plan_forecast.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include "acan/core/error.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/handler_pool.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/task_cost.h"
#include "fmt/format.h"

namespace acan {
namespace {

HandlersSeen Seen(const std::vector<Capacity>& handlers) {
  HandlersSeen seen;
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    seen.handlers.emplace(fmt::format("{:04}", i), handlers[i]);
  }
  return seen;
}

Plan PlanFor(const ManagerConfig& config, const PlannedModel& model,
             const std::vector<Capacity>& handlers) {
  ManagerConfig fixed = config;
  fixed.fixed_handlers = true;
  fixed.expected_handlers = 0;
  HandlerPool pool(fixed, model);
  pool.OnHandlers(Seen(handlers), 0);
  ManagerActions said;
  HandlerPool::Advice advice = pool.Check(nullptr, 0, said);
  if (auto* plan = std::get_if<Plan>(&advice)) return std::move(*plan);
  if (auto* end = std::get_if<GiveUp>(&advice)) throw FailureError(end->text);
  throw FailureError("no handler in the list supports the job's precision");
}

std::vector<PlannedTask> TasksOfStep(const ManagerConfig& config, const PlannedModel& model,
                                     const Plan& plan) {
  Pass pass;
  pass.job = "plan";
  pass.rows = std::min(config.training.batch, config.train_samples);
  return PassTasks(model, config.training, plan).Tasks(pass);
}

std::string NameOf(const PlannedModel& model, const Plan& plan, int segment) {
  const std::vector<Segment>& segments = plan.cuts.training;
  if (segment >= static_cast<int>(segments.size())) return "updates";
  const Range& nodes = segments[static_cast<std::size_t>(segment)].nodes;
  const auto name = [&](std::int64_t node) {
    const LoweredGraph& graph = model->TrainingOf(plan.cuts.recompute);
    return std::string(graph.node(static_cast<int>(node)).node->name);
  };
  const std::string first = name(nodes.begin), last = name(nodes.end - 1);
  return first == last ? first : first + " to " + last;
}

WorkerSpeed SpeedOf(const ManagerConfig& config, const std::vector<Capacity>& handlers) {
  WorkerSpeed speed = SpeedOf(Seen(handlers).handlers);
  speed.overhead_us = config.overhead_us;
  return speed;
}

// The bytes that move if one handler has memory for everything.
std::uint64_t LeastMoved(const ManagerConfig& config, const PlannedModel& model) {
  constexpr std::uint64_t kPlenty = std::uint64_t{1} << 50;
  Capacity all;
  all.name = "all";
  all.memory_bytes = kPlenty;
  all.exact = all.fast = true;
  std::uint64_t bytes = 0;
  for (const PlannedTask& task : TasksOfStep(config, model, PlanFor(config, model, {all}))) {
    bytes += MovedBytes(task.task);
  }
  return bytes;
}

void AddStages(const PlannedModel& model, const std::vector<PlannedTask>& tasks,
               const WorkerSpeed& speed, PlanForecast* forecast) {
  struct Sums {
    double all_us = 0, largest_us = 0;
  };
  std::map<std::tuple<int, TaskKind, std::int64_t>, std::size_t> places;
  std::vector<Sums> sums;
  for (const PlannedTask& task : tasks) {
    const auto [place, is_new] = places.try_emplace(
        {task.segment, task.task.kind, StageOf(task.priority)}, forecast->stages.size());
    if (is_new) {
      forecast->stages.push_back(
          {NameOf(model, forecast->plan, task.segment), TaskKindName(task.task.kind)});
      sums.emplace_back();
    }
    StageForecast& stage = forecast->stages[place->second];
    ++stage.tasks;
    stage.need_bytes = std::max(stage.need_bytes, NeedBytes(task.task));
    stage.moved_bytes += MovedBytes(task.task);
    stage.gflop += static_cast<double>(Flops(task.task)) * 1e-9;
    const double us = TaskUs(speed, task.task);
    sums[place->second].all_us += us;
    sums[place->second].largest_us = std::max(sums[place->second].largest_us, us);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    StageForecast& stage = forecast->stages[i];
    stage.us = StageUs(speed, sums[i].all_us, sums[i].largest_us, static_cast<double>(stage.tasks));
    forecast->tasks += stage.tasks;
    forecast->moved_bytes += stage.moved_bytes;
    forecast->step_us += stage.us;
  }
}

// The handlers, with another host that has the same handlers as the last one.
std::vector<Capacity> WithOneMore(std::vector<Capacity> handlers) {
  const std::string last = handlers.back().host;
  const std::size_t count = handlers.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!handlers[i].bytes_travel || handlers[i].host != last) continue;
    Capacity more = handlers[i];
    more.host += ", one more";
    handlers.push_back(std::move(more));
  }
  return handlers;
}

void AddHosts(const ManagerConfig& config, const PlannedModel& model,
              const std::vector<PlannedTask>& tasks, const std::vector<Capacity>& handlers,
              PlanForecast* forecast) {
  const auto network =
      NetworkOf(Seen(handlers).handlers, config.LeastResidentBytes(), config.machine);
  if (!network) return;
  const Placement placed = PlaceOnBestPart(*network, tasks);
  if (!std::isfinite(placed.step_us)) return;
  forecast->step_us = placed.step_us;
  forecast->manager_bytes = placed.manager_bytes;
  forecast->broker_bytes = placed.broker_bytes;
  forecast->hosts.resize(network->hosts.size());
  for (std::size_t host = 0; host < placed.loads.size(); ++host) {
    forecast->hosts[host].load = placed.loads[host];
  }
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    HostForecast& host = forecast->hosts[network->handlers[i].host];
    host.name = handlers[i].bytes_travel ? handlers[i].host : "";
    host.tasks +=
        std::count(placed.handler_of.begin(), placed.handler_of.end(), static_cast<int>(i));
  }
  forecast->step_us_with_one_more = PlanFor(config, model, WithOneMore(handlers)).step_us;
}

}  // namespace

PlanForecast ForecastPlan(const ManagerConfig& config, const std::vector<Capacity>& handlers) {
  const PlannedModel model = LowerModel(config.model);
  PlanForecast forecast;
  forecast.plan = PlanFor(config, model, handlers);
  const std::vector<PlannedTask> tasks = TasksOfStep(config, model, forecast.plan);
  const WorkerSpeed speed = SpeedOf(config, handlers);
  forecast.workers = speed.workers;
  AddStages(model, tasks, speed, &forecast);
  AddHosts(config, model, tasks, handlers, &forecast);
  for (const Capacity& handler : handlers) {
    const auto fit = std::count_if(tasks.begin(), tasks.end(), [&](const PlannedTask& task) {
      return NeedBytes(task.task) <= handler.memory_bytes;
    });
    forecast.handlers.emplace_back(handler, fit);
  }
  forecast.least_moved_bytes = LeastMoved(config, model);
  return forecast;
}

}  // namespace acan
