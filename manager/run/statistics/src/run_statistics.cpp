#include "run_statistics.h"

#include <algorithm>
#include <utility>

#include "acan/core/schedule.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

using tuplespace::MonotonicUs;
using tuplespace::ReplyBody;

constexpr std::int64_t kListEveryUs = 250'000;
constexpr std::int64_t kRateWindowUs = 5'000'000;

// The number of epochs that are begun; the run may end within the last one.
std::int64_t Epochs(const RunContext& context) {
  const Training& training = context.job.training;
  if (!training.steps) return training.epochs;
  const std::int64_t each = StepsPerEpoch(context.data.train_samples(), training.batch);
  return (*training.steps + each - 1) / each;
}

}  // namespace

RunStatistics::RunStatistics(RunContext& context, std::function<void(ManagerEvent)> post)
    : context_(context),
      post_(std::move(post)),
      listing_(context.job_id,
               [this](tuplespace::RequestBody request, std::function<void(ReplyBody&&)> answer) {
                 context_.client.Submit(std::move(request), std::move(answer));
               },
               {.handlers = [this](HandlersSeen&& seen) { OnHandlers(std::move(seen)); },
                .report =
                    [this](const std::string& id, const Report& report) {
                      known_.OnReport(id, report);
                      speeds_.Note(id, report);
                    }}),
      counts_(context,
              {.event = post_, .more = [this](std::int64_t reissued, std::int64_t duplicated) {
                 progress_.reissued += static_cast<std::uint64_t>(reissued);
                 tuning_.reissued += reissued;
                 duplicated_ += duplicated;
               }}) {}

void RunStatistics::GoOnFrom(const RunState& past) {
  known_.GoOnFrom(past.handlers);
  progress_.reissued = static_cast<std::uint64_t>(past.tasks_reissued);
  duplicated_ = past.tasks_duplicated;
}

double RunStatistics::SecondsSinceBegin() const {
  return static_cast<double>(MonotonicUs() - begin_us_) * 1e-6;
}

void RunStatistics::LookIfDue() {
  const std::int64_t now_us = MonotonicUs();
  if (now_us >= next_list_us_ && !listing_.busy()) {
    next_list_us_ = now_us + std::max(kListEveryUs, listing_.pause_us());
    listing_.Begin();
  }
  counts_.LookIfDue(now_us, tuning_.tasks_done);
}

void RunStatistics::Look() {
  listing_.Begin();
  counts_.Look();
}

LackOfRoom RunStatistics::lack_of_room() const {
  return counts_.LackOfRoomAt(MonotonicUs());
}

void RunStatistics::OnHandlers(HandlersSeen&& seen) {
  known_.See(seen.handlers);
  progress_.handlers = static_cast<int>(seen.handlers.size());
  speeds_.See(seen.handlers);
  tuning_due_ = true;
  speeds_.SetSpeeds(&seen.handlers, MonotonicUs());
  post_(std::move(seen));
}

void RunStatistics::OnTaskDone(const std::string& handler, const Work& work) {
  known_.OnTask(handler);
  tuning_.tasks_done += 1;
  tuning_.gflop_done += static_cast<double>(work.flops) * 1e-9;
}

const Progress& RunStatistics::OnStep(const StepCommitted& step, std::int64_t steps) {
  const std::int64_t now_us = MonotonicUs();
  recent_.emplace_back(now_us, step.rows);
  while (recent_.size() > 2 && recent_.front().first < now_us - kRateWindowUs) recent_.pop_front();
  std::int64_t samples = 0;
  for (auto it = recent_.begin() + 1; it != recent_.end(); ++it) samples += it->second;
  const double seconds = static_cast<double>(now_us - recent_.front().first) * 1e-6;
  progress_.samples_per_s = seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  progress_.step = step.step + 1;
  progress_.steps = steps;
  progress_.epoch = step.epoch + 1;
  progress_.epochs = Epochs(context_);
  progress_.loss = step.loss;
  time_left_.StepDone(now_us);
  progress_.eta_s = time_left_.Seconds(progress_.steps - progress_.step);
  progress_.test_loss.reset();
  progress_.test_accuracy.reset();
  return progress_;
}

const Progress& RunStatistics::OnEvaluated(const Evaluated& evaluated) {
  progress_.epoch_done = evaluated.epoch >= progress_.epoch;
  progress_.test_loss = evaluated.loss;
  progress_.test_accuracy = evaluated.accuracy;
  return progress_;
}

std::optional<Tuning> RunStatistics::Tune(const TaskPolicy& policy, std::int64_t step,
                                          bool at_once) {
  if (policy.pouches() == tuning_.pouches && !tuning_due_ && !at_once) return std::nullopt;
  tuning_due_ = false;
  tuning_.unix_s = static_cast<double>(tuplespace::UnixUs()) / 1e6;
  tuning_.step = step;
  tuning_.pouches = policy.pouches();
  tuning_.pouch = policy.pouch();
  tuning_.in_flight = policy.in_flight();
  tuning_.timeout_us = policy.timeout_us();
  tuning_.handlers = static_cast<std::int64_t>(speeds_.present());
  tuning_.gflops = speeds_.Gflops();
  tuning_.busy_s = speeds_.busy_s();
  return tuning_;
}

}  // namespace acan
