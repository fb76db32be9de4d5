// Implements the product's threads as tasks of the simulated world, and a conformance check that
// always passes.
#include <cassert>
#include <map>

#include "acan/core/error.h"
#include "acan/handler/conformance.h"
#include "acan/manager/worker_thread.h"
#include "device/device_thread.h"
#include "fmt/format.h"
#include "tuplespace/clock.h"
#include "world/cluster_network.h"
#include "world/world.h"

namespace acan::simulation {
namespace {

Network* the_network = nullptr;

}  // namespace

Network& ClusterNetwork() {
  assert(the_network != nullptr);
  return *the_network;
}

void SetClusterNetwork(Network* network) {
  the_network = network;
}

namespace {

class Signal final : public Waitable {
 public:
  bool ready() const override { return set_; }
  void Set() {
    set_ = true;
    Notify();
  }
  void Clear() { set_ = false; }

 private:
  bool set_ = false;
};

struct DeviceTask {
  Signal changed;
  Task* task = nullptr;
};

// The simulated tasks that replace the threads of each DeviceThread.
std::map<const DeviceThread*, DeviceTask>& DeviceTasks() {
  static std::map<const DeviceThread*, DeviceTask> tasks;
  return tasks;
}

}  // namespace
}  // namespace acan::simulation

namespace acan {

using simulation::DeviceTasks;
using simulation::World;

// ---- the manager's worker -----------------------------------------------------------------------

struct WorkerThread::Impl {
  simulation::Task* task = nullptr;
};

WorkerThread::WorkerThread() : impl_(std::make_unique<Impl>()) {}

WorkerThread::~WorkerThread() {
  Join();
}

void WorkerThread::Start(std::function<void()> work) {
  assert(impl_->task == nullptr);
  impl_->task = &World::CurrentTask().process().Start(std::move(work));
}

void WorkerThread::Join() {
  if (impl_->task != nullptr) World::current().Join(*impl_->task);
  impl_->task = nullptr;
}

// ---- the handler's device thread ----------------------------------------------------------------

DeviceThread::DeviceThread(Device& device, std::function<void()> wake, const Throttle* throttle)
    : device_(device), wake_(std::move(wake)), held_(device.budget()), throttled_(throttle) {
  DeviceTasks()[this].task = &World::CurrentTask().process().Start([this] { StartLoop(); });
}

DeviceThread::~DeviceThread() {
  stop_ = true;
  DeviceTasks().at(this).changed.Set();
  World::current().Join(*DeviceTasks().at(this).task);
  DeviceTasks().erase(this);
}

void DeviceThread::Enqueue(DeviceJob job) {
  pipeline_.Add(std::move(job));
  DeviceTasks().at(this).changed.Set();
}

// Always false: every task takes virtual time in its own simulated task.
bool DeviceThread::RunShortTasks() {
  return false;
}

void DeviceThread::StartLoop() {
  World& world = World::current();
  simulation::Process& process = World::CurrentTask().process();
  simulation::Signal& changed = DeviceTasks().at(this).changed;
  for (;;) {
    changed.Clear();
    if (stop_) return;
    if (pipeline_.Next() == nullptr) {
      world.WaitForAny({&changed}, simulation::kNever);
      continue;
    }
    DeviceJob job = pipeline_.StartNext(tuplespace::MonotonicUs());
    // The device counts as idle at once, because devices do not hang in this simulation.
    pipeline_.OnStartedAndFinished();
    StartedTask started = Start(std::move(job));
    // From a quarter to four times the usual time, rarely twenty times more.
    const std::int64_t usual_us = process.task_us;
    std::int64_t duration_us = world.random().Magnitude(usual_us / 4 + 1, usual_us * 4 + 1);
    if (world.random().OneIn(50)) duration_us *= 20;
    world.Sleep(duration_us);
    if (process.device_lost) {
      started.outcome.failed = started.outcome.lost = true;
      started.outcome.cause = "the device is lost (simulated)";
    } else if (process.device_failures > 0) {
      --process.device_failures;
      started.outcome.failed = true;
      started.outcome.cause = "the device failed (simulated)";
    }
    Finish(std::move(started));
  }
}

// ---- conformance --------------------------------------------------------------------------------

ConformanceResult RunConformance(Device&) {
  return {true, "simulated", ""};
}

double MeasureGflops(Device&) {
  return World::CurrentTask().process().gflops;
}

}  // namespace acan
