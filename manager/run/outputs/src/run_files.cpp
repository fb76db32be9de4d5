#include "run_files.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/file_server.h"
#include "acan/manager/output_names.h"
#include "acan/manager/overwritten_inputs.h"
#include "acan/manager/text_file.h"
#include "acan/manager/unreadable.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tuplespace/clock.h"

namespace acan {
namespace {

// Files that are written atomically, of which a killed manager may leave temporary files.
constexpr std::array kWholeFiles = {kModelName,   kConfigName,     kMetricsName, kJobName,
                                    kReceiptName, kVocabularyName, kGraphName};
constexpr std::int64_t kSayLinesWaitEveryUs = 30'000'000;
constexpr std::int64_t kCheckEveryUs = 1'000'000;

bool HasSnapshots(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::directory_iterator first(fs::path(folder) / kSnapshotsName, ignored);
  return std::any_of(begin(first), end(first), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".safetensors";
  });
}

// For a file that is written in place. In a group's folder, that of an earlier run may be another
// user's.
void RequireOpensForWriting(const std::string& path) {
  constexpr int kHow = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const Descriptor file(::open(path.c_str(), kHow));
  if (file.get() < 0 && errno != ENOENT) ThrowFileError(path, "open", errno);
}

// For a file that is replaced by a rename or removed, which only a folder prevents.
void RequireNoFolder(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  throw FailureError(
      fmt::format("{}: is a directory, but a run replaces or removes the file of this name: move "
                  "it away, or choose another --out",
                  path));
}

// Fails now rather than after the training, and before a new run removes the results of an earlier
// one, if the outputs cannot be written.
void RequireWritable(const RunContext& context) {
  for (const char* name :
       {kMetricsName, kTuningName, kJobName, kReceiptName, kConflictsName, kQuarantineName}) {
    RequireKeptFile(context.OutPath(name), Devices::kAllowed, Links::kRefused);
  }
  RequireOpensForWriting(context.OutPath(kTuningName));
  for (const char* name : {kConfigName, kVocabularyName, kGraphName}) {
    RequireNoFolder(context.OutPath(name));
  }
  // A new run removes the snapshots of an earlier one, and must not remove those of another folder.
  RequireNoLink(context.OutPath(kSnapshotsName));
}

}  // namespace

RunFiles::RunFiles(RunContext& context, FolderClaim& folder,
                   const tuplespace::ClientOptions& client, std::function<void()> sync_others)
    : context_(context),
      folder_(folder),
      sync_others_(std::move(sync_others)),
      config_(context.job),
      notes_(context) {
  if (!context_.HasFolder()) return;
  const std::string& out_dir = context_.settings.out_dir;
  RequireOtherInputs(context_.job, out_dir);
  std::error_code error;
  std::filesystem::create_directories(out_dir, error);
  if (error) {
    throw FailureError(
        fmt::format("cannot make the output folder {}: {}", out_dir, error.message()));
  }
  RequireWritable(context_);
  RequireRoomForModel();
  snapshots_.emplace(context_.OutPath(kSnapshotsName), context_.job_id, context_.model,
                     context_.OptimizerStates(), context_.Steps());
  tuplespace::ClientOptions writer_client = client;
  writer_client.direct = false;  // this client keeps nothing
  writer_client.name = "snapshots of " + context_.settings.source;
  snapshot_writer_.emplace(
      *snapshots_, std::move(writer_client), [this] { return SnapshotMayCommit(); },
      [this] { context_.client.Wake(); });
}

// Snapshots of an earlier run are removed when this run begins anew; otherwise all but the newest
// are removed to make room for the model at the end. So if there are snapshots, a full disk does
// not prevent the beginning.
void RunFiles::RequireRoomForModel() const {
  try {
    const ModelWriter probe(context_.OutPath(kModelName), *context_.model);
  } catch (const DiskFull&) {
    std::error_code ignored;
    if (!std::filesystem::exists(context_.OutPath(kSnapshotsName), ignored)) throw;
  }
}

// ---- receipts ----------------------------------------------------------------------------------

std::optional<std::string> RunFiles::ReceiptText() const {
  if (!context_.HasFolder()) return std::nullopt;
  const std::string path = context_.OutPath(kReceiptName);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    RequireOpenedOrAbsent(path, errno == 0 ? EIO : errno);  // the stream itself may have failed
    return std::nullopt;
  }
  std::string text;
  std::array<char, 1 << 14> block{};
  // What is longer is no receipt: its beginning suffices to notice that another one replaced it.
  constexpr auto kMost = static_cast<std::size_t>(kMaxReceiptBytes);
  do {
    file.read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  } while (file && text.size() <= kMost);
  if (file.bad()) {
    const int error = errno;
    throw Unreadable(error, fmt::format("{}: cannot read: {}", path, SystemErrorText(error)));
  }
  return text;
}

std::optional<Receipt> RunFiles::NewReceipt() const {
  const auto text = ReceiptText();
  if (!text || text == earlier_receipt_) return std::nullopt;
  const std::string path = context_.OutPath(kReceiptName);
  return context_.ReceiptOfThisJob(ReadReceiptJson(path), path);
}

void RunFiles::WriteReceipt(const Receipt& receipt) const {
  if (!context_.HasFolder()) return;
  acan::WriteReceipt(context_.OutPath(kReceiptName), receipt);
  notes_.Remove();
}

// Each Begin replaces this file, and that of a new run removes it before.
std::optional<std::filesystem::file_time_type> RunFiles::BegunAt() const {
  if (!context_.HasFolder()) return std::nullopt;
  std::error_code none;
  const auto time = std::filesystem::last_write_time(context_.OutPath(kJobName), none);
  if (none) return std::nullopt;
  return time;
}

void RunFiles::WriteConfig() const {
  if (context_.HasFolder()) config_.Write(context_.settings.out_dir);
}

// ---- metrics -----------------------------------------------------------------------------------

// Snapshots newer than the beginning are damaged, or were written late by a manager that lost the
// lead.
void RunFiles::RemoveLaterSnapshots(const Start& start) const {
  if (start.goes_on) {
    snapshots_->RemoveNewerThan(start.version);
  } else {
    snapshots_->RemoveAll();
  }
}

// There is always a copy, because it may be the only one from which a run can be resumed.
void RunFiles::BeginGraphFile() const {
  const std::string path = context_.OutPath(kGraphName);
  if (const auto* graph = std::get_if<GraphFile>(&context_.job.model)) {
    WriteFileAtomically(path, *graph->text);
  } else {
    std::filesystem::remove(path);
  }
}

// A resumed run may have been tokenized with its earlier file, of which there need not be another
// copy, so there is no moment without the file.
void RunFiles::BeginVocabulary() const {
  const std::string path = context_.OutPath(kVocabularyName);
  if (context_.data.vocabulary.empty()) {
    std::filesystem::remove(path);
  } else {
    WriteFileAtomically(path, context_.data.vocabulary);
  }
}

// A file with the lines of months, or a slow disk, takes longer than the lead's lease. Another
// manager may lead by then, so nothing has been changed yet.
MetricsCopy RunFiles::CopyMetrics(const Start& start, Leadership& leadership) const {
  const std::string path = context_.OutPath(kMetricsName);
  RemoveUnfinished(path);
  if (start.version == 0) return {path, start.metrics};
  std::optional<MetricsCopy> copy;
  bool room_made = false;
  leadership.WorkBeside(
      fmt::format("{} is still being copied", path), [&](const std::function<void()>& go_on) {
        WithRoom(*snapshots_, go_on, &room_made, [&] { copy.emplace(path, start.metrics, go_on); });
      });
  if (room_made) {
    context_.Log(
        fmt::format("the disk had no room for a copy of {}: older snapshots were removed for it",
                    kMetricsName));
  }
  leadership.Confirm();
  if (NewReceipt()) throw RunLost{"another manager has finished the job"};
  return *std::move(copy);
}

void RunFiles::Begin(Start start, Leadership& leadership,
                     std::function<void(tuplespace::RequestBody)> submit) {
  if (!context_.HasFolder()) return;
  start.metrics.first_step = start.version;
  MetricsCopy earlier = CopyMetrics(start, leadership);
  // After a kill, --resume must not train the job of an earlier run from its beginning.
  if (start.is_new) std::filesystem::remove(context_.OutPath(kJobName));
  // These files of an earlier run or another training must not lie beside this run's outputs, or be
  // mistaken for its model if it never ends. The receipt is removed first, because it refers to the
  // others.
  for (const char* name : {kReceiptName, kModelName}) {
    std::filesystem::remove(context_.OutPath(name));
  }
  const std::string warning = config_.Begin(context_.settings.out_dir, !start.is_new);
  if (!warning.empty()) context_.Log("warning: " + warning);
  BeginVocabulary();
  BeginGraphFile();
  RemoveLaterSnapshots(start);
  for (const char* name : kWholeFiles) RemoveUnfinished(context_.OutPath(name));
  snapshots_->RemoveUnfinished();
  const std::string metrics_path = context_.OutPath(kMetricsName);
  metrics_ = std::make_unique<MetricsLog>(std::move(earlier));
  folder_.OnFilesBegun();
  // The thread of a manager that lost the lead may still be writing a snapshot, and checks the
  // metrics before it commits. So this is repeated after the metrics were replaced.
  RemoveLaterSnapshots(start);
  if (!metrics_->missing().empty()) {
    context_.Log(
        fmt::format("{} has no line for step {}: it was damaged or lost before the run was "
                    "resumed; the receipt also records this",
                    metrics_path, RangesText(metrics_->missing())));
  }
  if (start.is_new) notes_.Remove();
  tuning_log_ = std::make_unique<TuningLog>(context_.OutPath(kTuningName), start.is_new);
  WriteFileAtomically(context_.OutPath(kJobName), JsonText(JobToJson(context_.job), 2) + "\n");
  kept_metrics_.emplace(std::move(submit), context_.job_id, context_.run);
  if (start.version > 0) KeepEarlierMetrics(leadership);
}

// For a successor of this manager, before there are weights from which it could continue.
void RunFiles::KeepEarlierMetrics(Leadership& leadership) {
  MetricsLines lines;
  const std::string path = context_.OutPath(kMetricsName);
  leadership.WorkBeside(fmt::format("{} is still being read", path),
                        [&](const auto&) { lines = LastLines(path, KeptMetrics::kMaxBytes); });
  kept_metrics_->AddEarlier(lines);
}

void RunFiles::AddStep(const StepMetrics& metrics) {
  if (!metrics_) return;
  kept_metrics_->AddStep(metrics.step, metrics_->Step(metrics));
  SayIfMetricsAreCut();
  SayIfLinesWait();
}

void RunFiles::AddEvaluation(const EvaluationMetrics& metrics) {
  if (!metrics_) return;
  kept_metrics_->AddEvaluation(metrics_->Evaluation(metrics));
  SayIfMetricsAreCut();
  SayIfLinesWait();
}

void RunFiles::KeepOnlyNewestMetrics() {
  if (!kept_metrics_ || !kept_metrics_->KeepOnlyNewest()) return;
  context_.Log(fmt::format(
      "there is no room in the space: it keeps only the newest lines of {} for a standby manager",
      context_.OutPath(kMetricsName)));
}

std::vector<StepRange> RunFiles::MissingMetrics() {
  if (!metrics_) return {};
  metrics_->LookForCut();
  SayIfMetricsAreCut();
  return metrics_->missing();
}

void RunFiles::SayIfMetricsAreCut() const {
  if (!metrics_->TakeCut()) return;
  const std::vector<StepRange>& missing = metrics_->missing();
  const bool may_be_lost = KeepsWrittenBytesOnHost(metrics_->lines().descriptor());
  context_.Log(fmt::format(
      "{} was truncated by another process{}{}: leave the output folder alone until the job is "
      "done",
      context_.OutPath(kMetricsName),
      may_be_lost ? ", or its file server lost what it had accepted (is a disk or a quota full?),"
                  : "",
      missing.empty() ? ""
                      : fmt::format(" and has no line for step {}, as the receipt will record",
                                    RangesText(missing))));
}

void RunFiles::SayIfLinesWait() {
  const std::string problem = metrics_->lines().Problem();
  const std::int64_t now_us = tuplespace::MonotonicUs();
  if (problem.empty()) {
    if (!std::exchange(said_lines_wait_, false)) return;
    context_.Log(fmt::format("{} can be written again", context_.OutPath(kMetricsName)));
  } else if (now_us >= say_lines_wait_us_) {
    said_lines_wait_ = true;
    say_lines_wait_us_ = now_us + kSayLinesWaitEveryUs;
    context_.Log(fmt::format("{} cannot be written: {}; its lines wait in memory",
                             context_.OutPath(kMetricsName), problem));
  }
}

void RunFiles::AddTuning(const Tuning& tuning) {
  if (tuning_log_) tuning_log_->Write(tuning);
}

void RunFiles::FinishLines() {
  if (!metrics_) return;
  for (LineFile* lines : {&metrics_->lines(), &tuning_log_->lines()}) {
    lines->TryWaiting();
    lines->CheckWritten();
  }
  metrics_->Sync();  // the receipt will say that it is complete
}

void RunFiles::Check() const {
  CheckNotRemoved();
  if (!metrics_) return;
  if (metrics_->WhereItLeads() == MetricsLog::Leads::kElsewhere) {
    throw RunLost{"another manager has taken over"};
  }
  const std::string problem = metrics_->SyncProblem();
  if (!problem.empty()) throw FilesLost{{problem}};
}

void RunFiles::CheckNotRemoved() const {
  if (!context_.HasFolder()) return;
  if (metrics_) {
    if (metrics_->WhereItLeads() == MetricsLog::Leads::kNowhere) OnRemoved(metrics_->PresentPath());
    return;
  }
  std::error_code ignored;
  const auto there = std::filesystem::status(context_.settings.out_dir, ignored).type();
  if (there == std::filesystem::file_type::not_found) OnRemoved("");
}

void RunFiles::CheckNotRemovedIfDue(std::int64_t now_us) {
  if (now_us < check_us_) return;
  check_us_ = now_us + kCheckEveryUs;
  CheckNotRemoved();
}

// The space has the weights, and the newest lines. But with audits only the snapshots say whose
// results are in the weights.
void RunFiles::OnRemoved(const std::string& moved_to) const {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string& folder = context_.settings.out_dir;
  const std::string moved_folder = fs::path(moved_to).parent_path().string();
  const bool moved_whole = !moved_to.empty() && !fs::equivalent(moved_folder, folder, ignored) &&
                           fs::exists(moved_folder + "/" + kJobName, ignored);
  const std::string metrics = context_.OutPath(kMetricsName);
  std::string what = fmt::format("the output folder {} was removed", folder);
  if (moved_whole) {
    what = fmt::format("the output folder {} was moved to {}", folder, moved_folder);
  } else if (!moved_to.empty()) {
    what = fmt::format("{} was moved to {}", metrics, moved_to);
  } else if (fs::exists(folder, ignored)) {
    what = metrics + " was removed";
  }
  const std::string resume = fmt::format("continue with --resume in {}", moved_folder);
  if (metrics_ && context_.job.tasks.audit > 0 && !HasSnapshots(folder)) {
    throw FailureError(
        fmt::format("{}; without its snapshots, a run with audits cannot continue: {}", what,
                    moved_whole ? resume : "start it again, and leave the output folder alone"));
  }
  if (moved_whole && HasSnapshots(moved_folder)) {
    context_.Log(
        fmt::format("to go on in {} instead, stop this run and {}: its newest snapshot is "
                    "older than the weights in the space",
                    moved_folder, resume));
  }
  throw RunLost{what + "; the run makes it again"};
}

// ---- snapshots ---------------------------------------------------------------------------------

void RunFiles::StartSnapshot(const RunState& state, std::vector<TileCell> tiles) {
  metrics_->lines().TryWaiting();  // a snapshot fails while a line waits
  snapshot_writer_->Start(state, ModelTensors(*context_.model, context_.OptimizerStates()),
                          std::move(tiles), context_.job.stop_if_not_finite,
                          context_.client.endpoint());
}

void RunFiles::DropSnapshot(const std::function<void()>& poll) {
  if (!snapshot_writer_) return;
  snapshot_writer_->Drop([&] {
    poll();
    SayIfSnapshotIsSlow();
  });
}

std::optional<SnapshotWriter::Done> RunFiles::TakeSnapshotDone() {
  if (!snapshot_writer_) return std::nullopt;
  SayIfSnapshotIsSlow();
  std::optional<SnapshotWriter::Done> done = snapshot_writer_->TakeDone();
  if (done && done->room_made && !std::exchange(said_room_made_, true)) {
    context_.Log(
        "the disk has no room for three snapshots: the older of the two is removed before the next "
        "is written");
  }
  return done;
}

// The snapshot's thread waits for tiles or for the disk.
void RunFiles::SayIfSnapshotIsSlow() {
  if (const auto seconds = snapshot_writer_->SlowSeconds()) {
    context_.Log(fmt::format("a snapshot is still being written after {} s", *seconds));
  }
}

// Runs on the writer's thread. A snapshot without the metrics of all its steps must never become
// visible: not after a power failure, and not if another manager has begun from an earlier version
// meanwhile.
bool RunFiles::SnapshotMayCommit() const {
  metrics_->Sync();
  sync_others_();
  return metrics_->WhereItLeads() == MetricsLog::Leads::kHere;
}

}  // namespace acan
