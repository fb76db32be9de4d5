// For tests of ManagerCore: a small job, handlers, and a shell that answers for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "acan/manager/manager_core.h"
#include "acan/manager/tuple_names.h"

namespace acan {

inline ManagerConfig SmallJob() {
  ManagerConfig config;
  config.model = BuildModel(Perceptron{{97, 211, 53, 10}});
  config.training.batch = 37;
  config.training.epochs = 2;
  config.run = "run";
  config.train_samples = 100;  // steps of 37, 37, 26
  config.test_samples = 50;
  return config;
}

inline HandlersSeen Handlers(std::initializer_list<std::uint64_t> memory_bytes) {
  HandlersSeen seen;
  int number = 0;
  for (const std::uint64_t bytes : memory_bytes) {
    Capacity capacity;
    capacity.name = "handler " + std::to_string(number);
    capacity.memory_bytes = capacity.limit_bytes = bytes;
    capacity.gflops = 100;
    capacity.exact = true;
    seen.handlers.emplace("id" + std::to_string(number++), capacity);
  }
  return seen;
}

// Executes and records the actions of a ManagerCore. Answers are queued; the test decides when they
// arrive.
class Shell {
 public:
  explicit Shell(ManagerConfig config) : core(std::move(config)) {}

  void Send(const ManagerEvent& event, std::int64_t now_us = 0) {
    if (const auto* chunk = std::get_if<ChunkDone>(&event)) NoteDone(*chunk);
    Take(core.Step(event, now_us));
  }
  // Answers everything until nothing is left.
  void RunAll(std::int64_t now_us = 0) { RunUntil(INT64_MAX, now_us); }
  // Answers until `steps` steps are committed, or nothing is left.
  void RunUntil(std::int64_t steps, std::int64_t now_us = 0) {
    while (core.committed_steps() < steps && !answers.empty()) {
      const ManagerEvent event = answers.front();
      answers.pop_front();
      if (const auto* chunk = std::get_if<ChunkDone>(&event)) in_flight -= chunk->tasks;
      Send(event, now_us);
    }
  }
  std::string Said() const {
    std::string all;
    for (const std::string& line : said) all += line + "\n";
    return all;
  }

  ManagerCore core;
  std::deque<ManagerEvent> answers;
  std::size_t in_flight = 0, most_in_flight = 0, tasks = 0;
  std::int64_t took_us = 1000;  // per task
  std::vector<std::int64_t> leases_us;
  std::vector<std::int64_t> retired, committed, removed_steps;
  std::vector<std::pair<std::int64_t, bool>> data_put;  // (step, test)
  std::vector<Evaluated> evaluated;
  std::vector<MoveTiles> moved;
  std::vector<Stalled> stalled;
  std::vector<std::string> said, conflicts;
  std::string gave_up;
  bool loaded = false, done = false;
  std::int64_t load_version = -1;
  std::vector<std::int64_t> snapshots;  // requested; the test answers
  std::vector<std::int64_t> copied;     // versions of MakeSafe
  std::uint64_t copy_generation = 0;    // of the last MakeSafe
  bool copies = true;                   // answers MakeSafe at once; otherwise the test does
  bool copy_open = false;               // a copy has not been answered
  bool retired_while_copied = false;    // the version being copied was retired
  int dropped = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> ready;  // to stop: version, saved version
  std::size_t votes = 0;
  std::size_t votes_left = 0;                       // that no handler that computes may take
  std::set<tuplespace::Key> removed;                // before the end of their step
  std::set<tuplespace::Key> made, used;             // by tasks known to be done
  std::vector<std::string> missed;                  // removed, but still needed
  std::map<tuplespace::Key, bool> may_be_resident;  // by results of tasks that were put
  std::map<std::string, std::size_t> named;         // number of tasks by TaskSpec::prefers
  std::set<tuplespace::Key> reads, told;            // by tasks that were put: inputs, Task::ahead
  std::vector<std::string> quarantined;
  std::vector<float> losses = {2, 1};            // reported by id1: sum of losses, right answers
  std::optional<float> norm;                     // result of the final sum of squares
  std::string liar;                              // computes everything wrongly
  std::size_t handlers = 3;                      // number that compute
  std::set<std::string> ignores_not_by;          // takes tasks that exclude it
  std::size_t kept_from_somebody = 0;            // tasks with exclusions
  std::size_t most_kept_from = 0;                // exclusions of one task
  std::map<std::string, std::size_t> kept_from;  // number of tasks by the client they exclude
  std::int64_t greatest_priority = 0;            // of tasks that were put
  std::string must_not_vote;                     // a handler that is present
  bool could_vote = false;                       // a vote did not exclude it

 private:
  bool CanVote(const PutVote& put) const {
    const std::vector<std::string>& not_by = put.vote.task.not_by;
    std::size_t excluded = 0;
    for (std::size_t i = 0; i < handlers; ++i) {
      excluded += std::find(not_by.begin(), not_by.end(), "id" + std::to_string(i)) != not_by.end();
    }
    return excluded < handlers;
  }
  // The handlers take turns, except where a task excludes them.
  void Compute(const PlannedTask& task, std::vector<SeenResult>* results) {
    kept_from_somebody += task.not_by.empty() ? 0 : 1;
    most_kept_from = std::max(most_kept_from, task.not_by.size());
    for (const std::string& client : task.not_by) ++kept_from[client];
    std::string by;
    do {
      by = "id" + std::to_string(turn_++ % handlers);
    } while (std::count(task.not_by.begin(), task.not_by.end(), by) != 0 &&
             ignores_not_by.count(by) == 0);
    for (const Output& output : task.task.outputs) {
      results->push_back(
          {output.key, by, tuplespace::PayloadHash{by == liar ? 13u : 1u, 0}, output.view.bytes()});
    }
  }
  std::size_t turn_ = 0;
  std::map<std::pair<UnitId, std::size_t>, PlannedTask> open_;  // put, but not known to be done

  void NotePut(const PutTasks& put) {
    for (std::size_t i = 0; i < put.tasks.size(); ++i) {
      ++named[put.tasks[i].prefers];
      greatest_priority = std::max(greatest_priority, put.tasks[i].priority);
      // What the space and the handler are told.
      const tuplespace::TaskSpec spec = *ToTuple(put.tasks[i], 0).task;
      for (std::uint32_t at = 0; at < spec.results.size(); ++at) {
        const bool is_due = std::count(spec.due.begin(), spec.due.end(), at) != 0;
        const Output& output = put.tasks[i].task.outputs.at(at);
        EXPECT_EQ(output.may_be_resident, !is_due) << output.key.ToString();
        may_be_resident[output.key] = output.may_be_resident;
      }
      for (const Ahead& ahead : put.tasks[i].task.ahead) told.insert(ahead.key);
      for (const tuplespace::Key& key : put.tasks[i].inputs) {
        reads.insert(key);
        if (removed.count(key) != 0) missed.push_back(key.ToString() + ", by a task");
      }
      open_[{put.unit, put.first + i}] = put.tasks[i];
    }
  }
  void NoteDone(const ChunkDone& chunk) {
    for (std::size_t i = 0; i < chunk.tasks; ++i) {
      const auto task = open_.extract({chunk.unit, chunk.first + i});
      if (task.empty()) continue;  // belongs to an earlier plan
      for (const Output& output : task.mapped().task.outputs) made.insert(output.key);
      used.insert(task.mapped().inputs.begin(), task.mapped().inputs.end());
    }
  }
  void NoteRemoved(const tuplespace::Key& key) {
    removed.insert(key);
    if (made.count(key) == 0)
      missed.push_back(key.ToString() + ", by who asks whether it is there");
    for (const auto& [place, task] : open_) {
      if (std::count(task.inputs.begin(), task.inputs.end(), key) != 0) {
        missed.push_back(key.ToString() + ", by a task that was put");
      }
    }
  }

  void NoteRemovedVersion(std::int64_t version) {
    for (const auto& [key, may] : may_be_resident) {
      const auto tile = TileOfKey(key);
      if (tile && tile->first == version) NoteRemoved(key);
    }
  }

  void On(const PutTasks& put) {
    ASSERT_EQ(put.tasks.size(), put.done_when.size());
    NotePut(put);
    ChunkDone answer{put.unit, put.generation, put.first, put.tasks.size()};
    for (const Work& work : put.work) answer.done.push_back({work, took_us, 1});
    ASSERT_EQ(answer.done.size(), answer.tasks);
    for (const PlannedTask& task : put.tasks) Compute(task, &answer.results);
    for (const SeenResult& result : answer.results) answer.put_by.insert(result.put_by);
    leases_us.insert(leases_us.end(), put.lease_us.begin(), put.lease_us.end());
    answers.push_back(std::move(answer));
    tasks += put.tasks.size();
    in_flight += put.tasks.size();
    most_in_flight = std::max(most_in_flight, in_flight);
  }
  void On(const PutVote& put) {
    if (!CanVote(put)) {
      ++votes_left;
      return;
    }
    VoteDone answer{put.vote.audit, put.generation, {}};
    Compute(put.vote.task, &answer.results);
    const std::vector<std::string>& not_by = put.vote.task.not_by;
    could_vote |= std::find(not_by.begin(), not_by.end(), must_not_vote) == not_by.end();
    answers.push_back(std::move(answer));
    ++votes;
  }
  void On(const Quarantine& wrong) { quarantined = wrong.verdict.wrong; }
  void On(const ReadLosses& read) {
    const std::size_t count = read.keys.size();
    std::vector<std::vector<float>> sums(count, losses);
    if (norm) sums.back() = {*norm};
    answers.push_back(LossesRead{read.unit, read.generation, std::move(sums),
                                 std::vector<std::string>(count, "id1")});
  }
  void On(const PutPassData& data) { data_put.emplace_back(data.pass.step, data.test); }
  void On(const LoadWeights& load) {
    loaded = true;
    load_version = load.version;
    answers.push_back(WeightsReady{load.generation});
  }
  void On(const MakeSafe& safe) {
    copied.push_back(safe.version);
    copy_generation = safe.generation;
    if (copies) answers.push_front(VersionSafe{safe.generation, safe.version});
    copy_open = !copies;
  }
  void On(const DropCopy&) { copy_open = false; }
  void On(const TakeSnapshot& snapshot) { snapshots.push_back(snapshot.version); }
  void On(const DropSnapshot&) { ++dropped; }
  void On(const ReadyToStop& stop) { ready.emplace_back(stop.version, stop.saved_version); }
  void On(const RemoveResults& remove) {
    for (const tuplespace::Key& key : remove.keys) NoteRemoved(key);
  }
  void On(const RemoveStep& between) {
    removed_steps.push_back(between.step);
    if (between.tiles) NoteRemovedVersion(between.step);
  }
  void On(const RetireThrough& retire) {
    retired.push_back(retire.step);
    retired_while_copied |= copy_open && retire.step >= copied.back();
  }
  void On(const MoveTiles& move) {
    moved.push_back(move);
    open_.clear();
    in_flight = 0;
    answers.push_back(WeightsReady{move.generation});
  }
  void On(const StepCommitted& step) { committed.push_back(step.step); }
  void On(const Evaluated& evaluation) { evaluated.push_back(evaluation); }
  void On(const Stalled& stall) { stalled.push_back(stall); }
  void On(const AuditConflict& conflict) { conflicts.push_back(conflict.text); }
  void On(const Say& say) { said.push_back(say.text); }
  void On(const GiveUp& give_up) { gave_up = give_up.text; }
  void On(const AllDone&) { done = true; }
  void On(const DropVote&) {}  // no test asks about it

  void Take(const std::vector<ManagerAction>& actions) {
    for (const ManagerAction& action : actions) {
      std::visit([this](const auto& one) { On(one); }, action);
    }
  }
};

}  // namespace acan
