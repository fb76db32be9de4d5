// SpareHandlers: the handlers that are so much slower than others that a step takes less time
// without them. They get no tasks while the others work.
//
// That is an estimate from what handlers say about themselves. So the spares get tasks again for a
// while if the run turns out to be slower than the spares alone would be, or if the others are
// gone. How long that takes, and how often it may be necessary, does not depend on who comes and
// goes.
//
// Pure: no clock. Owned by HandlerPool, for its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "tuplespace/messages.h"

namespace acan {

class SpareHandlers {
 public:
  using Handlers = std::map<std::string, Capacity>;  // by client id
  // The estimated time of a step of the present plan with these handlers alone; infinite: they
  // cannot run it.
  using StepUs = std::function<double(const Handlers&)>;

  // A task names each of them.
  static constexpr std::size_t kMaxSpares = 32;

  // To be called before the methods below. REQUIRES: `now_us` never goes back.
  void SetTime(std::int64_t now_us) { now_us_ = now_us; }
  // No task of an earlier plan is left. If some excluded handlers, this is a Recall.
  void OnNewPlan();
  // Finds the spares among the handlers that are present. Costs little if nothing has changed since
  // the last call. `workers` have done a task. Returns lines for the user about new spares.
  std::vector<std::string> Judge(const Handlers& present, const std::set<std::string>& workers,
                                 const StepUs& step_us);
  enum class Missed : std::uint8_t {
    kNot,
    kSlow,   // the spares alone would be faster
    kStuck,  // no task has been done for long, or tasks that exclude handlers are left and slow
  };
  // To be called several times a second, with how many steps' worth of tasks have been done since
  // the last call.
  Missed OnProgress(double steps);
  // What has been done so far does not count for OnProgress.
  void WatchAnew();
  // There are no spares for a while, which is longer each time. While there are none, does nothing.
  void Recall();
  // Whether all tasks should be put again, once for each plan: only handlers that are spares now
  // have done tasks, and those that they hold or will take keep the others waiting for long.
  bool TakesTasksBack();

  const std::set<tuplespace::ClientId>& ids() const { return spares_; }
  // Those that some tasks of the present plan may exclude.
  const std::set<tuplespace::ClientId>& excluded() const { return excluded_; }

 private:
  struct Known {
    double gflops = 0;
    bool works = false;
    friend bool operator==(const Known&, const Known&) = default;
  };
  // Of tasks, under the present plan; see TakesTasksBack.
  enum class TakingBack : std::uint8_t { kNot, kWanted, kDone };
  static std::set<tuplespace::ClientId> Find(const Handlers& present,
                                             const std::map<std::string, double>& speeds,
                                             const StepUs& step_us);
  std::vector<std::string> NameNew(const Handlers& present,
                                   const std::set<tuplespace::ClientId>& spares);
  void Watch(const Handlers& present, const StepUs& step_us);
  bool OthersWork() const;  // one that is no spare has done a task

  std::int64_t now_us_ = 0;
  std::map<std::string, Known> judged_;  // by client id; empty: nobody
  std::set<tuplespace::ClientId> spares_, excluded_;
  // Of the excluded ones alone; infinite: the run is not compared with them.
  double spares_step_us_ = std::numeric_limits<double>::infinity();
  std::int64_t watched_from_us_ = 0;  // since when the run is compared with them
  std::int64_t watched_us_ = 0;       // when it was last
  double steps_ = 0;                  // done since then
  std::int64_t recalled_until_us_ = 0, recall_for_us_ = 0;
  TakingBack taking_back_ = TakingBack::kNot;
  std::map<tuplespace::ClientId, std::int64_t> named_until_us_;  // by OwnerOf: no line before
};

}  // namespace acan
