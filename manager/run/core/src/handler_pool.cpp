#include "acan/manager/handler_pool.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "acan/core/task_limits.h"
#include "acan/core/text/size_text.h"
#include "acan/manager/excluded.h"
#include "acan/manager/handler_network.h"
#include "acan/manager/job.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::int64_t kWaitForExpectedUs = 10'000'000;
constexpr std::int64_t kSettleUs = 500'000;
constexpr std::int64_t kSayAfterUs = 2'000'000;  // nobody there, or nobody large enough
constexpr std::int64_t kSayNobodyAgainUs = 30'000'000;
// Of all work, what the handlers do for whose memory the large tasks are cut.
constexpr double kShareOfLargeHandlers = 0.75;

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

// Where memory is not what a plan lacks.
std::string WhyNoMemoryIsEnough(const model::Graph& graph) {
  for (const model::Value& value : graph.values()) {
    const model::Shape& shape = value.shape;
    if (std::max(shape.rows, shape.features) <= kMaxMatrixAxis) continue;
    return fmt::format(
        "no memory is enough for this model: '{}' has {} rows{} and {} features, but an operator "
        "that needs all of them at once can have at most {} of each",
        value.name, shape.rows, shape.rows_of == model::RowsOf::kSample ? " for each sample" : "",
        shape.features, kMaxMatrixAxis);
  }
  return "no memory is enough for this model: its smallest tasks or tuples are larger than the "
         "space accepts";
}

}  // namespace

void HandlerPool::OnHandlers(const HandlersSeen& event, std::int64_t now_us) {
  handlers_.clear();
  for (const auto& [id, capacity] : event.handlers) {
    const bool usable =
        config_.training.precision == Precision::kExact ? capacity.exact : capacity.fast;
    if (usable && !HasClient(config_.quarantined, id)) handlers_.emplace(id, capacity);
  }
  // Better than nobody.
  const auto is_idler = [this](const auto& handler) { return idlers_.contains(handler.first); };
  if (!std::all_of(handlers_.begin(), handlers_.end(), is_idler)) {
    std::erase_if(handlers_, is_idler);
  }
  if (handlers_.size() > most_handlers_) {
    most_handlers_ = handlers_.size();
    grown_us_ = now_us;
  }
}

// Handlers over links measure these when they join, one sooner than the other. A plan for the first
// of them alone would stay.
bool HandlerPool::MayOthersCome(std::int64_t now_us) const {
  const bool waits = config_.knows_links && !config_.fixed_handlers;
  if (!waits || now_us - grown_us_ >= kSettleUs) return false;
  return std::any_of(handlers_.begin(), handlers_.end(),
                     [](const auto& handler) { return handler.second.bytes_travel; });
}

HandlerPool::Advice HandlerPool::Check(const Plan* plan, std::int64_t now_us, ManagerActions& out) {
  if (plan != nullptr && plan->largest_need_bytes <= LargestMemory()) {
    if (said_nobody_at_us_) out.push_back(Say{"a handler has joined: continuing"});
    said_nobody_at_us_.reset();
    unfit_since_us_.reset();
    NameTooSmall(plan->largest_need_bytes, out);
    return {};
  }
  if (!unfit_since_us_) unfit_since_us_ = now_us;
  const bool patient = now_us - *unfit_since_us_ < kSayAfterUs;
  if (handlers_.empty()) {
    if (!patient) SayNobodyIsThere(now_us, out);
    return {};
  }
  // A handler that was lost may come back at once: give it a moment before cutting anew.
  if (plan != nullptr && patient) return {};
  return TryToPlan(plan, now_us, out);
}

void HandlerPool::SayNobodyIsThere(std::int64_t now_us, ManagerActions& out) {
  if (said_nobody_at_us_ && now_us - *said_nobody_at_us_ <= kSayNobodyAgainUs) return;
  out.push_back(
      Say{"no handler has joined yet; waiting for one (start: acan handler --connect ...)"});
  said_nobody_at_us_ = now_us;
}

HandlerPool::Advice HandlerPool::LeaveOutIdlers(const WorkersSeen& event, const Plan& plan,
                                                std::int64_t now_us, ManagerActions& out) {
  std::set<tuplespace::ClientId> idle;
  for (const auto& [id, capacity] : handlers_) {
    const bool could = capacity.memory_bytes >= plan.largest_need_bytes;
    if (could && !event.workers.contains(id)) idle.insert(id);
  }
  if (idle.empty() || idle.size() == handlers_.size()) return {};
  for (const tuplespace::ClientId& id : idle) {
    out.push_back(
        Say{fmt::format("handler {} ({}) has memory for all tasks but has done none: the steps are "
                        "cut for the others",
                        handlers_.at(id).name, id)});
    handlers_.erase(id);
  }
  idlers_.merge(idle);
  hopeless_bytes_ = 0;
  return TryToPlan(&plan, now_us, out);
}

std::uint64_t HandlerPool::LargestMemory() const {
  std::uint64_t largest = 0;
  for (const auto& [id, capacity] : handlers_) largest = std::max(largest, capacity.memory_bytes);
  return largest;
}

// The smallest memory that a handler must have to take part in the large tasks: the smallest of the
// largest handlers that together do most of the work. Smaller ones do the small tasks.
std::uint64_t HandlerPool::PlanningCapacity() const {
  std::vector<std::pair<std::uint64_t, double>> by_size;
  double total = 0;
  for (const auto& [id, capacity] : handlers_) {
    const double speed = std::max(capacity.gflops, 1e-3);
    by_size.emplace_back(capacity.memory_bytes, speed);
    total += speed;
  }
  std::sort(by_size.begin(), by_size.end(), std::greater<>());
  double sum = 0;
  for (const auto& [bytes, speed] : by_size) {
    sum += speed;
    if (sum >= kShareOfLargeHandlers * total) return bytes;
  }
  return by_size.back().first;
}

std::optional<Plan> HandlerPool::PlanFor(std::uint64_t capacity_bytes) {
  return MakePlan(RequestFor(config_.training, capacity_bytes), &smallest_need_bytes_);
}

PlanRequest HandlerPool::RequestFor(const Training& training, std::uint64_t capacity_bytes) const {
  PlanRequest request;
  request.model = model_;
  request.training = training;
  request.training.batch = std::min(training.batch, config_.train_samples);
  request.capacity_bytes = capacity_bytes;
  request.size_bytes = config_.limits.size_bytes;
  request.batch_rows = config_.limits.batch_rows;
  request.recompute = RecomputeOf(config_.limits.recompute);
  request.handlers = SharesOf(handlers_);
  request.overhead_us = config_.overhead_us;
  if (config_.knows_links) {
    request.network = NetworkOf(handlers_, config_.LeastResidentBytes(), config_.machine);
  }
  request.go_on = config_.go_on;
  return request;
}

// The smallest need depends on both keys, and on the model: where a tile with its optimizer's state
// is the largest part, only the block helps; where one sample is, neither does.
std::string HandlerPool::SettingsThatFit() const {
  const auto fits = [this](const Training& training) {
    return MakePlan(RequestFor(training, LargestMemory()), nullptr).has_value();
  };
  Training smaller = config_.training;
  while (smaller.block > kMinBlock) {
    smaller.block /= 2;
    if (fits(smaller)) return fmt::format("or set train.block = {}", smaller.block);
  }
  smaller.batch = 1;
  smaller.block = config_.training.block;
  if (fits(smaller)) return "or set a smaller train.batch, of which 1 fits";
  smaller.block = kMinBlock;
  if (fits(smaller)) return fmt::format("or set train.block = {} and train.batch = 1", kMinBlock);
  return "since no smaller train.block or train.batch is enough";
}

HandlerPool::Advice HandlerPool::TryToPlan(const Plan* plan, std::int64_t now_us,
                                           ManagerActions& out) {
  const bool more_expected = static_cast<int>(handlers_.size()) < config_.expected_handlers;
  if (plan == nullptr && more_expected && now_us - started_us_ < kWaitForExpectedUs) return {};
  if (plan == nullptr && MayOthersCome(now_us)) return {};
  // What was too little is so whoever else has come.
  if (const std::uint64_t largest = LargestMemory(); largest > hopeless_bytes_) {
    std::optional<Plan> next = PlanFor(PlanningCapacity());
    if (!next) next = PlanFor(largest);
    if (next) {
      NameTooSmall(next->largest_need_bytes, out);
      unfit_since_us_.reset();
      said_nobody_at_us_.reset();
      return std::move(*next);
    }
    hopeless_bytes_ = largest;
  }
  if (smallest_need_bytes_ == UINT64_MAX)
    return GiveUp{WhyNoMemoryIsEnough(config_.model->training)};
  if (config_.fixed_handlers) {
    const Capacity& first = handlers_.begin()->second;
    return GiveUp{fmt::format(
        "the largest task needs {} at its smallest, but handler {} offers {} and no other offers "
        "more: give the handlers more memory, {}",
        SizeText(smallest_need_bytes_), first.name, SizeText(first.memory_bytes),
        SettingsThatFit())};
  }
  NameTooSmall(smallest_need_bytes_, out);
  return {};
}

void HandlerPool::NameTooSmall(std::uint64_t need_bytes, ManagerActions& out) {
  for (const auto& [id, capacity] : handlers_) {
    if (capacity.memory_bytes >= need_bytes || !named_too_small_.insert(id).second) continue;
    out.push_back(Say{
        fmt::format("the largest task needs {}, this handler offers {}: {} takes only smaller ones",
                    SizeText(need_bytes), SizeText(capacity.memory_bytes), capacity.name)});
  }
}

}  // namespace acan
