#include "acan/manager/manager.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <set>

#include "acan/core/error.h"
#include "acan/core/names.h"
#include "acan/manager/manager_core.h"
#include "acan/manager/model_file.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "pass_data.h"
#include "tile_mover.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;
using tuplespace::Payload;
using tuplespace::ReplyBody;
using tuplespace::Tuple;

constexpr std::int64_t kLeaderLeaseUs = 10'000'000;
constexpr std::int64_t kExtendEveryUs = 2'000'000;
constexpr std::int64_t kLookEveryUs = 250'000;
constexpr std::int64_t kRateWindowUs = 5'000'000;
constexpr auto kGoodbyeWait = std::chrono::seconds(2);

std::int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What identifies a job: two managers with the same one must not both run.
std::string JobId(const Job& job, const Data& data) {
  Sha256 hash;
  const std::string text = JobToJson(job).dump() + data.train.sha256 + data.test.sha256;
  hash.Add(text.data(), text.size());
  return hash.Hex().substr(0, 16);
}

struct Stopped {};  // thrown through Run by Stop()

}  // namespace

struct Manager::Impl {
  Impl(ManagerOptions given_options, Job given_job, Data given_data);

  std::optional<Receipt> Run();
  void Connect();
  void TakeLeadership();
  void ExtendLeadership();
  void RemoveRun(const std::string& name, tuplespace::Client::Duration wait);
  void Look();
  void Turn();
  // Events wait until no handler of the client runs: what they ask for may wait for the client.
  void Step(ManagerEvent event) { events.push_back(std::move(event)); }
  void StepAll();
  std::deque<ManagerEvent> events;
  void Apply(std::vector<ManagerAction> actions);
  void Submit(tuplespace::RequestBody body);
  void SubmitRead(tuplespace::Read read, std::function<void(tuplespace::Found&&)> then);
  void OnNotice(tuplespace::Notice&& notice);
  void SendProgress();
  void Log(const std::string& line) {
    if (options.log) options.log(line);
  }
  void ThrowIfStopped() {
    if (stop) throw Stopped{};
  }

  void Do(const PutPassData& action);
  void Do(PutTasks& action);
  void Do(const ReadLosses& action);
  void Do(const LoadWeights& action);
  void Do(const RetireThrough& action);
  void Do(const MoveTiles& action);
  void Do(const StepCommitted& action);
  void Do(const Evaluated& action);
  void Do(const Say& action) { Log(action.text); }
  void Do(const GiveUp& action) { throw FailureError(action.text); }
  void Do(AllDone& action) { final_tiles = std::move(action.tiles); }
  Receipt Finish();

  ManagerOptions options;
  Job job;
  Data data;
  std::string job_id;
  std::string run;
  tuplespace::Client client;
  std::unique_ptr<ManagerCore> core;
  std::unique_ptr<MetricsLog> metrics;
  std::atomic<bool> stop{false};
  std::optional<tuplespace::LeaseRef> leadership;
  std::set<tuplespace::RequestId> open_reads;
  std::optional<std::vector<TileCell>> final_tiles;
  std::pair<std::int64_t, std::vector<std::int64_t>> order{-1, {}};  // an epoch and its order
  std::int64_t next_look_us = 0, next_extend_us = 0, begin_us = 0;
  bool looking = false;
  std::deque<std::pair<std::int64_t, std::int64_t>> recent;  // (time, samples)
  Progress progress;
  std::map<std::string, HandlerSeen> handlers;  // by client id
  std::optional<tuplespace::Counters> first_counters;
  Receipt receipt;
};

Manager::Impl::Impl(ManagerOptions given_options, Job given_job, Data given_data)
    : options(std::move(given_options)),
      job(std::move(given_job)),
      data(std::move(given_data)),
      job_id(JobId(job, data)),
      client({.endpoint = options.endpoint,
              .name = "manager of " + options.source,
              .id = {},
              .access = options.access,
              .context = options.context}) {
  // The end of the id is random; with keys it begins with a name.
  const std::string& id = client.id();
  run = job_id + "-" + id.substr(id.size() - std::min<std::size_t>(id.size(), 12));
  if (!options.out_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.out_dir, error);
    if (error) {
      throw FailureError(
          fmt::format("cannot make the output folder {}: {}", options.out_dir, error.message()));
    }
    metrics = std::make_unique<MetricsLog>(options.out_dir + "/metrics.jsonl");
    // Fails now, not after the training, if the model cannot be written here.
    const ModelWriter probe(options.out_dir + "/model.safetensors", job.model);
  }
  ManagerConfig config;
  config.model = job.model;
  config.training = job.training;
  config.limits = job.tasks;
  config.run = run;
  config.train_samples = data.train.samples;
  config.test_samples = data.test.samples;
  config.load_weights = !job.initial_weights.empty();
  config.expected_handlers = options.expected_handlers;
  config.fixed_handlers = options.fixed_handlers;
  core = std::make_unique<ManagerCore>(std::move(config));
}

// ---- joining
// -------------------------------------------------------------------------------------

void Manager::Impl::Connect() {
  client.OnConnection([this](bool connected, const std::string& why) {
    if (!connected)
      Log(fmt::format("lost the broker at {}: {}; waiting for it", options.endpoint, why));
  });
  client.OnNotice([this](tuplespace::Notice&& notice) { OnNotice(std::move(notice)); });
  const std::int64_t patience_us = NowUs() + 2'000'000;
  bool said = false;
  while (!client.connected()) {
    client.Poll(std::chrono::milliseconds(100));
    ThrowIfStopped();
    if (!said && NowUs() > patience_us) {
      said = true;
      Log(fmt::format(
          "no broker answers at {} yet; waiting for one (start: acan broker --listen {})",
          options.endpoint, options.endpoint));
    }
  }
}

void Manager::Impl::TakeLeadership() {
  const Key key = LeaderKey(job_id);
  Tuple tuple;
  tuple.key = key;
  tuple.payload = Payload::Copy(run);
  client.Put({tuple});
  tuplespace::Get get;
  get.pattern = Pattern::Of(key);
  get.lease_us = kLeaderLeaseUs;
  get.wait_us = 0;
  std::vector<tuplespace::Grant> grants = client.GetSome(get);
  if (grants.empty()) {
    throw FailureError(fmt::format(
        "job {} ({}) already has a manager at {}: wait until it is done, or stop it first", job_id,
        options.source, options.endpoint));
  }
  leadership = tuplespace::LeaseRef{key, grants.front().fence};
  // An earlier manager of this job may have died: what it left would only take room.
  const Pattern runs{{FieldPattern::Exact("run"), FieldPattern::Exact(job_id), FieldPattern::Any()},
                     false};
  for (const tuplespace::FoundTuple& found : client.ListAll(runs)) {
    RemoveRun(std::string(found.payload.text()), tuplespace::Client::kForever);
  }
  client.RetireAll(runs, false);
  Tuple mine;
  mine.key = Key{"run", job_id, run};
  mine.payload = Payload::Copy(run);
  client.Put({mine});
}

void Manager::Impl::ExtendLeadership() {
  next_extend_us = NowUs() + kExtendEveryUs;
  client.Submit(tuplespace::Extend{*leadership, kLeaderLeaseUs}, [this](ReplyBody&& reply) {
    const auto* lease = std::get_if<tuplespace::LeaseReply>(&reply);
    if (lease != nullptr && lease->lease == tuplespace::LeaseStatus::kStale) {
      throw FailureError(
          fmt::format("this manager lost the lead of job {}: it was away for longer "
                      "than its lease of {} s",
                      job_id, kLeaderLeaseUs / 1'000'000));
    }
  });
}

void Manager::Impl::RemoveRun(const std::string& name, tuplespace::Client::Duration wait) {
  client.RetireAll({{FieldPattern::Exact(name), FieldPattern::AtMost(INT64_MAX)}, true}, true,
                   wait);
}

// ---- the loop
// ------------------------------------------------------------------------------------

std::optional<Receipt> Manager::Impl::Run() {
  begin_us = NowUs();
  try {
    Connect();
    TakeLeadership();
    ExtendLeadership();
    while (!final_tiles) Turn();
    receipt.seconds = static_cast<double>(NowUs() - begin_us) * 1e-6;
    return Finish();
  } catch (const Stopped&) {
    if (client.connected()) RemoveRun(run, kGoodbyeWait);
    return std::nullopt;
  } catch (...) {
    try {
      if (client.connected()) RemoveRun(run, kGoodbyeWait);
    } catch (const tuplespace::SpaceError&) {
      // What went wrong first is what the user should read.
    }
    throw;
  }
}

void Manager::Impl::Turn() {
  ThrowIfStopped();
  const std::int64_t now_us = NowUs();
  if (now_us >= next_extend_us) ExtendLeadership();
  if (now_us >= next_look_us && !looking) Look();
  if (now_us >= core->NextDeadlineUs()) Step(ClockTick{});
  StepAll();
  if (!final_tiles) client.Poll(std::chrono::milliseconds(50));
  StepAll();
}

void Manager::Impl::StepAll() {
  while (!events.empty()) {
    const ManagerEvent event = std::move(events.front());
    events.pop_front();
    Apply(core->Step(event, NowUs()));
  }
}

// Who is there, what they did, and what the space counted.
void Manager::Impl::Look() {
  next_look_us = NowUs() + kLookEveryUs;
  looking = true;
  client.Submit(tuplespace::List{AllHandlers(), 4096, false}, [this](ReplyBody&& reply) {
    looking = false;
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return;
    HandlersSeen seen;
    for (const tuplespace::FoundTuple& tuple : found->tuples) {
      const std::optional<Capacity> capacity = CapacityFromJson(std::string(tuple.payload.text()));
      if (!capacity) continue;
      seen.handlers.emplace(tuple.put_by, *capacity);
      HandlerSeen& known = handlers[tuple.put_by];
      known.name = capacity->name;
      known.device = capacity->device;
      known.capacity_bytes = capacity->limit_bytes;
    }
    progress.handlers = static_cast<int>(seen.handlers.size());
    Step(seen);
  });
  client.Submit(tuplespace::List{AllReports(), 4096, false}, [this](ReplyBody&& reply) {
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return;
    for (const tuplespace::FoundTuple& tuple : found->tuples) {
      const std::optional<Report> report = ReportFromJson(std::string(tuple.payload.text()));
      if (report) handlers[tuple.put_by].peak_bytes = report->peak_bytes;
    }
  });
  client.Submit(tuplespace::GetStats{}, [this](ReplyBody&& reply) {
    const auto* stats = std::get_if<tuplespace::Stats>(&reply);
    if (stats == nullptr) return;
    const tuplespace::Counters& now = stats->counters;
    // A broker that was started anew counts from zero.
    if (!first_counters || now.puts < first_counters->puts) first_counters = now;
    const tuplespace::Counters& first = *first_counters;
    progress.reissued = now.leases_expired + now.leases_returned + now.failed -
                        first.leases_expired - first.leases_returned - first.failed;
    receipt.tasks_duplicated = static_cast<std::int64_t>(now.duplicates - first.duplicates);
  });
}

void Manager::Impl::Apply(std::vector<ManagerAction> actions) {
  for (ManagerAction& action : actions) {
    std::visit([this](auto& a) { Do(a); }, action);
  }
}

void Manager::Impl::Submit(tuplespace::RequestBody body) {
  client.Submit(std::move(body), [](ReplyBody&& reply) {
    if (const auto* error = std::get_if<tuplespace::Error>(&reply)) {
      throw tuplespace::SpaceError(error->code, error->text);
    }
  });
}

void Manager::Impl::SubmitRead(tuplespace::Read read,
                               std::function<void(tuplespace::Found&&)> then) {
  read.wait_us = tuplespace::kForeverUs;
  auto id = std::make_shared<tuplespace::RequestId>(0);
  *id = client.Submit(std::move(read), [this, id, then = std::move(then)](ReplyBody&& reply) {
    open_reads.erase(*id);
    if (const auto* error = std::get_if<tuplespace::Error>(&reply)) {
      throw tuplespace::SpaceError(error->code, error->text);
    }
    auto& found = std::get<tuplespace::Found>(reply);
    if (!found.timed_out) then(std::move(found));  // else it was cancelled
  });
  open_reads.insert(*id);
}

void Manager::Impl::OnNotice(tuplespace::Notice&& notice) {
  switch (notice.kind) {
    case tuplespace::Notice::Kind::kParked:
      throw FailureError(fmt::format("task {} failed too often; handler {} said last: {}",
                                     notice.key.ToString(), notice.by, notice.text));
    case tuplespace::Notice::Kind::kOrphaned:
      throw FailureError(fmt::format("task {} can never run, its inputs are gone: {}",
                                     notice.key.ToString(), notice.text));
    case tuplespace::Notice::Kind::kConflict:
      Log(
          fmt::format("corruption: {} was put twice with different bytes, the second time by {}; "
                      "the first counts. {}",
                      notice.key.ToString(), notice.by, notice.text));
      return;
  }
}

// ---- actions
// -------------------------------------------------------------------------------------

void Manager::Impl::Do(const PutPassData& action) {
  const Graph graph(job.model, job.training, *core->plan());
  const DataSet& set = action.test ? data.test : data.train;
  if (!action.test && order.first != action.epoch) {
    order = {action.epoch,
             EpochOrder(set.samples, job.training.seed, action.epoch, job.training.shuffle)};
  }
  const auto sample_at = [&](std::int64_t row) {
    const std::int64_t place = action.first_sample + row;
    return action.test ? place : order.second[static_cast<std::size_t>(place)];
  };
  tuplespace::Put put{PassTuples(graph, action.pass, set, sample_at)};
  Submit(std::move(put));
}

void Manager::Impl::Do(PutTasks& action) {
  tuplespace::Put put;
  const std::int64_t lease_us = job.tasks.timeout_ms.value_or(0) * 1000;
  for (const PlannedTask& task : action.tasks) put.tuples.push_back(ToTuple(task, lease_us));
  const std::size_t count = action.tasks.size();
  receipt.tasks_done += static_cast<std::int64_t>(count);
  Submit(std::move(put));
  tuplespace::Read read;
  read.metadata_only = true;
  for (const Key& key : action.done_when) read.patterns.push_back(Pattern::Of(key));
  SubmitRead(std::move(read), [this, unit = action.unit, generation = action.generation,
                               count](tuplespace::Found&& found) {
    for (const tuplespace::FoundTuple& tuple : found.tuples) {
      const auto it = handlers.find(tuple.put_by);
      if (it != handlers.end()) ++it->second.tasks;
    }
    Step(ChunkDone{unit, generation, count});
  });
}

void Manager::Impl::Do(const ReadLosses& action) {
  tuplespace::Read read;
  for (const Key& key : action.keys) read.patterns.push_back(Pattern::Of(key));
  SubmitRead(std::move(read),
             [this, unit = action.unit, generation = action.generation](tuplespace::Found&& found) {
               LossesRead losses{unit, generation, {}};
               for (const tuplespace::FoundTuple& tuple : found.tuples) {
                 std::vector<float> sums(tuple.payload.size() / sizeof(float));
                 if (sums.empty() || sums.size() > 2) {
                   throw FailureError(fmt::format("{} has {} bytes, must have 4 or 8",
                                                  tuple.key.ToString(), tuple.payload.size()));
                 }
                 std::memcpy(sums.data(), tuple.payload.data(), sums.size() * sizeof(float));
                 losses.sums.push_back(std::move(sums));
               }
               Step(losses);
             });
}

void Manager::Impl::Do(const LoadWeights& action) {
  TileMover(client, [this] {
    ThrowIfStopped();
  }).Load(ModelReader(job.initial_weights), job.model, action.tiles);
  Step(WeightsReady{action.generation});
}

void Manager::Impl::Do(const RetireThrough& action) {
  Submit(tuplespace::Retire{{{FieldPattern::Exact(run), FieldPattern::AtMost(action.step)}, true},
                            true});
}

void Manager::Impl::Do(const MoveTiles& action) {
  for (const tuplespace::RequestId id : open_reads) Submit(tuplespace::Cancel{id});
  TileMover(client, [this] { ThrowIfStopped(); }).Move(run, action.version, action.from, action.to);
  Step(WeightsReady{action.generation});
}

void Manager::Impl::Do(const StepCommitted& action) {
  const std::int64_t now_us = NowUs();
  recent.emplace_back(now_us, action.rows);
  while (recent.size() > 2 && recent.front().first < now_us - kRateWindowUs) recent.pop_front();
  std::int64_t samples = 0;
  for (auto it = recent.begin() + 1; it != recent.end(); ++it) samples += it->second;
  const double seconds = static_cast<double>(now_us - recent.front().first) * 1e-6;
  progress.samples_per_s = seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  progress.step = action.step + 1;
  progress.steps = core->total_steps();
  progress.epoch = action.epoch + 1;
  progress.epochs = job.training.epochs;
  progress.loss = action.loss;
  const double elapsed_s = static_cast<double>(now_us - begin_us) * 1e-6;
  progress.eta_s = elapsed_s / static_cast<double>(progress.step) *
                   static_cast<double>(progress.steps - progress.step);
  progress.test_loss.reset();
  progress.test_accuracy.reset();
  receipt.final_train_loss = action.loss;
  if (metrics) {
    metrics->Step({action.step, action.epoch, action.loss, action.learning_rate,
                   progress.samples_per_s, progress.handlers,
                   static_cast<std::int64_t>(progress.reissued)});
  }
  SendProgress();
}

void Manager::Impl::Do(const Evaluated& action) {
  progress.test_loss = receipt.test_loss = action.loss;
  progress.test_accuracy = receipt.test_accuracy = action.accuracy;
  if (metrics) metrics->Evaluation({action.step, action.epoch, action.loss, action.accuracy});
  SendProgress();
}

void Manager::Impl::SendProgress() {
  if (options.progress) options.progress(progress);
}

Receipt Manager::Impl::Finish() {
  TileMover mover(client, [this] { ThrowIfStopped(); });
  const std::string folder = options.out_dir;
  receipt.weights_sha256 = mover.WriteModel(folder.empty() ? "" : folder + "/model.safetensors",
                                            job.model, *final_tiles);
  Look();
  while (looking) client.Poll(std::chrono::milliseconds(50)), ThrowIfStopped();
  while (client.unanswered() > 0) client.Poll(std::chrono::milliseconds(50)), ThrowIfStopped();
  receipt.job = JobToJson(job);
  receipt.train_sha256 = data.train.sha256;
  receipt.test_sha256 = data.test.sha256;
  receipt.code_version = ACAN_VERSION;
  for (const auto& [id, handler] : handlers) receipt.handlers.push_back(handler);
  receipt.steps = core->total_steps();
  receipt.epochs = job.training.epochs;
  receipt.tasks_reissued = static_cast<std::int64_t>(progress.reissued);
  RemoveRun(run, tuplespace::Client::kForever);
  client.RetireAll(
      {{FieldPattern::Exact("run"), FieldPattern::Exact(job_id), FieldPattern::Exact(run)}, false},
      false);
  client.CompleteTask(*leadership);
  if (!folder.empty()) WriteReceipt(folder + "/receipt.json", receipt);
  return receipt;
}

Manager::Manager(ManagerOptions options, Job job, Data data)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(job), std::move(data))) {}
Manager::~Manager() = default;
std::optional<Receipt> Manager::Run() {
  return impl_->Run();
}
void Manager::Stop() {
  impl_->stop = true;
  impl_->client.Wake();
}

}  // namespace acan
