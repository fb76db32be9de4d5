#include "space_actions.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "acan/manager/pass_data.h"
#include "acan/manager/tuple_names.h"
#include "acan/manager/work_beside.h"
#include "fmt/format.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;
using tuplespace::ReplyBody;

constexpr std::size_t kMaxReportsOfOnePut = 256;
constexpr std::size_t kTasksOfOnePut = 32;               // or a few more
constexpr std::int64_t kSamplesOrderedAtOnce = 1 << 20;  // they take some 10 ms
constexpr std::uint32_t kStalledTasksNamed = 3;
constexpr std::size_t kWorkersNamed = 10;
constexpr std::uint64_t kBytesCopiedAtOnce = 1 << 20;  // of weights that stay with handlers
// So many damaged results in a row are no accident, and the run ends.
constexpr int kMostDamaged = 3;

void ThrowErrors(ReplyBody&& reply) {
  if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
    throw tuplespace::SpaceError(error->code, error->text);
  }
}

// The end of the report that begins with task `begin`. An audited task has its own report: if a
// task that reads its wrong result fails, this must not delay the audit.
std::size_t EndOfReport(const PutTasks& action, std::size_t begin, std::size_t most) {
  const std::size_t last = std::min(action.tasks.size(), begin + most);
  std::size_t end = begin + 1;
  if (!action.audited[begin].empty()) return end;
  while (end < last && action.audited[end].empty()) ++end;
  return end;
}

// Names those that did the most. There may be thousands, with names that they chose.
std::string WorkersText(const KnownHandlers& handlers) {
  std::vector<const HandlerSeen*> all;
  for (const auto& [id, handler] : handlers.by_id()) all.push_back(&handler);
  std::stable_sort(all.begin(), all.end(), [](const HandlerSeen* left, const HandlerSeen* right) {
    return left->tasks > right->tasks;
  });
  std::string text;
  const std::size_t named = std::min(all.size(), kWorkersNamed);
  for (std::size_t i = 0; i < named; ++i) {
    text += fmt::format("{}{} did {}", i == 0 ? "" : ", ", all[i]->name, all[i]->tasks);
  }
  if (named < all.size()) text += fmt::format(", and there were {} more", all.size() - named);
  return text;
}

std::string LostText(const LostHandlers& lost) {
  if (lost.count == 0) return "";
  if (lost.count == 1) return fmt::format("; handler {} left or was lost meanwhile", lost.last);
  return fmt::format("; {} handlers left or were lost meanwhile, at last {}", lost.count,
                     lost.last);
}

}  // namespace

void SpaceActions::Submit(tuplespace::RequestBody body) {
  context_.client.Submit(std::move(body), ThrowErrors);
}

tuplespace::RequestId SpaceActions::SubmitRead(tuplespace::Read read, ReadsInTurn::Then then) {
  read.wait_us = tuplespace::kForeverUs;
  auto id = std::make_shared<tuplespace::RequestId>(0);
  *id = context_.client.Submit(
      std::move(read), [this, id, then = std::move(then)](ReplyBody&& reply) {
        open_reads_.erase(*id);
        if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
          return OnReadFailed(*error);
        }
        auto& found = std::get<tuplespace::Found>(reply);
        if (!found.timed_out) then(std::move(found));  // otherwise it was cancelled
      });
  open_reads_.insert(*id);
  return *id;
}

// A result that does not have its hash, however often it is read, is made again like one that is
// lost: a bit may have flipped in its maker's memory, or in the broker's.
void SpaceActions::OnReadFailed(const tuplespace::RequestError& error) {
  const bool is_damaged = error.code == tuplespace::ErrorCode::kDamaged;
  if (is_damaged && ++damaged_in_a_row_ < kMostDamaged) return post_(ResultsLost{error.text});
  throw tuplespace::SpaceError(error.code, error.text);
}

void SpaceActions::CancelReads() {
  copying_.reset();  // an answer that is on its way must not begin its next Read
  reports_.Forget();
  for (const tuplespace::RequestId id : open_reads_) Submit(tuplespace::Cancel{id});
}

TileMover SpaceActions::Mover(std::function<void()> check) {
  return {context_.client,
          [this, check = std::move(check)] {
            leadership_.Keep();
            if (check) check();
          },
          [this](const std::string& line) { context_.Log(line); }};
}

// ---- data and tasks ----------------------------------------------------------------------------

// May take longer than the lead's lease for hundreds of millions of samples.
void SpaceActions::OrderEpoch(std::int64_t epoch) {
  const std::int64_t samples = context_.data.train_samples();
  const Training& training = context_.job.training;
  const auto draw = [&](const auto&) {
    order_ = EpochOrder(samples, training.seed, epoch, training.shuffle);
  };
  ordered_epoch_ = -1;
  if (samples <= kSamplesOrderedAtOnce) {
    draw(nullptr);
  } else {
    WorkBeside(
        context_.client, [this] { leadership_.Keep(); }, draw);
  }
  ordered_epoch_ = epoch;
}

// Maps sample i of the batch to its sample in the set.
std::function<std::int64_t(std::int64_t)> SpaceActions::SamplesOf(const PutPassData& action) {
  if (!action.test && ordered_epoch_ != action.epoch) OrderEpoch(action.epoch);
  return [this, test = action.test, first = action.first_sample](std::int64_t of_batch) {
    const std::int64_t place = first + of_batch;
    return test ? place : order_[static_cast<std::size_t>(place)];
  };
}

void SpaceActions::PutData(const PutPassData& action, const Plan& plan) {
  const PassTasks tasks(context_.planned, context_.job.training, plan);
  kept_data_.Put(PassTuples(tasks, action.pass, SetOf(action), action.epoch, SamplesOf(action),
                            context_.client.pool()),
                 CountPut());
}

std::int64_t SpaceActions::CountedRows(const PutPassData& pass) {
  if (!HasIgnoredLabels(SetOf(pass))) return -1;
  return CountLabels(SetOf(pass), pass.pass.rows, pass.epoch, SamplesOf(pass));
}

tuplespace::Client::ReplyHandler SpaceActions::CountPut() {
  ++puts_under_way_;
  return [this](ReplyBody&& reply) {
    --puts_under_way_;
    ThrowErrors(std::move(reply));
  };
}

// Puts the tasks in pieces, so that handlers compute the first ones while others are prepared.
void SpaceActions::Do(PutTasks& action) {
  const std::size_t count = action.tasks.size();
  tasks_put_ += static_cast<std::int64_t>(count);
  // Each report is an open Read.
  const std::size_t every = std::max(action.report_every, 1 + count / kMaxReportsOfOnePut);
  tuplespace::Put put;
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    end = EndOfReport(action, begin, every);
    Report report = ReportOf(action, begin, end);
    for (std::size_t i = begin; i < end; ++i) {
      put.tuples.push_back(ToTuple(std::move(action.tasks[i]), action.lease_us[i]));
    }
    if (put.tuples.size() >= kTasksOfOnePut || end == count) {
      context_.client.Submit(std::exchange(put, {}), CountPut());
      leadership_.Keep();
      if (end < count) context_.client.Flush();
    }
    ReadDone(std::move(report));
  }
}

SpaceActions::Report SpaceActions::ReportOf(const PutTasks& action, std::size_t begin,
                                            std::size_t end) const {
  Report report{action.unit, action.generation, action.first + begin};
  report.read.metadata_only = true;
  for (std::size_t i = begin; i < end; ++i) {
    std::vector<Pattern>& patterns = report.read.patterns;
    report.first_of.push_back(patterns.size());
    patterns.push_back(Pattern::Of(action.done_when[i]));
    report.work.push_back(action.work[i]);
    if (audits_.LogsAll()) {
      const std::vector<Output>& outputs = action.tasks[i].task.outputs;
      for (std::size_t o = 1; o < outputs.size(); ++o) {
        patterns.push_back(Pattern::Of(outputs[o].key));
      }
    } else {
      for (const Key& key : action.audited[i]) {
        if (key != action.done_when[i]) patterns.push_back(Pattern::Of(key));
      }
    }
  }
  return report;
}

void SpaceActions::ReadDone(Report report) {
  tuplespace::Read read = std::move(report.read);
  reports_.Add(std::move(read), [this, report = std::move(report)](tuplespace::Found&& found) {
    ChunkDone done{report.unit, report.generation, report.first, report.work.size()};
    for (std::size_t i = 0; i < report.work.size(); ++i) {
      const tuplespace::FoundTuple& tuple = found.tuples[report.first_of[i]];
      statistics_.OnTaskDone(tuple.put_by, report.work[i]);
      done.done.push_back({report.work[i], tuple.took_us, tuple.times_taken});
    }
    OnChunk(std::move(done), std::move(found));
  });
}

void SpaceActions::OnChunk(ChunkDone event, tuplespace::Found&& found) {
  for (const tuplespace::FoundTuple& tuple : found.tuples) event.put_by.insert(tuple.put_by);
  audits_.OnContributors(event.put_by);
  if (audits_.Watches()) {
    event.results = SeenResults(std::move(found));
    audits_.OnResults(event.results);
  }
  post_(std::move(event));
}

void SpaceActions::Do(const ReadLosses& action) {
  tuplespace::Read read;
  for (const Key& key : action.keys) read.patterns.push_back(Pattern::Of(key));
  SubmitRead(std::move(read),
             [this, unit = action.unit, generation = action.generation](tuplespace::Found&& found) {
               damaged_in_a_row_ = 0;
               LossesRead losses{unit, generation, {}, {}};
               for (const tuplespace::FoundTuple& tuple : found.tuples) {
                 // A wrong size becomes an empty sum, which is wrong for every job. The core knows
                 // who put it.
                 const std::size_t bytes = tuple.payload.size();
                 const bool fits = bytes == sizeof(float) || bytes == 2 * sizeof(float);
                 std::vector<float> sums(fits ? bytes / sizeof(float) : 0);
                 if (fits) std::memcpy(sums.data(), tuple.payload.data(), bytes);
                 losses.sums.push_back(std::move(sums));
                 losses.put_by.push_back(tuple.put_by);
               }
               post_(std::move(losses));
             });
}

// ---- audits ------------------------------------------------------------------------------------

void SpaceActions::Do(const PutVote& action) {
  const PlannedTask& task = action.vote.task;
  context_.client.Submit(tuplespace::Put{{ToTuple(task, action.lease_us)}}, CountPut());
  tuplespace::Read read;
  read.metadata_only = true;
  for (const Output& output : task.task.outputs) read.patterns.push_back(Pattern::Of(output.key));
  votes_[task.key] =
      SubmitRead(std::move(read), [this, key = task.key, audit = action.vote.audit,
                                   generation = action.generation](tuplespace::Found&& found) {
        votes_.erase(key);
        post_(VoteDone{audit, generation, SeenResults(std::move(found))});
      });
}

void SpaceActions::Do(const DropVote& action) {
  const auto at = votes_.find(action.task);
  if (at != votes_.end()) {
    Submit(tuplespace::Cancel{at->second});
    votes_.erase(at);
  }
  Submit(tuplespace::Retire{Pattern::Of(action.task), false});
}

// ---- removals ----------------------------------------------------------------------------------

void SpaceActions::Do(const RemoveResults& action) {
  for (const Key& key : action.keys) Submit(tuplespace::Retire{Pattern::Of(key), false});
}

void SpaceActions::Do(const RemoveStep& action) {
  std::vector<Pattern> patterns = StepWithoutTiles(context_.run, action.step);
  if (action.tiles) {
    for (Pattern& tiles : TilesOfVersion(context_.run, action.step)) {
      patterns.push_back(std::move(tiles));
    }
  }
  for (Pattern& pattern : patterns) Submit(tuplespace::Retire{std::move(pattern), false});
}

void SpaceActions::Do(const RetireThrough& action) {
  Submit(tuplespace::Retire{
      {{FieldPattern::Exact(context_.run), FieldPattern::AtMost(action.step)}, true}, true});
}

void SpaceActions::Do(const MakeSafe& action) {
  copying_ = std::make_shared<Copying>(Copying{{action.generation, action.version}, action.tiles});
  CopyNext(copying_, 0);
}

// The tiles that it still waits for may be retired next, and the Read would then never end.
void SpaceActions::Do(const DropCopy&) {
  if (const auto dropped = std::exchange(copying_, nullptr)) {
    Submit(tuplespace::Cancel{dropped->read});
  }
}

// Copies the next few tiles after the previous ones are in the space, so that the steps' own data
// can pass in between.
void SpaceActions::CopyNext(const std::shared_ptr<Copying>& copying, std::size_t begin) {
  if (copying != copying_) return;  // dropped while an answer was on its way
  const std::vector<TileCell>& tiles = copying->tiles;
  if (begin == tiles.size()) return post_(copying->version);
  tuplespace::Read read;
  read.metadata_only = true;
  read.in_space = true;
  std::size_t end = begin;
  for (std::uint64_t bytes = 0; end < tiles.size() && bytes < kBytesCopiedAtOnce; ++end) {
    const TileCell& tile = tiles[end];
    bytes += sizeof(float) * static_cast<std::uint64_t>(tile.outputs.size() * tile.inputs.size());
    read.patterns.push_back(Pattern::Of(tile.key));
  }
  copying->read = SubmitRead(std::move(read),
                             [this, copying, end](tuplespace::Found&&) { CopyNext(copying, end); });
}

void SpaceActions::GoBack(const MoveTiles& action) {
  CancelReads();
  Mover().Move(context_.run, action.version, action.from, action.to);
}

// Says which handlers are present, what the space has for them, and some of the unfinished tasks.
void SpaceActions::SayStalled(const Stalled& action) {
  context_.Log(
      fmt::format("no task was done for {:.0f} s: step {} lacks the results of {} tasks; {} tasks "
                  "are ready, {} are leased; tasks done so far: {}{}",
                  action.seconds, action.step, action.in_flight, action.tasks.ready,
                  action.tasks.leased, WorkersText(statistics_.handlers()), LostText(action.lost)));
  tuplespace::List list;
  list.pattern = TasksOf(context_.run, FieldPattern::Exact(action.step));
  list.limit = kStalledTasksNamed;
  list.metadata_only = true;
  context_.client.Submit(list, [this](ReplyBody&& reply) {
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    if (found == nullptr) return;
    for (const tuplespace::FoundTuple& task : found->tuples) {
      context_.Log(fmt::format("not done: {}", task.key.ToString()));
    }
  });
}

}  // namespace acan
