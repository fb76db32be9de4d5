// Gives handlers processors of their own.
//
// If handlers have as many threads as there are processors, the scheduler sometimes lets two of
// them wait for one processor while another one idles, and a thread of a handler often wakes
// another thread on a sleeping processor. Both delays are longer than a short task. So each handler
// gets processors of its own, but only while no other program needs them: if more threads than
// processors have work, the scheduler divides the processors better than a fixed assignment does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace acan::cli {

using Processors = std::vector<int>;  // the system's numbers, ascending

// The processors of each handler, given the number of threads of each: consecutive ones of
// `usable`. Empty unless there are several handlers that together have as many threads as there are
// processors.
std::vector<Processors> ShareOut(const Processors& usable, const std::vector<int>& threads);

// How long `processors` have been busy since the system was started, in seconds of one of them.
// Time that the hypervisor gave to other machines counts as busy. nullopt if the system does not
// tell. `root` is put before /proc, for tests with a tree of their own.
std::optional<double> BusySeconds(const Processors& processors, const std::string& root = "");
// How long all threads of a process have computed, in seconds of a processor. nullopt if it is
// gone.
std::optional<double> ComputedSeconds(pid_t process, const std::string& root = "");
// Lets all threads of a process run on `processors` only. May miss threads that begin or end
// meanwhile.
void KeepOn(pid_t process, const Processors& processors);

// Decides when handlers keep to their processors. Not thread safe.
class KeepPolicy {
 public:
  explicit KeepPolicy(std::size_t processors) : processors_(processors) {}

  // Call this regularly with the time, how long the processors have been busy in total, and how
  // long the processes of this run have computed in total, in seconds. Returns whether handlers
  // should keep to their processors from now on.
  bool Look(double now_s, double busy_s, double own_s);
  bool keeps() const { return keeps_; }

 private:
  struct Seen {
    double now_s = 0, busy_s = 0, own_s = 0;
  };

  const std::size_t processors_;
  std::optional<Seen> last_;
  bool keeps_ = false;
  int quiet_ = 0;        // consecutive looks at which other programs needed little
  int wants_quiet_ = 1;  // the number of those after which handlers keep to their processors
};

// Keeps the handlers that this process has started on processors of their own. Not thread safe.
class OwnProcessors {
 public:
  static constexpr std::int64_t kLookEveryMs = 500;

  // `threads`: of each handler. `root` is put before /proc.
  OwnProcessors(const Processors& usable, const std::vector<int>& threads, std::string root = "");

  // Whether Look can ever do anything.
  bool CanKeep() const { return !shares_.empty(); }
  // Call this every kLookEveryMs. `handlers`: their processes, in the order of `threads`; 0 for a
  // handler that has no process at the moment. `others`: further children of this process.
  void Look(const std::vector<pid_t>& handlers, const std::vector<pid_t>& others);

 private:
  const Processors usable_;
  const std::vector<Processors> shares_;
  const std::string root_;
  KeepPolicy policy_;
};

}  // namespace acan::cli
