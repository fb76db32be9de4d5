#include "run_statistics.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "acan/core/names.h"
#include "acan/core/schedule.h"
#include "acan/manager/tuple_names.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

using tuplespace::MonotonicUs;
using tuplespace::ReplyBody;

constexpr std::int64_t kLookEveryUs = 250'000;
constexpr std::int64_t kCountTasksEveryUs = 1'000'000;  // the space examines all tuples of the run
// Large numbers of handlers are listed less often, so that the cost does not grow with their
// number.
constexpr std::int64_t kListEveryUs = 1'000;  // per handler
constexpr std::size_t kUsualCapacityBytes = 4 << 10;
constexpr std::int64_t kRateWindowUs = 5'000'000;
constexpr std::uint32_t kMaxListed = 4096;

// The number of epochs that are begun; the run may end within the last one.
std::int64_t Epochs(const RunContext& context) {
  const Training& training = context.job.training;
  if (!training.steps) return training.epochs;
  const std::int64_t each = StepsPerEpoch(context.data.train_samples(), training.batch);
  return (*training.steps + each - 1) / each;
}

}  // namespace

double RunStatistics::SecondsSinceBegin() const {
  return static_cast<double>(MonotonicUs() - begin_us_) * 1e-6;
}

void RunStatistics::LookIfDue() {
  const std::int64_t now_us = MonotonicUs();
  if (now_us >= next_list_us_ && !listing_) ListHandlers();
  if (now_us >= next_count_us_ && !counting_) CountTuples();
  if (now_us >= next_tasks_us_ && !counting_tasks_) CountTasksIfNoneIsDone();
}

void RunStatistics::Look() {
  ListHandlers();
  CountTuples();
}

// Finds the handlers present, and what they did.
void RunStatistics::ListHandlers() {
  next_list_us_ = MonotonicUs() + std::max(kLookEveryUs, listing_pause_us_);
  listing_ = true;
  const tuplespace::List list{AllHandlers(), kMaxListed, false};
  context_.client.Submit(list, [this](ReplyBody&& reply) {
    listing_ = false;
    if (const auto* found = std::get_if<tuplespace::Found>(&reply)) OnHandlers(*found);
  });
  ListReports();
}

void RunStatistics::OnHandlers(const tuplespace::Found& found) {
  HandlersSeen seen;
  std::size_t bytes = 0;
  for (const tuplespace::FoundTuple& tuple : found.tuples) {
    bytes += tuple.payload.size();
    const std::optional<Capacity> capacity = CapacityFromJson(std::string(tuple.payload.text()));
    if (!capacity) continue;
    if (!context_.job_id.starts_with(capacity->jobs)) {  // the broker gives it no tasks of this job
      ++seen.of_other_jobs;
      continue;
    }
    seen.handlers.emplace(tuple.put_by, *capacity);
  }
  // Counts all tuples, because anyone with a handler's key may put many large ones.
  listing_pause_us_ =
      kListEveryUs * static_cast<std::int64_t>(found.tuples.size() + bytes / kUsualCapacityBytes);
  known_.See(seen.handlers);
  progress_.handlers = static_cast<int>(seen.handlers.size());
  speeds_.See(seen.handlers);
  tuning_due_ = true;
  post_(seen);
}

void RunStatistics::ListReports() {
  const tuplespace::List list{AllReports(), kMaxListed, false};
  context_.client.Submit(list, [this](ReplyBody&& reply) {
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return;
    for (const tuplespace::FoundTuple& tuple : found->tuples) {
      const std::optional<Report> report = ReportFromJson(std::string(tuple.payload.text()));
      if (!report) continue;
      known_.OnReport(tuple.put_by, *report);
      speeds_.Note(tuple.put_by, *report);
    }
  });
}

// Finds the number of tasks that the space has ready, and its counters.
void RunStatistics::CountTuples() {
  next_count_us_ = MonotonicUs() + kLookEveryUs;
  counting_ = true;
  context_.client.Submit(tuplespace::GetStats{}, [this](ReplyBody&& reply) {
    counting_ = false;
    const auto* stats = std::get_if<tuplespace::Stats>(&reply);
    if (stats == nullptr) return;
    post_(SpaceSeen{stats->tasks_ready, stats->open_gets});
    OnCounters(stats->counters);
  });
}

// The space's own gauges would count the tasks of other runs as well, which hide that this run has
// none that could be done.
void RunStatistics::CountTasksIfNoneIsDone() {
  next_tasks_us_ = MonotonicUs() + kCountTasksEveryUs;
  if (std::exchange(done_when_counted_, tuning_.tasks_done) != tuning_.tasks_done) return;
  counting_tasks_ = true;
  const tuplespace::Count count{TasksOf(context_.run, tuplespace::FieldPattern::Any())};
  context_.client.Submit(count, [this](ReplyBody&& reply) {
    counting_tasks_ = false;
    const auto* counted = std::get_if<tuplespace::CountReply>(&reply);
    if (counted == nullptr || !counted->tasks) return;
    post_(RunTasksSeen{counted->tasks->ready, counted->tasks->leased});
  });
}

void RunStatistics::OnCounters(const tuplespace::Counters& now) {
  // A restarted broker counts from zero.
  if (!first_counters_ || now.puts < first_counters_->puts) first_counters_ = now;
  const tuplespace::Counters& first = *first_counters_;
  progress_.reissued = now.leases_expired + now.leases_returned + now.failed -
                       first.leases_expired - first.leases_returned - first.failed;
  duplicated_ = static_cast<std::int64_t>(now.duplicates - first.duplicates);
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
  tuning_.unix_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  tuning_.step = step;
  tuning_.pouches = policy.pouches();
  tuning_.pouch = policy.pouch();
  tuning_.in_flight = policy.in_flight();
  tuning_.timeout_us = policy.timeout_us();
  tuning_.handlers = static_cast<std::int64_t>(speeds_.present());
  tuning_.gflops = speeds_.Gflops();
  tuning_.busy_s = speeds_.busy_s();
  tuning_.reissued = static_cast<std::int64_t>(progress_.reissued);
  return tuning_;
}

}  // namespace acan
