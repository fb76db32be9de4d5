#include "world/world.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace acan::simulation {
namespace {

World* the_world = nullptr;
Task* the_task = nullptr;

constexpr std::int64_t kMaxSchedulingUs = 60;  // delay until a runnable task runs
constexpr std::uint64_t kMaxEvents = 5'000'000;

}  // namespace

Task::Task(Process& process, std::function<void()> body)
    : process_(process), fiber_([body = std::move(body)] {
        try {
          body();
        } catch (const ProcessKilled&) {
        } catch (...) {  // would end a real process
          World::current().Report("an exception that nobody caught");
        }
      }) {}

void Waitable::Notify() {
  if (waiter_ == nullptr) return;
  World& world = World::current();
  world.ResumeAt(world.now_us() + world.random().Between(0, kMaxSchedulingUs), *waiter_);
}

World::World(std::uint64_t seed) : random_(seed) {
  assert(the_world == nullptr);
  the_world = this;
}

World::~World() {
  the_world = nullptr;
}

World& World::current() {
  assert(the_world != nullptr);
  return *the_world;
}

void World::At(std::int64_t time_us, std::function<void()> what) {
  queue_.push({std::max(time_us, now_us_), next_sequence_++, std::move(what)});
}

void World::Run(std::int64_t until_us, const std::function<bool()>& enough) {
  assert(!InTask());
  while (!queue_.empty() && queue_.top().time_us <= until_us && !enough()) {
    const std::function<void()> what = std::move(const_cast<Event&>(queue_.top()).what);
    now_us_ = queue_.top().time_us;
    queue_.pop();
    if (++events_run_ > kMaxEvents) Report("the events do not end: something spins");
    what();
    Check();
  }
}

void World::Report(const std::string& what) {
  Note("VIOLATION " + what);
  if (violation_.empty()) violation_ = what;
}

void World::Note(const std::string& line) {
  for (const char c : line) {
    trace_hash_ = (trace_hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  trace_hash_ = (trace_hash_ ^ static_cast<std::uint64_t>(now_us_)) * 0x100000001b3ull;
  if (listener_) listener_(line);
}

Task& World::CurrentTask() {
  assert(the_task != nullptr);
  return *the_task;
}

bool World::InTask() {
  return the_task != nullptr;
}

// Schedules a timer or a notification for the current wait of `task`. The first one ends the wait.
void World::ResumeAt(std::int64_t time_us, Task& task) {
  if (time_us >= kNever) return;
  At(time_us, [this, process = &task.process_, &task, wait = task.wait_] {
    // Killed tasks are done before their process is destroyed, and processes outlive the queue.
    if (!process->alive_ || task.wait_ != wait || wait % 2 == 0) return;
    if (process->stopped_) {
      task.due_ = true;
    } else {
      GoOn(task);
    }
  });
}

void World::GoOn(Task& task) {
  Task* const outer = std::exchange(the_task, &task);
  task.due_ = false;
  ++task.wait_;
  task.fiber_.Resume();
  the_task = outer;
  if (!task.done()) return;
  for (Task* joiner : std::exchange(task.joiners_, {})) {
    if (joiner->wait_ % 2 == 1) ResumeAt(now_us_, *joiner);
  }
}

void World::Wait(std::int64_t until_us) {
  Task& task = CurrentTask();
  if (!task.process_.alive_) throw ProcessKilled{};
  ++task.wait_;
  ResumeAt(until_us, task);
  Fiber::Yield();
  if (!task.process_.alive_) throw ProcessKilled{};
}

void World::WaitForAny(const std::vector<Waitable*>& what, std::int64_t until_us) {
  if (!CurrentTask().process_.alive_) throw ProcessKilled{};
  const auto ready = [&] {
    return std::any_of(what.begin(), what.end(), [](const Waitable* w) { return w->ready(); });
  };
  if (ready()) return;
  for (Waitable* waitable : what) waitable->waiter_ = &CurrentTask();
  // Polling also takes virtual time, so that a polling loop does not block the world.
  const std::int64_t end_us = std::max(until_us, now_us_ + 10);
  struct Release {
    const std::vector<Waitable*>& what;
    ~Release() {
      for (Waitable* waitable : what) waitable->waiter_ = nullptr;
    }
  } release{what};
  do {
    Wait(end_us);
  } while (!ready() && now_us_ < end_us);
}

void World::Sleep(std::int64_t duration_us) {
  const std::int64_t end_us = now_us_ + duration_us;
  while (now_us_ < end_us) Wait(end_us);
}

void World::Join(Task& task) {
  try {
    while (!task.done() && CurrentTask().process_.alive_) {
      task.joiners_.push_back(&CurrentTask());
      Wait(kNever);
    }
  } catch (const ProcessKilled&) {
    // The caller may be a destructor, so this must not throw; its next wait will throw.
  }
  Finish(task);
}

void World::Finish(Task& task) {
  if (!task.fiber_.begun()) return;
  while (!task.done() && &task != the_task) GoOn(task);
}

Process::Process(World& world, std::string name, std::int64_t clock_us)
    : world_(world), name_(std::move(name)), clock_us_(clock_us) {}

Process::~Process() {
  Kill();
}

bool Process::ended() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& task) { return task->done(); });
}

Task& Process::Start(std::function<void()> body) {
  tasks_.push_back(std::unique_ptr<Task>(new Task(*this, std::move(body))));
  Task& task = *tasks_.back();
  task.wait_ = 1;
  world_.ResumeAt(world_.now_us(), task);
  return task;
}

void Process::Kill() {
  if (!alive_) return;
  alive_ = false;
  for (const auto& what : std::exchange(on_death, {})) what();
  // The first task owns objects that the others use.
  for (std::size_t i = 0; i < tasks_.size(); ++i) world_.Finish(*tasks_[i]);
}

void Process::Stop() {
  stopped_ = true;
}

void Process::Continue() {
  if (!stopped_) return;
  stopped_ = false;
  for (const auto& task : tasks_) {
    if (task->due_) world_.ResumeAt(world_.now_us(), *task);
  }
}

}  // namespace acan::simulation
