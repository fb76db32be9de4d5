// TaskPolicy: decides how many tasks are in the space at once (the pouch), how long they are
// leased, and how many a handler takes together. A policy changes when tasks are computed, and
// never the bits of the weights.
//
// Pure: no clock, no space. ManagerCore reports events to it and queries it. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/response_times.h"

namespace acan {

// A completed task, as the space reports it.
struct TaskDone {
  Work work;
  std::int64_t took_us = 0;       // from its lease to its completion
  std::uint32_t times_taken = 1;  // above one: it was issued again
};

// What the space reports about itself from time to time, all jobs together.
struct SpaceSeen {
  std::uint64_t tasks_ready = 0;  // ready, but not taken
  std::uint64_t open_gets = 0;    // from handlers that wait for a task
};

class TaskPolicy {
 public:
  virtual ~TaskPolicy() = default;

  // How many tasks may be put now. `waiting` is the number of tasks that the manager has ready to
  // put.
  virtual std::int64_t Room(std::int64_t waiting, std::int64_t now_us) = 0;
  // The lease of a task that is put now.
  virtual std::int64_t LeaseUs(const Work& work) const = 0;
  // Whether the lease is a time limit, which handlers do not extend.
  virtual bool timed() const = 0;
  // Writes into the tasks of one unit how many of them a handler should take together.
  virtual void MarkChunks(std::vector<PlannedTask>& tasks) const;
  virtual void OnTime(std::int64_t now_us);
  virtual std::int64_t NextDeadlineUs() const;  // for OnTime

  virtual void OnSpace(const SpaceSeen& seen, std::int64_t now_us);
  void OnHandlers(int handlers) { handlers_ = handlers; }
  void OnPut(std::int64_t tasks, std::int64_t now_us);
  void OnDone(std::int64_t tasks, const std::vector<TaskDone>& done, std::int64_t now_us);
  // Forgets the tasks in flight: they will neither end nor be put again under their names.
  virtual void Forget();

  virtual std::int64_t pouch() const = 0;       // maximum number of tasks in flight
  virtual std::int64_t timeout_us() const = 0;  // the current one, or that of the last task put
  // How many tasks share one report of their completion.
  virtual std::int64_t report_every() const;
  std::int64_t in_flight() const { return in_flight_; }
  std::int64_t pouches() const { return pouches_; }  // begun so far; 0 for policies without pouches

 protected:
  virtual void AfterPut(std::int64_t tasks, std::int64_t now_us);
  virtual void AfterDone(const std::vector<TaskDone>& done, std::int64_t now_us);

  int handlers_ = 1;
  std::int64_t in_flight_ = 0;
  std::int64_t pouches_ = 0;
};

// The policy that the job names. Values that `limits` fixes are not learned.
std::unique_ptr<TaskPolicy> MakeTaskPolicy(const TaskLimits& limits);

// The sizes of the chunks into which `tasks` are cut for `handlers`: each chunk is the number of
// remaining tasks divided by the handlers, rounded up (C. D. Polychronopoulos and D. J. Kuck,
// "Guided self-scheduling", IEEE Transactions on Computers C-36, 1987).
std::vector<std::int64_t> GuidedChunks(std::int64_t tasks, int handlers);
// Chunks in batches: each batch is half of the remaining tasks, in equal chunks, one per handler
// (S. Flynn Hummel, E. Schonberg and L. E. Flynn, "Factoring", Communications of the ACM 35, 1992).
std::vector<std::int64_t> FactoringChunks(std::int64_t tasks, int handlers);

}  // namespace acan
