#include "acan/manager/plan_search.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "acan/manager/handler_network.h"
#include "acan/manager/job.h"
#include "acan/manager/memory_sizes.h"
#include "acan/manager/placement.h"
#include "acan/manager/speed_sets.h"
#include "fmt/format.h"

namespace acan {
namespace {

// What a search may spend where it is only a part, or only for advice.
constexpr double kShareOfPart = 0.125;

std::optional<Recompute> RecomputeOf(RecomputePolicy policy) {
  switch (policy) {
    case RecomputePolicy::kAuto:
      return std::nullopt;
    case RecomputePolicy::kNever:
      return Recompute::kNothing;
    case RecomputePolicy::kAlways:
      return Recompute::kBranches;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t LargestMemory(const std::map<std::string, Capacity>& handlers) {
  std::uint64_t largest = 0;
  for (const auto& [id, capacity] : handlers) largest = std::max(largest, capacity.memory_bytes);
  return largest;
}

std::optional<Plan> PlanSearch::Find(const Handlers& handlers) {
  // Memory that was too small for every plan remains too small, whichever handlers join.
  const std::uint64_t largest = LargestMemory(handlers);
  if (largest <= hopeless_bytes_) return std::nullopt;
  const std::vector<Handlers> sets =
      config_.limits.LeavesOutSlow() ? SetsBySpeed(handlers) : std::vector<Handlers>{handlers};
  std::vector<std::optional<Plan>> plans(sets.size());
  const std::size_t best = BestSet(sets, [&](std::size_t i) {
    plans[i] = Best({sets[i], CrossesLinks(handlers), i + 1 == sets.size()});
    return plans[i] ? plans[i]->step_us : std::numeric_limits<double>::infinity();
  });
  if (plans[best]) return std::move(plans[best]);
  hopeless_bytes_ = largest;
  settings_that_fit_.reset();
  return std::nullopt;
}

std::optional<Plan> PlanSearch::FindWithin(const Handlers& handlers, std::uint64_t memory_bytes) {
  if (memory_bytes <= hopeless_within_bytes_) return std::nullopt;
  std::optional<Plan> plan = ForMemory({handlers, CrossesLinks(handlers), true}, memory_bytes);
  if (!plan) hopeless_within_bytes_ = memory_bytes;
  return plan;
}

double PlanSearch::StepUsWith(const Plan& plan, const Handlers& handlers) const {
  if (LargestMemory(handlers) < plan.largest_need_bytes) {
    return std::numeric_limits<double>::infinity();
  }
  return StepUs(RequestFor({handlers, false, true}, config_.training, plan.largest_need_bytes),
                plan.cuts);
}

// The largest handlers alone may be faster than all handlers with smaller tasks, or slower. Another
// size than the usual one must be faster by more than the estimate's error.
std::optional<Plan> PlanSearch::Best(const Among& among) {
  const std::vector<MemorySize> sizes = MemorySizes(among.handlers);
  const std::size_t usual = UsualSize(sizes);
  std::optional<Plan> best = ForMemory(among, sizes[usual].bytes);
  double gflops_of_best = GflopsOf(sizes[usual].speed);
  // Returns false if there is no plan for the size.
  const auto attempt = [&](const MemorySize& size) {
    if (best && !BringsMore(LeastUs(size.speed, best->flops), best->step_us)) return true;
    std::optional<Plan> plan = ForMemory(among, size.bytes);
    if (!plan) return false;
    if (best && !BringsMore(plan->step_us, best->step_us)) return true;
    best = std::move(plan);
    gflops_of_best = GflopsOf(size.speed);
    return true;
  };
  // With less memory, a step is only shorter if handlers that are fast enough take part.
  bool may_fit = best.has_value();
  for (std::size_t i = usual + 1; may_fit && i < sizes.size(); ++i) {
    if (BringsMore(1 / GflopsOf(sizes[i].speed), 1 / gflops_of_best)) may_fit = attempt(sizes[i]);
  }
  for (std::size_t i = usual; i > 0; --i) attempt(sizes[i - 1]);
  const std::uint64_t largest = LargestMemory(among.handlers);
  if (!best && largest > sizes.front().bytes) best = ForMemory(among, largest);
  return best;
}

std::optional<Plan> PlanSearch::ForMemory(const Among& among, std::uint64_t capacity_bytes) {
  PlanRequest request = RequestFor(among, config_.training, capacity_bytes);
  if (!among.are_all) request.search_share = kShareOfPart;
  const bool is_last = among.are_all && capacity_bytes == LargestMemory(among.handlers);
  return MakePlan(request, is_last ? &smallest_need_bytes_ : nullptr);
}

// Whether the network has several hosts.
bool PlanSearch::CrossesLinks(const Handlers& handlers) const {
  return config_.knows_links &&
         NetworkOf(handlers, config_.LeastResidentBytes(), config_.machine, 2).has_value();
}

PlanRequest PlanSearch::RequestFor(const Among& among, const Training& training,
                                   std::uint64_t capacity_bytes) const {
  PlanRequest request;
  request.model = model_;
  request.training = training;
  request.training.batch = std::min(training.batch, config_.train_samples);
  request.capacity_bytes = capacity_bytes;
  request.size_bytes = config_.limits.size_bytes;
  request.batch_rows = config_.limits.batch_rows;
  request.recompute = RecomputeOf(config_.limits.recompute);
  const Handlers with_memory = WithMemory(among.handlers, capacity_bytes);
  request.speed = SpeedOf(with_memory);
  request.speed.overhead_us = config_.overhead_us;
  if (among.over_links) {
    request.network = NetworkOf(with_memory, config_.LeastResidentBytes(), config_.machine, 1);
  }
  request.go_on = config_.go_on;
  return request;
}

const std::string& PlanSearch::SettingsThatFit(const Handlers& handlers) {
  if (!settings_that_fit_) settings_that_fit_ = SeekSettings(handlers);
  return *settings_that_fit_;
}

// The smallest need depends on both keys and on the model. If a tile with its optimizer state is
// the largest part, only a smaller block helps; if one sample is, neither helps.
std::string PlanSearch::SeekSettings(const Handlers& handlers) const {
  // It is only advice: the search may miss settings that would fit. What fits does not depend on
  // links.
  const auto fits = [&](const Training& training) {
    PlanRequest request = RequestFor({handlers, false, true}, training, LargestMemory(handlers));
    request.search_share = kShareOfPart;
    return MakePlan(request, nullptr).has_value();
  };
  Training smaller = config_.training;
  while (smaller.block > kMinBlock) {
    smaller.block /= 2;
    if (fits(smaller)) return fmt::format("train.block = {}", smaller.block);
  }
  smaller.batch = 1;
  smaller.block = config_.training.block;
  if (fits(smaller)) return "a smaller train.batch, of which 1 fits";
  smaller.block = kMinBlock;
  if (fits(smaller)) return fmt::format("train.block = {} and train.batch = 1", kMinBlock);
  return "";
}

}  // namespace acan
