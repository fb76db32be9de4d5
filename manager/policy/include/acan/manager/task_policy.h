// TaskPolicy: how many tasks are in the space at once (the pouch), for how long a taker has each,
// and how many a handler takes together. Policies change when things are computed, never what: the
// weights are the same bits under each.
//
// Pure: no clock, no space. ManagerCore tells it what happens and asks. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/pass_tasks.h"
#include "acan/manager/response_times.h"

namespace acan {

// One task that is done, as the space tells it.
struct TaskDone {
  Work work;
  std::int64_t took_us = 0;       // from its lease to its completion
  std::uint32_t times_taken = 1;  // more than one: it was issued again
};

// What the space says of itself now and then.
struct SpaceSeen {
  std::uint64_t tasks_ready = 0;  // could be taken, and are not
  std::uint64_t open_gets = 0;    // handlers that wait for a task
  std::uint64_t tasks_leased = 0;
};

class TaskPolicy {
 public:
  virtual ~TaskPolicy() = default;

  // How many tasks may be put now. `waiting`: how many the manager has ready to put.
  virtual std::int64_t Room(std::int64_t waiting, std::int64_t now_us) = 0;
  // Of a task that is put now.
  virtual std::int64_t LeaseUs(const Work& work) const = 0;
  // The lease is a time limit: handlers do not extend it.
  virtual bool timed() const = 0;
  // Writes into the tasks of one unit how many a handler should take together.
  virtual void MarkChunks(std::vector<PlannedTask>& tasks) const;
  virtual void OnTime(std::int64_t now_us);
  virtual std::int64_t NextDeadlineUs() const;  // of OnTime

  virtual void OnSpace(const SpaceSeen& seen, std::int64_t now_us);
  void OnHandlers(int handlers) { handlers_ = handlers; }
  void OnPut(std::int64_t tasks, std::int64_t now_us);
  void OnDone(std::int64_t tasks, const std::vector<TaskDone>& done, std::int64_t now_us);
  // What is in flight is given up: it will neither end nor be put again under its name.
  virtual void Forget();

  virtual std::int64_t pouch() const = 0;       // most tasks in flight
  virtual std::int64_t timeout_us() const = 0;  // the one in force, or that of the last task put
  // Of how many tasks together the end should be reported.
  virtual std::int64_t report_every() const;
  std::int64_t in_flight() const { return in_flight_; }
  std::int64_t pouches() const { return pouches_; }  // begun so far; policies without: 0

 protected:
  virtual void AfterPut(std::int64_t tasks, std::int64_t now_us);
  virtual void AfterDone(const std::vector<TaskDone>& done, std::int64_t now_us);

  int handlers_ = 1;
  std::int64_t in_flight_ = 0;
  std::int64_t pouches_ = 0;
};

// The policy that the job names; what `limits` fixes is not learned.
std::unique_ptr<TaskPolicy> MakeTaskPolicy(const TaskLimits& limits);

// The sizes of the chunks into which `tasks` are cut for `handlers`: each takes what is left
// divided by the handlers, rounded up (C. D. Polychronopoulos and D. J. Kuck, "Guided
// self-scheduling", IEEE Transactions on Computers C-36, 1987).
std::vector<std::int64_t> GuidedChunks(std::int64_t tasks, int handlers);
// In batches: each batch is half of what is left, in one equal chunk for each handler (S. Flynn
// Hummel, E. Schonberg and L. E. Flynn, "Factoring", Communications of the ACM 35, 1992).
std::vector<std::int64_t> FactoringChunks(std::int64_t tasks, int handlers);

}  // namespace acan
