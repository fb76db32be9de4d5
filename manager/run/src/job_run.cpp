#include "job_run.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "acan/core/error.h"
#include "acan/core/json_text.h"
#include "acan/core/names.h"
#include "acan/manager/model_file.h"
#include "acan/manager/output_names.h"
#include "acan/manager/pass_data.h"
#include "acan/manager/text_file.h"
#include "acan/manager/training_id.h"
#include "acan/manager/work_beside.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tuplespace/planted.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;
using tuplespace::Payload;
using tuplespace::ReplyBody;
using tuplespace::Tuple;

constexpr std::int64_t kLookEveryUs = 250'000;
// Thousands of handlers are listed less often: what that costs does not grow with their number.
constexpr std::int64_t kListEveryUs = 1'000;  // for each of them
constexpr std::int64_t kRateWindowUs = 5'000'000;
constexpr std::size_t kMostReportsOfOnePut = 256;
constexpr std::size_t kTasksOfOnePut = 32;               // or a few more
constexpr std::int64_t kSamplesOrderedAtOnce = 1 << 20;  // they take some 10 ms

// The end of a client's id is random; with keys it begins with a name.
std::string RunName(const std::string& job_id, const std::string& client_id) {
  return job_id + "-" +
         client_id.substr(client_id.size() - std::min<std::size_t>(client_id.size(), 12));
}

}  // namespace

JobRun::JobRun(const ManagerOptions& options, const Job& job, const Data& data,
               EarlierLives earlier)
    : options_(options),
      job_(job),
      data_(data),
      earlier_lives_(earlier.count),
      finite_through_(earlier.finite_through),
      earlier_runs_(std::move(earlier.runs)),
      quarantined_(std::move(earlier.quarantined)),
      job_id_(TrainingId(job, data.train.sha256, data.test.sha256)),
      client_({.endpoint = options.endpoint,
               .name = "manager of " + options.source,
               .id = {},
               .access = options.access,
               .context = options.context}),
      run_(RunName(job_id_, client_.id())),
      folder_(std::move(earlier.folder)) {
  conflicts_ = std::move(earlier.conflicts);
  if (options_.out_dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.out_dir, error);
  if (error) {
    throw FailureError(
        fmt::format("cannot make the output folder {}: {}", options_.out_dir, error.message()));
  }
  // Fails now, not after the training, if the outputs cannot be written here.
  for (const char* name : {"metrics.jsonl", "tuning.jsonl", "job.json", "receipt.json"}) {
    RequireKeptFile(OutPath(name), Devices::kAllowed);
  }
  const ModelWriter probe(OutPath("model.safetensors"), job_.model);
  snapshots_.emplace(OutPath(kSnapshotsName), job_id_, job_.model,
                     StateCount(job_.training.optimizer));
  snapshot_writer_.emplace(
      *snapshots_,
      tuplespace::ClientOptions{.endpoint = options_.endpoint,
                                .name = "snapshots of " + options_.source,
                                .id = {},
                                .access = options_.access,
                                .context = options_.context},
      [this] { return SnapshotMayCommit(); }, [this] { client_.Wake(); });
}

double JobRun::SecondsSoFar() const {
  return past_.seconds + static_cast<double>(NowUs() - begin_us_) * 1e-6;
}

// ---- the loop
// ------------------------------------------------------------------------------------

std::optional<Receipt> JobRun::Run() {
  begin_us_ = NowUs();
  // What is wrong with the files should be said before anybody is waited for.
  CheckAuditLog();
  if (!options_.resume) OpenInitialWeights();
  try {
    Connect();
    // One that is written from here on is of a manager that finished meanwhile.
    if (!options_.resume) earlier_receipt_ = ReceiptText();
    TakeLeadership();
    ExtendLeadership();
    FindEarlierRuns();
    LockFolder();
    OpenAuditLog();
    if (auto done = Begin()) return done;
    trains_ = true;
    while (!final_tiles_) Turn();
    receipt_.seconds = SecondsSoFar();
    return Finish();
  } catch (const Stopped&) {
    SayStopped();
    if (!SomebodyStandsBy()) SayGoodbye();
    return std::nullopt;
  } catch (const RunLost&) {
    throw;
  } catch (...) {
    SayGoodbye();
    throw;
  }
}

void JobRun::Turn() {
  KeepLead();
  FollowStop();
  if (!leads_) return AwaitLead();
  const std::int64_t now_us = NowUs();
  if (now_us >= next_list_us_ && !listing_) LookAtHandlers();
  if (now_us >= next_look_us_ && !looking_) LookAtSpace();
  if (now_us >= core_->NextDeadlineUs()) Step(ClockTick{});
  TakeSnapshotDone();
  StepAll();
  const std::int64_t wait_us =
      std::clamp<std::int64_t>(core_->NextDeadlineUs() - NowUs(), 0, kPollUs);
  if (!final_tiles_) client_.Poll(std::chrono::microseconds(wait_us));
  StepAll();
  NoteTuning();
}

// How the policy stands: at each new pouch, and as often as the handlers are looked at.
void JobRun::NoteTuning() {
  const TaskPolicy& policy = core_->policy();
  if (policy.pouches() == tuning_.pouches && !tuning_due_) return;
  tuning_due_ = false;
  tuning_.unix_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  tuning_.step = core_->committed_steps();
  tuning_.pouches = policy.pouches();
  tuning_.pouch = policy.pouch();
  tuning_.in_flight = policy.in_flight();
  tuning_.timeout_us = policy.timeout_us();
  tuning_.handlers = static_cast<std::int64_t>(speeds_.present());
  tuning_.gflops = speeds_.Gflops();
  tuning_.busy_s = speeds_.busy_s();
  tuning_.reissued = static_cast<std::int64_t>(progress_.reissued);
  if (tuning_log_) tuning_log_->Write(tuning_);
  if (options_.tuning) options_.tuning(tuning_);
}

void JobRun::StepAll() {
  while (leads_ && !final_tiles_ && !events_.empty()) {
    const ManagerEvent event = std::move(events_.front());
    events_.pop_front();
    Apply(core_->Step(event, NowUs()));
  }
}

// Who is there, and what they did.
void JobRun::LookAtHandlers() {
  next_list_us_ = NowUs() + std::max(kLookEveryUs, kListEveryUs * progress_.handlers);
  listing_ = true;
  client_.Submit(tuplespace::List{AllHandlers(), 4096, false}, [this](ReplyBody&& reply) {
    listing_ = false;
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return;
    HandlersSeen seen;
    for (const tuplespace::FoundTuple& tuple : found->tuples) {
      const std::optional<Capacity> capacity = CapacityFromJson(std::string(tuple.payload.text()));
      // The broker gives it no tasks of other jobs.
      if (!capacity || !job_id_.starts_with(capacity->jobs)) continue;
      seen.handlers.emplace(tuple.put_by, *capacity);
      HandlerSeen& known = handlers_[tuple.put_by];
      known.name = capacity->name;
      known.device = capacity->device;
      known.capacity_bytes = capacity->limit_bytes;
    }
    progress_.handlers = static_cast<int>(seen.handlers.size());
    speeds_.See(seen.handlers);
    tuning_due_ = true;
    Step(seen);
  });
  client_.Submit(tuplespace::List{AllReports(), 4096, false}, [this](ReplyBody&& reply) {
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return;
    for (const tuplespace::FoundTuple& tuple : found->tuples) {
      const std::optional<Report> report = ReportFromJson(std::string(tuple.payload.text()));
      if (!report) continue;
      handlers_[tuple.put_by].peak_bytes = report->peak_bytes;
      speeds_.Note(tuple.put_by, *report);
    }
  });
}

// What it has for the handlers, and what it counted.
void JobRun::LookAtSpace() {
  next_look_us_ = NowUs() + kLookEveryUs;
  looking_ = true;
  client_.Submit(tuplespace::GetStats{}, [this](ReplyBody&& reply) {
    looking_ = false;
    const auto* stats = std::get_if<tuplespace::Stats>(&reply);
    if (stats == nullptr) return;
    Step(SpaceSeen{stats->tasks_ready, stats->open_gets, stats->tasks_leased});
    const tuplespace::Counters& now = stats->counters;
    // A broker that was started anew counts from zero.
    if (!first_counters_ || now.puts < first_counters_->puts) first_counters_ = now;
    const tuplespace::Counters& first = *first_counters_;
    progress_.reissued = now.leases_expired + now.leases_returned + now.failed -
                         first.leases_expired - first.leases_returned - first.failed;
    receipt_.tasks_duplicated = static_cast<std::int64_t>(now.duplicates - first.duplicates);
  });
}

void JobRun::Apply(std::vector<ManagerAction> actions) {
  for (ManagerAction& action : actions) {
    if (final_tiles_) return;
    std::visit([this](auto& a) { Do(a); }, action);
  }
}

void JobRun::Submit(tuplespace::RequestBody body) {
  client_.Submit(std::move(body), [](ReplyBody&& reply) {
    if (const auto* error = std::get_if<tuplespace::Error>(&reply)) {
      throw tuplespace::SpaceError(error->code, error->text);
    }
  });
}

tuplespace::RequestId JobRun::SubmitRead(tuplespace::Read read,
                                         std::function<void(tuplespace::Found&&)> then) {
  read.wait_us = tuplespace::kForeverUs;
  auto id = std::make_shared<tuplespace::RequestId>(0);
  *id = client_.Submit(std::move(read), [this, id, then = std::move(then)](ReplyBody&& reply) {
    open_reads_.erase(*id);
    if (const auto* error = std::get_if<tuplespace::Error>(&reply)) {
      throw tuplespace::SpaceError(error->code, error->text);
    }
    auto& found = std::get<tuplespace::Found>(reply);
    if (!found.timed_out) then(std::move(found));  // else it was cancelled
  });
  open_reads_.insert(*id);
  return *id;
}

// ---- actions
// -------------------------------------------------------------------------------------

// Hundreds of millions of samples take longer than the lead's lease.
void JobRun::OrderEpoch(std::int64_t epoch) {
  const std::int64_t samples = data_.train.samples;
  const auto draw = [&](const auto&) {
    order_.second = EpochOrder(samples, job_.training.seed, epoch, job_.training.shuffle);
  };
  order_.first = -1;
  if (samples <= kSamplesOrderedAtOnce) {
    draw(nullptr);
  } else {
    WorkBeside(
        client_, [this] { KeepLead(); }, draw);
  }
  order_.first = epoch;
}

void JobRun::Do(const PutPassData& action) {
  const Graph graph(job_.model, job_.training, *core_->plan());
  const DataSet& set = action.test ? data_.test : data_.train;
  if (!action.test && order_.first != action.epoch) OrderEpoch(action.epoch);
  const auto sample_at = [&](std::int64_t row) {
    const std::int64_t place = action.first_sample + row;
    return action.test ? place : order_.second[static_cast<std::size_t>(place)];
  };
  tuplespace::Put put{PassTuples(graph, action.pass, set, sample_at)};
  Submit(std::move(put));
}

// In pieces, the first of which handlers compute while the others are made.
void JobRun::Do(PutTasks& action) {
  const std::size_t count = action.tasks.size();
  receipt_.tasks_done += static_cast<std::int64_t>(count);
  // A read stays open for each report.
  const std::size_t every = std::max(action.report_every, 1 + count / kMostReportsOfOnePut);
  tuplespace::Put put;
  for (std::size_t begin = 0; begin < count; begin += every) {
    const std::size_t end = std::min(count, begin + every);
    for (std::size_t i = begin; i < end; ++i) {
      put.tuples.push_back(ToTuple(action.tasks[i], action.lease_us[i]));
    }
    if (put.tuples.size() >= kTasksOfOnePut || end == count) {
      Submit(std::exchange(put, {}));
      KeepLead();
      if (end < count) client_.Flush();
    }
    ReadDone(action, begin, end);
  }
}

void JobRun::ReadDone(const PutTasks& action, std::size_t begin, std::size_t end) {
  tuplespace::Read read;
  read.metadata_only = true;
  std::vector<Work> work;
  std::vector<std::size_t> first_of;  // into the patterns, of each task
  for (std::size_t i = begin; i < end; ++i) {
    first_of.push_back(read.patterns.size());
    read.patterns.push_back(Pattern::Of(action.done_when[i]));
    work.push_back(action.work[i]);
    if (audit_log_) {
      const std::vector<Output>& outputs = action.tasks[i].task.outputs;
      for (std::size_t o = 1; o < outputs.size(); ++o) {
        read.patterns.push_back(Pattern::Of(outputs[o].key));
      }
    } else {
      for (const Key& key : action.audited[i]) read.patterns.push_back(Pattern::Of(key));
    }
  }
  SubmitRead(std::move(read), [this, unit = action.unit, generation = action.generation,
                               first = action.first + begin, work = std::move(work),
                               first_of = std::move(first_of)](tuplespace::Found&& found) {
    ChunkDone done{unit, generation, first, work.size(), {}, {}};
    for (std::size_t i = 0; i < work.size(); ++i) {
      const tuplespace::FoundTuple& tuple = found.tuples[first_of[i]];
      const auto it = handlers_.find(tuple.put_by);
      if (it != handlers_.end()) ++it->second.tasks;
      done.done.push_back({work[i], tuple.took_us, tuple.times_taken});
      tuning_.tasks_done += 1;
      tuning_.gflop_done += static_cast<double>(work[i].flops) * 1e-9;
    }
    OnChunk(std::move(done), std::move(found));
  });
}

void JobRun::Do(const ReadLosses& action) {
  tuplespace::Read read;
  for (const Key& key : action.keys) read.patterns.push_back(Pattern::Of(key));
  SubmitRead(std::move(read),
             [this, unit = action.unit, generation = action.generation](tuplespace::Found&& found) {
               LossesRead losses{unit, generation, {}, {}};
               for (const tuplespace::FoundTuple& tuple : found.tuples) {
                 std::vector<float> sums(tuple.payload.size() / sizeof(float));
                 if (sums.empty() || sums.size() > 2) {
                   throw FailureError(fmt::format("{} has {} bytes, must have 4 or 8",
                                                  tuple.key.ToString(), tuple.payload.size()));
                 }
                 std::memcpy(sums.data(), tuple.payload.data(), sums.size() * sizeof(float));
                 losses.sums.push_back(std::move(sums));
                 losses.put_by.push_back(tuple.put_by);
               }
               Step(losses);
             });
}

void JobRun::Do(const LoadWeights& action) {
  try {
    Mover().Load(*beginning_, action.tiles);
  } catch (const TileGone& gone) {
    throw RunLost{fmt::format("{} of an earlier run is gone", gone.key.ToString())};
  }
  RemoveEarlierRuns();
  Step(WeightsReady{action.generation});
}

RunState JobRun::StateAt(std::int64_t version) const {
  RunState state;
  state.version = version;
  state.train_loss = receipt_.final_train_loss;
  state.tasks_done = receipt_.tasks_done;
  state.seconds = SecondsSoFar();
  state.failures = past_.failures;
  state.contributors.assign(contributors_.begin(), contributors_.end());
  std::tie(state.audits_passed, state.audits_skipped) = AuditsSoFar();
  return state;
}

void JobRun::Do(TakeSnapshot& action) {
  const bool planted = IsPlanted(tuplespace::Planted::kSnapshotNamesEarlierVersion);
  snapshot_writer_->Start(StateAt(action.version - (planted ? 1 : 0)),
                          ModelTensors(job_.model, StateCount(job_.training.optimizer)),
                          std::move(action.tiles), job_.stop_if_not_finite);
}

// On the writer's thread. A snapshot without the metrics of all its steps must never be seen: not
// after a power cut, and not if another manager has begun since, from an earlier version.
bool JobRun::SnapshotMayCommit() const {
  metrics_->Sync();
  return !metrics_->Replaced();
}

void JobRun::CheckMetrics() const {
  if (!metrics_ || !metrics_->Replaced()) return;
  if (!metrics_->Removed()) throw RunLost{"another manager has taken over"};
  throw FailureError(
      fmt::format("{} was removed, and with it what it said of the steps so far: the output folder "
                  "must be left alone until the job is done",
                  OutPath("metrics.jsonl")));
}

void JobRun::Do(const DropSnapshot&) {
  snapshot_writer_->Drop([this] { PollOnce(); });
}

void JobRun::TakeSnapshotDone() {
  if (!snapshot_writer_) return;
  const std::optional<SnapshotWriter::Done> done = snapshot_writer_->TakeDone();
  if (!done) return;
  CheckMetrics();
  if (!done->problem.empty()) {
    Log(fmt::format("the snapshot after step {} was not written: {}", done->version,
                    done->problem));
  }
  if (!done->finite && job_.stop_if_not_finite) {
    Log(fmt::format("the weights after {} steps are not finite", done->version));
    throw NotFiniteFound{done->version - 1};
  }
  if (audit_log_) audit_log_->Sync();
  Step(SnapshotDone{done->version, done->took_us, done->problem.empty()});
}

void JobRun::Do(const GiveUp& action) {
  throw FailureError(action.text);
}

void JobRun::Do(const StepCommitted& action) {
  const std::int64_t now_us = NowUs();
  recent_.emplace_back(now_us, action.rows);
  while (recent_.size() > 2 && recent_.front().first < now_us - kRateWindowUs) recent_.pop_front();
  std::int64_t samples = 0;
  for (auto it = recent_.begin() + 1; it != recent_.end(); ++it) samples += it->second;
  const double seconds = static_cast<double>(now_us - recent_.front().first) * 1e-6;
  progress_.samples_per_s = seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  progress_.step = action.step + 1;
  progress_.steps = core_->total_steps();
  progress_.epoch = action.epoch + 1;
  progress_.epochs = job_.training.epochs;
  progress_.loss = action.loss;
  time_left_.StepDone(now_us);
  progress_.eta_s = time_left_.Seconds(progress_.steps - progress_.step);
  progress_.test_loss.reset();
  progress_.test_accuracy.reset();
  if (std::isfinite(action.loss) || !job_.stop_if_not_finite) {
    receipt_.final_train_loss = action.loss;
  }
  if (metrics_) {
    const std::string line = metrics_->Step(
        {action.step, action.epoch, action.loss, action.learning_rate, progress_.samples_per_s,
         progress_.handlers, static_cast<std::int64_t>(progress_.reissued)});
    kept_metrics_->AddStep(action.step, line);
  }
  if (audit_log_) audit_log_->Flush();
  LookAtStep(action);
  SendProgress();
}

void JobRun::Do(const Evaluated& action) {
  progress_.test_loss = receipt_.test_loss = action.loss;
  progress_.test_accuracy = receipt_.test_accuracy = action.accuracy;
  if (metrics_) {
    kept_metrics_->AddEvaluation(
        metrics_->Evaluation({action.step, action.epoch, action.loss, action.accuracy}));
  }
  SendProgress();
}

void JobRun::SendProgress() {
  if (options_.progress) options_.progress(progress_);
}

Receipt JobRun::Finish() {
  if (snapshot_writer_) snapshot_writer_->Drop([this] { PollOnce(); });
  const std::string& folder = options_.out_dir;
  const auto ended_early = [this] {
    return receipt_.not_finite && receipt_.not_finite->kept_version;
  };
  if (!ended_early()) WriteWeights();
  if (ended_early()) WriteKept();
  LookAtHandlers();
  LookAtSpace();
  while (listing_ || client_.unanswered() > 0) PollOnce();
  receipt_.job = JobToJson(job_);
  receipt_.conflicts = conflicts_;
  receipt_.train_sha256 = data_.train.sha256;
  receipt_.test_sha256 = data_.test.sha256;
  receipt_.code_version = ACAN_VERSION;
  for (const auto& [id, handler] : handlers_) receipt_.handlers.push_back(handler);
  tuning_due_ = true;
  NoteTuning();
  receipt_.tasks_reissued = static_cast<std::int64_t>(progress_.reissued);
  AddAudits();
  ConfirmLead();
  CheckMetrics();
  // From here on whoever takes over finds that the job is done.
  if (!folder.empty()) WriteReceipt(folder + "/receipt.json", receipt_);
  // It is: to stop now would save nothing, unless there is no broker to tell it to.
  client_.SetInterrupt([this] {
    if (!client_.connected()) ThrowIfStopped();
  });
  Tuple done;
  done.key = DoneKey(job_id_);
  done.payload = Payload::Copy(JsonText(ReceiptToJson(receipt_)));
  client_.Put({done});
  if (snapshots_ && !ended_early()) snapshots_->RemoveAll();
  RemoveRun(run_, tuplespace::Client::kForever);
  folder_.reset();  // before another one can have the lead
  GiveUpLead();
  return receipt_;
}

}  // namespace acan
