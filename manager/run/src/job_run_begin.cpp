// How a JobRun joins, takes the lead, and finds out where to begin.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "acan/core/error.h"
#include "acan/core/json_text.h"
#include "acan/core/names.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/metrics_log.h"
#include "acan/manager/training_id.h"
#include "fmt/format.h"
#include "job_run.h"
#include "nlohmann/json.hpp"
#include "tuplespace/clock.h"
#include "tuplespace/planted.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::IsPlanted;
using tuplespace::Key;
using tuplespace::Pattern;
using tuplespace::Payload;
using tuplespace::Planted;
using tuplespace::ReplyBody;
using tuplespace::Tuple;

constexpr auto kGoodbyeWait = std::chrono::seconds(2);
constexpr int kRoundTrips = 16;
constexpr std::chrono::milliseconds kBetweenRoundTrips(1);  // long enough to go to sleep
// See MeasureOverhead. What all do for a task that is not waiting: messages, matching, mapping and
// hashing its inputs.
constexpr double kTaskWorkUs = 80;
constexpr double kRoundTripsOfTask = 3;
constexpr std::chrono::seconds kEarlierTilePatience(3);
constexpr std::int64_t kMostStepsAhead = 3;  // that ManagerCore has in the space
// That appear whole or not at all, so that a killed manager may leave unfinished ones.
constexpr std::array kOutputs = {"model.safetensors", "metrics.jsonl", "job.json", "receipt.json"};

// Lines of finished steps in metrics.jsonl: what the run before this one had committed.
std::int64_t StepsIn(const std::string& metrics_path, std::optional<double>* last_loss) {
  if (!std::filesystem::is_regular_file(metrics_path)) return 0;  // /dev/zero has no end
  std::ifstream file(metrics_path);
  std::int64_t steps = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = ParseJsonOrDiscard(line);
    if (!json.is_object() || !json.contains("loss") || !json.contains("step")) continue;
    if (json["step"] != steps) break;
    ++steps;
    if (json["loss"].is_number()) *last_loss = json["loss"].get<double>();
  }
  return steps;
}

std::optional<double> LossIn(const std::string& lines) {
  const std::size_t begin = lines.rfind('\n', lines.size() - 2) + 1;  // npos + 1 is 0
  const auto json = ParseJsonOrDiscard(lines.substr(begin));
  if (!json.is_object() || !json.contains("loss") || !json["loss"].is_number()) return {};
  return json["loss"].get<double>();
}

}  // namespace

std::int64_t JobRun::NowUs() {
  return tuplespace::MonotonicUs();
}

void JobRun::PollOnce() {
  client_.Poll(std::chrono::microseconds(kPollUs));
  KeepLead();
}

void JobRun::Connect() {
  client_.SetInterrupt([this] { ThrowIfStopped(); });
  client_.OnConnection([this](bool connected, const std::string& why) {
    if (!connected) {
      disconnected_us_ = NowUs();
      Log(fmt::format("lost the broker at {}: {}; waiting for it", options_.endpoint, why));
    }
    // Leases go back when a connection ends: what comes next must not be written before it is known
    // whether nobody else leads meanwhile.
    if (IsPlanted(Planted::kKeepsLeadOverReconnection)) return;
    leads_ = false;
    if (connected && leadership_) ExtendLeadership();
  });
  client_.OnDamage([this](const std::string& text) { Log(text); });
  client_.OnDelay([this](const std::string& text) { Log(text); });
  client_.OnNotice([this](tuplespace::Notice&& notice) { OnNotice(std::move(notice)); });
  const std::int64_t begin_us = NowUs();
  const std::int64_t patience_us = begin_us + 2'000'000;
  bool said = false;
  while (!client_.connected()) {
    client_.Poll(std::chrono::milliseconds(100));
    ThrowIfStopped();
    if (!said && NowUs() > patience_us) {
      said = true;
      Log(fmt::format(
          "no broker answers at {} yet; waiting for one (start: acan broker --listen {})",
          options_.endpoint, options_.endpoint));
    }
    GiveUpFolderIfWithoutLeadSince(begin_us);
  }
}

// Holds the lead, or waits for it as long as the options say.
void JobRun::TakeLeadership() {
  const Key key = LeaderKey(job_id_);
  Tuple tuple;
  tuple.key = key;
  tuplespace::Get get;
  get.pattern = Pattern::Of(key);
  get.lease_us = kLeaderLeaseUs;
  get.wait_us = 0;
  Tuple standby;  // a leader that is stopped leaves its weights to who stands by
  standby.key = StandbyKey(job_id_, client_.id());
  standby.ephemeral = true;
  const std::int64_t begin_us = NowUs();
  for (bool said = false;;) {
    ThrowIfStopped();
    // Again each time: it goes when the job is done, and when the broker is lost with the leader.
    client_.Put({tuple});
    std::vector<tuplespace::Grant> grants = client_.GetSome(get);
    if (!grants.empty()) {
      if (said) client_.RetireAll(Pattern::Of(standby.key), false);
      leadership_ = tuplespace::LeaseRef{key, grants.front().fence};
      leads_ = true;
      return;
    }
    // A broker that was started anew since the lead was put.
    if (client_.CountOf(Pattern::Of(key)) == 0u) continue;
    // The lease of one that was killed just now may still run.
    const bool wait = options_.standby ||
                      (options_.resume && NowUs() - begin_us < kLeaderLeaseUs + kExtendEveryUs);
    if (!wait) {
      throw FailureError(fmt::format(
          "job {} ({}) already has a manager at {}: wait until it is done, or stop it first",
          job_id_, options_.source, options_.endpoint));
    }
    if (!said) {
      Log(fmt::format("job {} has a manager: waiting to take over when it is gone", job_id_));
    }
    said = true;
    GiveUpFolderIfWithoutLeadSince(begin_us);
    client_.Put({standby});
    get.wait_us = 1'000'000;
  }
}

Key JobRun::RunKey(const std::string& name) const {
  return {"run", job_id_, name};
}

// What other managers of this job have left, and what is said to be left of this one's own lives.
void JobRun::FindEarlierRuns() {
  const Pattern runs{
      {FieldPattern::Exact("run"), FieldPattern::Exact(job_id_), FieldPattern::Any()}, false};
  for (const tuplespace::FoundTuple& found : client_.ListAll(runs)) {
    const std::string_view name = found.payload.text();
    if (std::find(earlier_runs_.begin(), earlier_runs_.end(), name) == earlier_runs_.end()) {
      earlier_runs_.emplace_back(name);
    }
  }
  Tuple mine;
  mine.key = RunKey(run_);
  mine.payload = Payload::Copy(run_);
  client_.Put({mine});
}

void JobRun::RemoveEarlierRuns() {
  for (const std::string& name : earlier_runs_) {
    KeepLead();
    RemoveRun(name, tuplespace::Client::kForever);
    client_.RetireAll(Pattern::Of(RunKey(name)), false);
  }
  earlier_runs_.clear();
}

std::vector<std::string> JobRun::RunsLeft() const {
  std::vector<std::string> runs = earlier_runs_;
  runs.push_back(run_);
  return runs;
}

void JobRun::GiveUpLead() {
  client_.RetireAll(Pattern::Of(RunKey(run_)), false);
  // A broker that was started anew may have got results of runs of which it never heard.
  client_.RetireAll({{FieldPattern::Prefix(job_id_ + "-")}, true}, false);
  client_.RetireAll(KeptMetrics::AllOf(job_id_), false);
  client_.CompleteTask(*leadership_);
}

// Whatever comes of it, handlers of late replies included: why this run ends is known already, and
// is what must leave.
void JobRun::SayGoodbye() {
  client_.SetInterrupt(nullptr);
  try {
    // Without the lead another manager may be reading what this one made.
    if (client_.connected() && leads_) RemoveRun(run_, kGoodbyeWait);
  } catch (const std::exception&) {
  } catch (const RunLost&) {
  }
}

void JobRun::ExtendLeadership() {
  next_extend_us_ = NowUs() + kExtendEveryUs;
  client_.Submit(tuplespace::Extend{*leadership_, kLeaderLeaseUs}, [this](ReplyBody&& reply) {
    const auto* lease = std::get_if<tuplespace::LeaseReply>(&reply);
    if (lease == nullptr) return;
    if (lease->lease == tuplespace::LeaseStatus::kStale && !IsPlanted(Planted::kIgnoresLostLead)) {
      throw RunLost{"the lead was lost with the broker or the connection"};
    }
    // Another manager may have had it meanwhile.
    if (metrics_ && !folder_) throw RunLost{"the output folder was given up without a broker"};
    leads_ = true;
  });
}

void JobRun::KeepLead() {
  ThrowIfStopped();
  if (leads_ && NowUs() >= next_extend_us_) ExtendLeadership();
}

void JobRun::RemoveRun(const std::string& name, tuplespace::Client::Duration wait) {
  client_.RetireAll({{FieldPattern::Exact(name), FieldPattern::AtMost(INT64_MAX)}, true}, true,
                    wait);
  client_.RetireAll(KeptMetrics::AllOf(job_id_, name), false, wait);
}

// ---- where to begin
// -------------------------------------------------------------------------------

// The receipt, if the job was finished by a manager that this one stood by for, by one that had the
// lead meanwhile, or by an earlier life that was killed between its last word and its end.
std::optional<Receipt> JobRun::FinishedBefore() {
  std::optional<Receipt> done;
  if (options_.resume) {
    for (const tuplespace::FoundTuple& found : client_.ListAll(Pattern::Of(DoneKey(job_id_)))) {
      const auto json = ParseJsonOrDiscard(found.payload.text());
      done = ReceiptFromJson(json, found.key.ToString());
    }
  }
  // The file last, at the moment at which this manager begins to change files.
  const std::string path = OutPath("receipt.json");
  if (const auto text = ReceiptText(); text && text != earlier_receipt_) {
    const Receipt receipt = ReadReceipt(path);
    const Job job = JobFromJson(receipt.job, path);
    if (TrainingId(job, receipt.train_sha256, receipt.test_sha256) == job_id_) done = receipt;
  }
  if (!done || IsPlanted(Planted::kIgnoresFinishedRun)) return std::nullopt;
  Log("the job is done already");
  const bool kept = done->not_finite && done->not_finite->kept_version;
  if (snapshots_ && !kept) snapshots_->RemoveAll();
  RemoveEarlierRuns();
  folder_.reset();
  GiveUpLead();
  return done;
}

// An earlier run's folder may be another one: then its files say nothing of these weights.
bool JobRun::FileMetricsAreOfThisJob() const {
  if (options_.out_dir.empty()) return false;
  std::ifstream file(OutPath("job.json"));
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  try {
    return TrainingId(JobFromJson(json, OutPath("job.json")), data_.train.sha256,
                      data_.test.sha256) == job_id_;
  } catch (const Error&) {
    return false;
  }
}

// Steps whose metrics are neither in the file nor in the space were not committed; they are cheap
// to do again. If it is further ahead than a manager ever is of what it has committed, its metrics
// were lost: then the weights are worth more.
void JobRun::FindInSpace(const std::string& name) {
  KeepLead();  // there may be hundreds, where the broker was lost again and again
  client_.RetireAll(
      {{FieldPattern::Exact(name), FieldPattern::Any(), FieldPattern::Exact("task")}, true}, false);
  std::optional<double> loss;
  MetricsLines kept = KeptMetrics::Read(client_, job_id_, name);
  std::int64_t newest = kept.empty() ? 0 : kept.rbegin()->first + 1;
  if (options_.out_dir.empty()) newest = INT64_MAX;
  if (earlier_metrics_.keep_file) {
    newest = std::max(newest, StepsIn(OutPath("metrics.jsonl"), &loss));
  }
  const int states = StateCount(job_.training.optimizer);
  auto whole = Mover().FindWhole(name, job_.model, states, newest);
  if (!whole) {
    auto ahead = Mover().FindWhole(name, job_.model, states, INT64_MAX);
    if (ahead && ahead->version - kMostStepsAhead > newest) whole.emplace(std::move(*ahead));
  }
  if (!whole || whole->version <= past_.version) return;
  past_.version = whole->version;
  if (loss) past_.train_loss = loss;
  if (const auto last = kept.find(whole->version - 1); last != kept.end()) {
    if (const auto of_last = LossIn(last->second)) past_.train_loss = of_last;
  }
  earlier_metrics_.carried = std::move(kept);
  beginning_ = std::make_unique<SpaceTiles>(Mover(), std::move(whole->tiles), kEarlierTilePatience);
  Log(fmt::format("going on from the weights in the space, after step {}", past_.version));
}

// The furthest whole state that can be had: what a manager that died left in the space, or the
// newest snapshot.
void JobRun::FindBeginning() {
  bool others = false;
  if (snapshots_) {
    if (finite_through_) snapshots_->RemoveNewerThan(*finite_through_);
    const auto say = [this](const std::string& line) { Log(line); };
    const auto go_on = [this] {
      client_.Poll(std::chrono::milliseconds(0));
      KeepLead();
    };
    if (auto found = snapshots_->Newest(say, &others, go_on)) {
      past_ = found->state;
      saved_version_ = past_.version;
      beginning_file_ = std::move(found->file);
      beginning_ = std::make_unique<FileTiles>(*beginning_file_, job_.model);
      Log(fmt::format("going on from snapshot {}, after step {}", found->path, past_.version));
    }
  }
  earlier_metrics_.keep_file = beginning_ != nullptr || FileMetricsAreOfThisJob();
  // Of whose results those weights were made is not known if they may be wrong, nor whether they
  // are good where the run diverged.
  if (job_.tasks.audit == 0 && !finite_through_) {
    for (const std::string& name : earlier_runs_) FindInSpace(name);
  }
  // Beginning anew removes what is in the folder: a wrong job must not cost another one's
  // snapshots. Damaged ones are of no use to anybody.
  if (!beginning_ && earlier_lives_ == 0 && others) {
    throw UsageError(fmt::format(
        "none of the snapshots in {} can be used (see above): name the job that they are of, or "
        "begin anew without --resume",
        OutPath("snapshots")));
  }
  if (!beginning_) Log("nothing is left of an earlier run: beginning anew");
  if (!beginning_) OpenInitialWeights();
  past_.failures = std::max<std::int64_t>(past_.failures + 1, earlier_lives_);
}

// What a task costs beside its computing is mostly waking up who takes part: three times the two
// that a round trip wakes, with the handler's device, the next handler and the manager. Between two
// tasks all have slept, so they do between these round trips. The least of some is that of an idle
// machine, which is what the plan should assume.
void JobRun::MeasureOverhead() {
  double least_us = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    client_.Poll(kBetweenRoundTrips);
    const auto answered = std::make_shared<bool>(false);  // the answer may come after a throw
    const std::int64_t begin_us = NowUs();
    client_.Submit(tuplespace::GetStats{}, [answered](ReplyBody&&) { *answered = true; });
    while (!*answered) PollOnce();
    const auto took_us = static_cast<double>(NowUs() - begin_us);
    least_us = i == 0 ? took_us : std::min(least_us, took_us);
  }
  overhead_us_ = kTaskWorkUs + kRoundTripsOfTask * least_us;
}

// Files have no leases: whoever begins to change them asks for the last time whether they are its
// own.
void JobRun::ConfirmLead() {
  leads_ = false;
  ExtendLeadership();
  while (!leads_) client_.Poll(std::chrono::milliseconds(50)), ThrowIfStopped();
}

std::optional<std::string> JobRun::ReceiptText() const {
  if (options_.out_dir.empty()) return std::nullopt;
  std::ifstream file(OutPath("receipt.json"), std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Before any file is touched: those of an earlier run must not go for one that cannot begin.
void JobRun::OpenInitialWeights() {
  if (job_.initial_weights.empty()) return;
  beginning_file_ = std::make_shared<const ModelReader>(job_.initial_weights);
  initial_ = std::make_unique<FileTiles>(*beginning_file_, job_.model);
}

// Without a pause since it was looked whether there is a receipt: a manager that has lost the lead,
// and does not know it, either wrote its receipt before, or finds that its metrics were replaced.
void JobRun::BeginFiles() {
  if (options_.out_dir.empty()) return;
  // Snapshots newer than where this begins are damaged, or came late from a manager that lost the
  // lead. Its thread may be writing one still, and looks at the metrics before it is done: so once
  // more after those were replaced.
  const auto remove_later_snapshots = [this] {
    beginning_ ? snapshots_->RemoveNewerThan(past_.version) : snapshots_->RemoveAll();
  };
  std::filesystem::remove(OutPath("receipt.json"));  // of an earlier run, or another training
  remove_later_snapshots();
  for (const char* name : kOutputs) RemoveUnfinished(OutPath(name));
  earlier_metrics_.first_step = past_.version;
  metrics_ = std::make_unique<MetricsLog>(OutPath("metrics.jsonl"), earlier_metrics_);
  earlier_metrics_.carried.clear();
  CarryMetrics();
  remove_later_snapshots();
  if (!metrics_->missing().empty()) {
    receipt_.metrics_missing = metrics_->missing();
    Log(
        fmt::format("{} has no line of step {}: what it had was damaged or lost before the run was "
                    "resumed; the receipt says so, too",
                    OutPath("metrics.jsonl"), RangesText(metrics_->missing())));
  }
  NoteEarlierNotFinite();
  tuning_log_ =
      std::make_unique<TuningLog>(OutPath("tuning.jsonl"), !options_.resume && earlier_lives_ == 0);
  WriteFileAtomically(OutPath("job.json"), JsonText(JobToJson(job_), 2) + "\n");
}

// For who takes over from this one, before there are weights that he could begin with.
void JobRun::CarryMetrics() {
  kept_metrics_.emplace([this](tuplespace::RequestBody body) { Submit(std::move(body)); }, job_id_,
                        run_);
  kept_metrics_->AddEarlier(LastLines(OutPath("metrics.jsonl"), KeptMetrics::kMostBytes));
}

std::optional<Receipt> JobRun::Begin() {
  MeasureOverhead();
  FindQuarantined();
  if (options_.resume) FindBeginning();
  ConfirmLead();
  if (auto done = FinishedBefore()) return done;
  BeginFiles();
  client_.RetireAll(Pattern::Of(DoneKey(job_id_)), false);
  if (!beginning_) {
    beginning_ = std::move(initial_);
    RemoveEarlierRuns();
  }
  receipt_.tasks_done = past_.tasks_done;
  receipt_.final_train_loss = past_.train_loss;
  ManagerConfig config;
  config.model = job_.model;
  config.training = job_.training;
  config.limits = job_.tasks;
  config.run = run_;
  config.train_samples = data_.train.samples;
  config.test_samples = data_.test.samples;
  config.load_weights = beginning_ != nullptr;
  config.first_version = past_.version;
  config.expected_handlers =
      std::max(0, options_.expected_handlers - static_cast<int>(quarantined_.size()));
  config.fixed_handlers = options_.fixed_handlers;
  config.overhead_us = overhead_us_;
  config.least_removed_bytes = options_.least_removed_bytes;
  // One version for a loss that is not finite, one for the step that finds it.
  config.kept_versions = finite_through_ ? 2 : 0;
  if (snapshots_ && !finite_through_ && job_.snapshots.every_steps.value_or(1) > 0) {
    config.snapshots =
        SnapshotPolicy{job_.snapshots.every_steps, past_.seconds, past_.failures, saved_version_};
  }
  for (const auto& [id, why] : quarantined_) config.quarantined.insert(id);
  config.audit_secret = tuplespace::RandomNumber();
  contributors_.insert(past_.contributors.begin(), past_.contributors.end());
  if (audit_log_) {
    audit_log_->Add({{"what", "begin"},
                     {"job", job_id_},
                     {"run", run_},
                     {"version", past_.version},
                     {"audit", job_.tasks.audit}});
  }
  core_ = std::make_unique<ManagerCore>(std::move(config));
  return std::nullopt;
}

}  // namespace acan
