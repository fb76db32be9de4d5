// World: virtual time and the processes in it. A process has one or more tasks (fibers) and its own
// clock. It can be stopped, continued and killed wherever it waits. Only the events of the world's
// queue run code, in the order of their times, so a seed always gives the same history.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "world/fiber.h"
#include "world/random.h"

namespace acan::simulation {

inline constexpr std::int64_t kNever = INT64_MAX;

// Thrown from the wait of a task when its process is killed. The task's stack unwinds, and nothing
// that it does meanwhile leaves the process.
struct ProcessKilled {};

// A finding of a simulation. Thrown on the world's stack, never within a task.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Process;

class Task {
 public:
  Process& process() const { return process_; }
  bool done() const { return fiber_.done(); }

 private:
  friend class Process;
  friend class World;
  Task(Process& process, std::function<void()> body);
  Process& process_;
  Fiber fiber_;
  std::uint64_t wait_ = 0;  // number of waits begun and ended; even: not waiting
  bool due_ = false;        // runnable, but its process is stopped
  std::vector<Task*> joiners_;
};

// Something to wait for: a socket or a wake-up descriptor. The owner calls Notify when it is ready.
class Waitable {
 public:
  virtual ~Waitable() = default;
  virtual bool ready() const = 0;

 protected:
  void Notify();

 private:
  friend class World;
  Task* waiter_ = nullptr;
};

class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static World& current();  // the running world; there is only one at a time

  Random& random() { return random_; }
  std::int64_t now_us() const { return now_us_; }

  void At(std::int64_t time_us, std::function<void()> what);
  void After(std::int64_t delay_us, std::function<void()> what) {
    At(now_us_ + delay_us, std::move(what));
  }
  // Runs until the queue is empty, `until_us` is reached, or `enough` returns true. Throws
  // Violation.
  void Run(std::int64_t until_us, const std::function<bool()>& enough);

  // Records a violation where it cannot be thrown. Run and Check throw the first one.
  void Report(const std::string& what);
  void Check() const {
    if (!violation_.empty()) throw Violation(violation_);
  }

  // Adds a line to the history. Every line is hashed; the listener, if any, gets it.
  void Note(const std::string& line);
  void OnNote(std::function<void(const std::string&)> listener) { listener_ = std::move(listener); }
  // Passes a line to the listener only, so that remarks do not change the hash.
  void Remark(const std::string& line) {
    if (listener_) listener_(line);
  }
  std::uint64_t trace_hash() const { return trace_hash_; }
  std::uint64_t events() const { return events_run_; }

  // ---- called by tasks -------------------------------------------------------------------------

  static Task& CurrentTask();
  static bool InTask();
  // Waits until one is ready or the world's time is `until_us`. Throws ProcessKilled.
  void WaitForAny(const std::vector<Waitable*>& what, std::int64_t until_us);
  void Sleep(std::int64_t duration_us);
  // Waits until `task` of the same process is done. Never throws: if the process is killed
  // meanwhile, this ends `task`.
  void Join(Task& task);

 private:
  friend class Process;
  friend class Waitable;
  struct Event {
    std::int64_t time_us;
    std::uint64_t sequence;
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return time_us != other.time_us ? time_us > other.time_us : sequence > other.sequence;
    }
  };
  void Wait(std::int64_t until_us);
  void ResumeAt(std::int64_t time_us, Task& task);
  void GoOn(Task& task);
  void Finish(Task& task);  // unwinds a task of a killed process

  Random random_;
  std::int64_t now_us_ = 1'000'000;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t events_run_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::string violation_;
  std::function<void(const std::string&)> listener_;
  std::uint64_t trace_hash_ = 0xcbf29ce484222325ull;
};

class Process {
 public:
  // `clock_us`: the reading of its monotonic clock at the world's time 0; hosts differ.
  Process(World& world, std::string name, std::int64_t clock_us);
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }
  bool ended() const;  // all its tasks are done

  Task& Start(std::function<void()> body);
  void Kill();
  void Stop();  // like SIGSTOP
  void Continue();
  void JumpClock(std::int64_t forward_us) { clock_us_ += forward_us; }

  std::int64_t LocalUs() const { return world_.now_us() + clock_us_; }
  std::int64_t ToWorldUs(std::int64_t local_us) const {
    return local_us >= kNever - 1'000'000'000'000 ? kNever : local_us - clock_us_;
  }

  // Properties of its environment, for the roles that run in it.
  double gflops = 1;
  std::int64_t task_us = 1000;  // the usual duration of a task on its device
  int device_failures = 0;      // number of tasks that will fail from now on
  bool device_lost = false;
  bool leads = false;                           // as a manager: whether it was told that it leads
  std::vector<std::function<void()>> on_death;  // called before its tasks are unwound

 private:
  friend class World;
  World& world_;
  const std::string name_;
  std::int64_t clock_us_;
  bool alive_ = true, stopped_ = false;
  std::vector<std::unique_ptr<Task>> tasks_;
};

}  // namespace acan::simulation
