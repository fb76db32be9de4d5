#include "acan/manager/plan_forecast.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "acan/core/error.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/handler_pool.h"
#include "acan/manager/memory_sizes.h"
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

struct Planned {
  Plan plan;
  std::map<std::string, Capacity> handlers;  // that get tasks
};

Planned PlanFor(const ManagerConfig& config, const PlannedModel& model,
                const std::vector<Capacity>& handlers) {
  ManagerConfig fixed = config;
  fixed.fixed_handlers = true;
  fixed.expected_handlers = 0;
  HandlerPool pool(fixed, model);
  pool.OnHandlers(Seen(handlers), 0);
  ManagerActions said;
  HandlerPool::Advice advice = pool.Check(nullptr, 0, said);
  if (auto* plan = std::get_if<Plan>(&advice)) return {std::move(*plan), pool.WithTasks()};
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

// The speed of the handlers with memory for a task.
class Speeds {
 public:
  Speeds(const ManagerConfig& config, std::map<std::string, Capacity> handlers)
      : overhead_us_(config.overhead_us), handlers_(std::move(handlers)) {}

  const WorkerSpeed& For(std::uint64_t need_bytes) {
    const auto [speed, is_new] = speeds_.try_emplace(need_bytes);
    if (is_new) {
      speed->second = SpeedOf(WithMemory(handlers_, need_bytes));
      speed->second.overhead_us = overhead_us_;
    }
    return speed->second;
  }

 private:
  const double overhead_us_;
  const std::map<std::string, Capacity> handlers_;
  std::map<std::uint64_t, WorkerSpeed> speeds_;
};

// The bytes that move if one handler has memory for everything.
std::uint64_t LeastMoved(const ManagerConfig& config, const PlannedModel& model) {
  constexpr std::uint64_t kPlenty = std::uint64_t{1} << 50;
  Capacity all;
  all.name = "all";
  all.memory_bytes = kPlenty;
  all.exact = all.fast = true;
  std::uint64_t bytes = 0;
  for (const PlannedTask& task : TasksOfStep(config, model, PlanFor(config, model, {all}).plan)) {
    bytes += MovedBytes(task.task);
  }
  return bytes;
}

void AddStages(const PlannedModel& model, const std::vector<PlannedTask>& tasks, Speeds* speeds,
               PlanForecast* forecast) {
  std::map<std::tuple<int, TaskKind, std::int64_t>, std::size_t> places;
  std::vector<std::vector<const Task*>> of_stages;
  for (const PlannedTask& task : tasks) {
    const auto [place, is_new] = places.try_emplace(
        {task.segment, task.task.kind, StageOf(task.priority)}, forecast->stages.size());
    if (is_new) {
      forecast->stages.push_back(
          {NameOf(model, forecast->plan, task.segment), TaskKindName(task.task.kind)});
      of_stages.emplace_back();
    }
    StageForecast& stage = forecast->stages[place->second];
    of_stages[place->second].push_back(&task.task);
    ++stage.tasks;
    stage.need_bytes = std::max(stage.need_bytes, NeedBytes(task.task));
    stage.moved_bytes += MovedBytes(task.task);
    stage.gflop += static_cast<double>(Flops(task.task)) * 1e-9;
  }
  for (std::size_t i = 0; i < of_stages.size(); ++i) {
    StageForecast& stage = forecast->stages[i];
    const WorkerSpeed& speed = speeds->For(stage.need_bytes);
    double all_us = 0, largest_us = 0;
    for (const Task* task : of_stages[i]) {
      const double us = TaskUs(speed, *task);
      all_us += us;
      largest_us = std::max(largest_us, us);
    }
    stage.us = StageUs(speed, all_us, largest_us, static_cast<double>(stage.tasks));
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

std::optional<PlacedStep> Place(const ManagerConfig& config, const std::vector<PlannedTask>& tasks,
                                const std::map<std::string, Capacity>& handlers) {
  return PlaceStep(handlers, tasks, config.LeastResidentBytes(), config.machine,
                   /*least_hosts=*/1);
}

double StepUsWithOneMore(const ManagerConfig& config, const PlannedModel& model,
                         const std::vector<Capacity>& handlers) {
  const std::vector<Capacity> more = WithOneMore(handlers);
  const Planned planned = PlanFor(config, model, more);
  const double us =
      Place(config, TasksOfStep(config, model, planned.plan), planned.handlers)->placement.step_us;
  return std::isfinite(us) ? us : 0;
}

std::vector<HostForecast> HostsOf(const PlacedStep& step, const std::vector<Capacity>& handlers) {
  const auto name_of = [&](std::size_t handler) {
    return handlers[handler].bytes_travel ? handlers[handler].host : "";
  };
  std::vector<HostForecast> hosts(step.network.hosts.size());
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    hosts[host].load = step.placement.loads[host];
  }
  const std::vector<int>& handler_of = step.placement.handler_of;
  std::set<std::string> names;
  for (std::size_t i = 0; i < step.ids.size(); ++i) {
    HostForecast& host = hosts[step.network.handlers[i].host];
    host.name = name_of(std::stoul(step.ids[i]));
    host.tasks += std::count(handler_of.begin(), handler_of.end(), static_cast<int>(i));
    names.insert(host.name);
  }
  // Hosts of which no handler may get tasks.
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    if (names.insert(name_of(i)).second) hosts.push_back({name_of(i), 0, {}});
  }
  return hosts;
}

void AddHosts(const ManagerConfig& config, const PlannedModel& model,
              const std::vector<PlannedTask>& tasks, const std::vector<Capacity>& handlers,
              const std::map<std::string, Capacity>& with_tasks, PlanForecast* forecast) {
  if (std::ranges::none_of(handlers, &Capacity::bytes_travel)) return;
  const std::optional<PlacedStep> step = Place(config, tasks, with_tasks);
  const Placement& placed = step->placement;
  if (!std::isfinite(placed.step_us)) {
    forecast->unplaced = WhyNotPlaced(tasks.size(), handlers.size());
    forecast->step_us += UsOverOneLink(step->network, forecast->moved_bytes);
    return;
  }
  forecast->step_us = placed.step_us;
  forecast->manager_bytes = placed.manager_bytes;
  forecast->broker_bytes = placed.broker_bytes;
  forecast->handlers_to_place = std::min(handlers.size(), MaxHandlersToPlace(tasks.size()));
  forecast->hosts = HostsOf(*step, handlers);
  forecast->step_us_with_one_more = StepUsWithOneMore(config, model, handlers);
}

}  // namespace

PlanForecast ForecastPlan(const ManagerConfig& config, const std::vector<Capacity>& handlers) {
  const PlannedModel model = LowerModel(config.model);
  Planned planned = PlanFor(config, model, handlers);
  PlanForecast forecast;
  forecast.plan = std::move(planned.plan);
  const std::vector<PlannedTask> tasks = TasksOfStep(config, model, forecast.plan);
  Speeds speeds(config, planned.handlers);
  forecast.workers = speeds.For(0).workers;
  AddStages(model, tasks, &speeds, &forecast);
  AddHosts(config, model, tasks, handlers, planned.handlers, &forecast);
  for (const auto& [id, handler] : Seen(handlers).handlers) {
    const std::uint64_t memory_bytes = handler.memory_bytes;
    const auto fit = std::count_if(tasks.begin(), tasks.end(), [&](const PlannedTask& task) {
      return NeedBytes(task.task) <= memory_bytes;
    });
    forecast.handlers.push_back({handler, fit, !planned.handlers.contains(id)});
  }
  forecast.least_moved_bytes = LeastMoved(config, model);
  return forecast;
}

}  // namespace acan
