// World: virtual time, and the processes that live in it. A process is one or more tasks (fibers)
// with a clock of its own; it can be stopped, continued and killed at any of the points where it
// waits. Nothing runs but what the world's queue of events calls, in the order of their times, so a
// seed gives the same history each time.
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

// Thrown out of whatever a task waits in, when its process is killed: its stack unwinds, and
// nothing that it does on the way leaves the process.
struct ProcessKilled {};

// What a simulation found. Thrown on the world's stack, never within a task.
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
  std::uint64_t wait_ = 0;  // counts its waits; even: it does not wait
  bool due_ = false;        // it would go on, but its process is stopped
  std::vector<Task*> joiners_;
};

// What can be waited for: a socket, a wake-up descriptor. The owner calls Notify when it is ready.
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

  static World& current();  // the one that runs; there is one at a time

  Random& random() { return random_; }
  std::int64_t now_us() const { return now_us_; }

  void At(std::int64_t time_us, std::function<void()> what);
  void After(std::int64_t delay_us, std::function<void()> what) {
    At(now_us_ + delay_us, std::move(what));
  }
  // Until the queue is empty, `until_us` is reached or `enough` says so. Throws Violation.
  void Run(std::int64_t until_us, const std::function<bool()>& enough);

  // A violation seen where it cannot be thrown; Run and Check throw the first one.
  void Report(const std::string& what);
  void Check() const {
    if (!violation_.empty()) throw Violation(violation_);
  }

  // One line of the history, if anybody listens; every line goes into the hash.
  void Note(const std::string& line);
  void OnNote(std::function<void(const std::string&)> listener) { listener_ = std::move(listener); }
  // For the listener only: a history with remarks and one without have the same hash.
  void Remark(const std::string& line) {
    if (listener_) listener_(line);
  }
  std::uint64_t trace_hash() const { return trace_hash_; }
  std::uint64_t events() const { return events_run_; }

  // ---- called by tasks -------------------------------------------------------------------------

  static Task& CurrentTask();
  static bool InTask();
  // Waits until one of them is ready or the world's time is `until_us`. Throws ProcessKilled.
  void WaitForAny(const std::vector<Waitable*>& what, std::int64_t until_us);
  void Sleep(std::int64_t duration_us);
  // Waits until `task` of the same process is done. Never throws: when the process is killed
  // meanwhile, it ends `task`.
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
  void Finish(Task& task);  // of a killed process: unwinds it

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
  // `clock_us`: what its monotonic clock shows at the world's time 0; hosts differ.
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
  void Stop();  // as SIGSTOP
  void Continue();
  void JumpClock(std::int64_t forward_us) { clock_us_ += forward_us; }

  std::int64_t LocalUs() const { return world_.now_us() + clock_us_; }
  std::int64_t ToWorldUs(std::int64_t local_us) const {
    return local_us >= kNever - 1'000'000'000'000 ? kNever : local_us - clock_us_;
  }

  // What the roles running in it are told of their surroundings.
  double gflops = 1;
  std::int64_t task_us = 1000;  // the usual duration of a task on its device
  int device_failures = 0;      // tasks that will fail, from now on
  bool device_lost = false;
  bool leads = false;                           // as a manager: as far as it was told
  std::vector<std::function<void()>> on_death;  // before its tasks are unwound

 private:
  friend class World;
  World& world_;
  const std::string name_;
  std::int64_t clock_us_;
  bool alive_ = true, stopped_ = false;
  std::vector<std::unique_ptr<Task>> tasks_;
};

}  // namespace acan::simulation
