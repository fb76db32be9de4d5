// DeviceThread with a device whose results arrive late: the CPU computes, but, as on a GPU,
// downloads end only when the test allows it.
#include "device/device_thread.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <system_error>
#include <utility>

#include "acan/cpu/cpu_device.h"
#include "forwarding_device.h"
#include "room_for_threads.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

// Lets downloads end one by one, and counts those in progress.
class Gate {
 public:
  void Started() {
    const std::lock_guard lock(mutex_);
    most_ = std::max(most_, ++pending_);
    changed_.notify_all();
  }
  void Pass() {  // called by Wait()
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ > 0; });
    --open_;
    --pending_;
    if (lost_) throw DeviceLost("the device went away");
  }
  void Open(int count) {
    const std::lock_guard lock(mutex_);
    open_ += count;
    changed_.notify_all();
  }
  void Lose() {
    const std::lock_guard lock(mutex_);
    lost_ = true;
  }
  void AwaitPending(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pending_ >= count; });
  }
  int most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int pending_ = 0, most_ = 0, open_ = 0;
  bool lost_ = false;
};

class LateDownload final : public PendingDownload {
 public:
  LateDownload(Gate& gate, tuplespace::Payload payload)
      : gate_(gate), payload_(std::move(payload)) {
    gate_.Started();
  }
  bool ready() const override { return false; }
  tuplespace::Payload Wait() override {
    gate_.Pass();
    return std::move(payload_);
  }

 private:
  Gate& gate_;
  tuplespace::Payload payload_;
};

class DecoratedCpu : public test::ForwardingDevice {
 public:
  DecoratedCpu() : ForwardingDevice(MakeCpuDevice({1, 1 << 20, std::nullopt})) {}
};

class LateDevice final : public DecoratedCpu {
 public:
  explicit LateDevice(Gate& gate) : gate_(gate) {}
  std::unique_ptr<PendingDownload> StartDownload(const BufferPtr& buffer,
                                                 const Matrix& from) override {
    return std::make_unique<LateDownload>(gate_, Download(buffer, from));
  }

 private:
  Gate& gate_;
};

// Fills a matrix of `size` x `size` with `value`.
DeviceJob JobOf(FlightId flight, float value, std::int32_t size = 4) {
  auto task = std::make_shared<Task>();
  task->buffers = {{size, size}};
  Call call;
  call.kernel = Kernel::kFill;
  call.views = {{0, 0, 0, size, size}};
  call.scalars.f[0] = value;
  task->calls = {call};
  task->outputs = {{tuplespace::Key(), {0, 0, 0, size, size}, false}};
  DeviceJob job{flight, task, {}, std::nullopt, 0};
  job.flops = Flops(*task);
  return job;
}

class Outcomes {
 public:
  void Wake() {
    const std::lock_guard lock(mutex_);
    ++woken_;
    changed_.notify_all();
  }
  std::vector<DeviceOutcome> Await(DeviceThread& thread, std::size_t count) {
    std::vector<DeviceOutcome> all;
    std::unique_lock lock(mutex_);
    for (;;) {
      for (DeviceOutcome& each : thread.TakeOutcomes()) all.push_back(std::move(each));
      if (all.size() >= count) return all;
      const int seen = woken_;
      changed_.wait(lock, [&] { return woken_ != seen; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int woken_ = 0;
};

float FirstOf(const DeviceOutcome& outcome) {
  float value = 0;
  std::memcpy(&value, outcome.results.at(0).payload.data(), sizeof(value));
  return value;
}

// Counts marks, and lets them end through a Gate.
class MarkingDevice final : public DecoratedCpu {
 public:
  explicit MarkingDevice(Gate& gate) : gate_(gate) {}
  std::unique_ptr<PendingDownload> StartMark() override {
    ++marks_;
    return std::make_unique<LateDownload>(gate_, tuplespace::Payload());
  }
  int marks() const { return marks_; }

 private:
  Gate& gate_;
  int marks_ = 0;
};

// A job whose two results stay on the device if `resident`; the second is a part of its buffer.
DeviceJob JobThatStays(bool resident) {
  DeviceJob job = JobOf(1, 7);
  auto task = std::make_shared<Task>(*job.task);
  task->outputs.front().may_be_resident = true;
  task->outputs.push_back({tuplespace::Key(), {0, 0, 0, 2, 4}, false, true});
  job.task = std::move(task);
  job.resident = resident;
  return job;
}

TEST(DeviceThread, SaysThatItsSecondThreadCannotStart) {
  DecoratedCpu device;
  const test::RoomForThreads room(1);
  EXPECT_THROW(DeviceThread(device, [] {}), std::system_error);
}

TEST(DeviceThread, ResultsThatStayShareOneMarkAndEndWithIt) {
  Gate gate;
  MarkingDevice device(gate);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  thread.Add(JobThatStays(true));
  thread.RunShortTasks();
  gate.AwaitPending(1);
  EXPECT_TRUE(thread.TakeOutcomes().empty());
  gate.Open(1);
  const DeviceOutcome outcome = std::move(outcomes.Await(thread, 1).front());
  EXPECT_EQ(device.marks(), 1);
  ASSERT_EQ(outcome.results.size(), 2u);
  EXPECT_EQ(outcome.results[0].resident_bytes, 64u);
  EXPECT_EQ(outcome.results[1].resident_bytes, 32u);
  for (const TaskResult& result : outcome.results) {
    ASSERT_NE(result.kept, nullptr);
    EXPECT_TRUE(result.payload.empty());
    EXPECT_EQ(result.kept->size_bytes(), result.resident_bytes);
  }
}

TEST(DeviceThread, ResultsThatLeaveNeedNoMark) {
  Gate gate;
  MarkingDevice device(gate);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  thread.Add(JobThatStays(false));
  thread.RunShortTasks();
  EXPECT_EQ(outcomes.Await(thread, 1).front().results.at(1).payload.size(), 32u);
  EXPECT_EQ(device.marks(), 0);
}

TEST(DeviceThread, BeginsALongTaskWithoutRunShortTasks) {
  Gate gate;
  LateDevice device(gate);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  thread.Add(JobOf(1, 1));
  gate.AwaitPending(1);
  gate.Open(1);
  EXPECT_EQ(FirstOf(outcomes.Await(thread, 1).front()), 1.0f);
}

TEST(DeviceThread, StartsTheNextTaskWhileResultsAreToComeButNoMore) {
  Gate gate;
  LateDevice device(gate);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  for (int i = 1; i <= 5; ++i) thread.Add(JobOf(static_cast<FlightId>(i), static_cast<float>(i)));
  thread.RunShortTasks();
  gate.AwaitPending(2);  // the results of neither have arrived
  gate.Open(5);
  const std::vector<DeviceOutcome> all = outcomes.Await(thread, 5);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all[i].flight, i + 1);
    EXPECT_FALSE(all[i].failed);
    EXPECT_EQ(FirstOf(all[i]), static_cast<float>(i + 1));
    EXPECT_GE(all[i].seconds, 0.0);
  }
  EXPECT_EQ(gate.most(), 2);
}

// Only with few threads: with many, all would wait for the one that hashes.
TEST(DeviceThread, ResultsOfAFewThreadsComeWithTheirHash) {
  for (const int threads : {1, 2, 3}) {
    const std::unique_ptr<Device> device = MakeCpuDevice({threads, 1 << 20, std::nullopt});
    Outcomes outcomes;
    DeviceThread thread(*device, [&] { outcomes.Wake(); });
    thread.Add(JobOf(1, 7.0f));
    thread.RunShortTasks();
    const std::vector<DeviceOutcome> all = outcomes.Await(thread, 1);
    const tuplespace::Payload& payload = all[0].results.at(0).payload;
    ASSERT_EQ(payload.hash().has_value(), threads <= 2) << threads;
    const tuplespace::PayloadHash hash = tuplespace::HashOf(payload.bytes());
    EXPECT_EQ(payload.hash().value_or(hash), hash);
  }
}

TEST(DeviceThread, IsBusyFromItsFirstTaskToTheEndOfItsLast) {
  Gate gate;
  LateDevice device(gate);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  EXPECT_FALSE(thread.BusySinceUs());
  const std::int64_t before_us = tuplespace::MonotonicUs();
  for (const FlightId flight : {1, 2}) thread.Add(JobOf(flight, 1.0f));
  thread.RunShortTasks();
  gate.AwaitPending(2);
  const std::optional<std::int64_t> first_us = thread.BusySinceUs();
  ASSERT_TRUE(first_us);
  EXPECT_GE(*first_us, before_us);
  gate.Open(1);
  outcomes.Await(thread, 1);
  const std::optional<std::int64_t> second_us = thread.BusySinceUs();
  ASSERT_TRUE(second_us);
  EXPECT_GT(*second_us, *first_us) << "a task has ended since";
  gate.Open(1);
  outcomes.Await(thread, 1);
  while (thread.BusySinceUs()) std::this_thread::yield();  // its loop ends a little later
}

TEST(DeviceThread, ALostDeviceIsHeardOfWithTheResults) {
  Gate gate;
  gate.Lose();
  gate.Open(1);
  LateDevice device(gate);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  thread.Add(JobOf(7, 1.0f));
  thread.RunShortTasks();
  const std::vector<DeviceOutcome> all = outcomes.Await(thread, 1);
  EXPECT_EQ(all[0].flight, 7u);
  EXPECT_TRUE(all[0].failed);
  EXPECT_TRUE(all[0].lost);
  EXPECT_EQ(all[0].cause, "the device went away");
  EXPECT_TRUE(all[0].results.empty());
}

// As on OpenCL, the first command fails as it runs, which the next call that waits reports. The
// driver refuses the second command at once.
class RefusingDevice final : public DecoratedCpu {
 public:
  explicit RefusingDevice(bool is_lost) : is_lost_(is_lost) {}
  void Launch(Kernel kernel, const KernelArgs& args) override {
    ++launches_;
    if (launches_ == 1) failed_ = true;
    if (launches_ == 2) throw OutOfMemory("the driver refuses the command");
    DecoratedCpu::Launch(kernel, args);
  }
  tuplespace::Payload Download(const BufferPtr& buffer, const Matrix& from) override {
    Synchronize();
    return DecoratedCpu::Download(buffer, from);
  }
  void Synchronize() override {
    if (!std::exchange(failed_, false)) return;
    if (is_lost_) throw DeviceLost("the first command ended the device");
    throw OutOfMemory("the first command had no memory");
  }

 private:
  const bool is_lost_;
  int launches_ = 0;
  bool failed_ = false;
};

DeviceJob JobOfTwoCalls() {
  DeviceJob job = JobOf(1, 1.0f);
  auto task = std::make_shared<Task>(*job.task);
  task->calls.push_back(Call(task->calls.front()));
  job.flops = Flops(*task);
  job.task = std::move(task);
  return job;
}

TEST(DeviceThread, CommandsOfATaskThatFailedDoNotFailTheNextOne) {
  RefusingDevice device(/*is_lost=*/false);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  thread.Add(JobOfTwoCalls());
  thread.RunShortTasks();
  const DeviceOutcome first = outcomes.Await(thread, 1).front();
  EXPECT_TRUE(first.failed);
  EXPECT_FALSE(first.lost);
  EXPECT_EQ(first.cause, "the driver refuses the command");
  thread.Add(JobOf(2, 2.0f));
  thread.RunShortTasks();
  const DeviceOutcome second = outcomes.Await(thread, 1).front();
  ASSERT_FALSE(second.failed) << second.cause;
  EXPECT_EQ(FirstOf(second), 2.0f);
}

TEST(DeviceThread, ADeviceThatIsLostWhileATaskFailsIsHeardOfWithThatTask) {
  RefusingDevice device(/*is_lost=*/true);
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  thread.Add(JobOfTwoCalls());
  thread.RunShortTasks();
  const DeviceOutcome outcome = outcomes.Await(thread, 1).front();
  EXPECT_TRUE(outcome.failed);
  EXPECT_TRUE(outcome.lost);
  EXPECT_EQ(outcome.cause, "the first command ended the device");
}

// Blocks tasks with 64 x 64 elements until LetGo.
class StuckDevice final : public DecoratedCpu {
 public:
  void Launch(Kernel kernel, const KernelArgs& args) override {
    if (args.m[0].rows == 64) may_.get_future().wait();
    DecoratedCpu::Launch(kernel, args);
  }
  void LetGo() { may_.set_value(); }

 private:
  std::promise<void> may_;
};

TEST(DeviceThread, ResultsOfShortTasksDoNotWaitForALongOne) {
  StuckDevice device;
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  for (int i = 1; i <= 5; ++i) thread.Add(JobOf(static_cast<FlightId>(i), static_cast<float>(i)));
  thread.Add(JobOf(6, 6.0f, 64));
  thread.Add(JobOf(7, 7.0f));
  thread.RunShortTasks();
  EXPECT_EQ(outcomes.Await(thread, 5).size(), 5u);  // would block if they waited for the long one
  device.LetGo();
  EXPECT_EQ(outcomes.Await(thread, 2).size(), 2u);
}

TEST(DeviceThread, ADeviceThatIsReadyAtOnceKeepsItsOrder) {
  const auto device = MakeCpuDevice({1, 1 << 20, std::nullopt});
  Outcomes outcomes;
  DeviceThread thread(*device, [&] { outcomes.Wake(); });
  for (int i = 1; i <= 20; ++i) {
    thread.Add(JobOf(static_cast<FlightId>(i), static_cast<float>(i)));
    while (thread.RunShortTasks()) {
    }
  }
  const std::vector<DeviceOutcome> all = outcomes.Await(thread, 20);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(FirstOf(all[i]), static_cast<float>(i + 1));
}

// Whether they are whole buffers or parts.
TEST(DeviceThread, ResultsMayStayOnTheDevice) {
  const auto device = MakeCpuDevice({1, 1 << 20, std::nullopt});
  Outcomes outcomes;
  DeviceThread thread(*device, [&] { outcomes.Wake(); });
  DeviceJob job = JobOf(1, 3.0f);
  Task task = *job.task;
  task.outputs = {{tuplespace::Key{"whole"}, {0, 0, 0, 4, 4}, false, true},
                  {tuplespace::Key{"part"}, {0, 1, 1, 2, 3}, false, true},
                  {tuplespace::Key{"leaves"}, {0, 0, 0, 1, 4}, false, false}};
  job.task = std::make_shared<Task>(task);
  job.resident = true;
  thread.Add(std::move(job));
  thread.RunShortTasks();
  const DeviceOutcome outcome = outcomes.Await(thread, 1).front();
  ASSERT_EQ(outcome.results.size(), 3u);
  EXPECT_EQ(outcome.results[2].payload.size(), 16u);
  EXPECT_EQ(outcome.results[2].resident_bytes, 0u);
  for (const std::size_t i : {0u, 1u}) {
    const TaskResult& result = outcome.results[i];
    EXPECT_TRUE(result.payload.empty());
    EXPECT_EQ(result.resident_bytes, i == 0 ? 64u : 24u);
    ASSERT_NE(result.kept, nullptr);
    ASSERT_EQ(result.kept->size_bytes(), result.resident_bytes);
    const tuplespace::Payload bytes = device->Fetch(result.kept);
    ASSERT_EQ(bytes.size(), result.resident_bytes);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      EXPECT_EQ(value, 3.0f);
    }
  }
}

class ThreadNotingDevice final : public DecoratedCpu {
 public:
  void Launch(Kernel kernel, const KernelArgs& args) override {
    last_thread_ = std::this_thread::get_id();
    DecoratedCpu::Launch(kernel, args);
  }
  std::thread::id last_thread() const { return last_thread_; }

 private:
  std::atomic<std::thread::id> last_thread_;
};

TEST(DeviceThread, KeepsLargeResultsThatLeaveIfTold) {
  DecoratedCpu device;
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  const auto bytes_of = [](std::int32_t size) { return BufferSpec{size, size}.bytes(); };
  DeviceJob not_told = JobOf(1, 1, 8);
  DeviceJob small = JobOf(2, 2, 7);
  DeviceJob large = JobOf(3, 3, 8);
  small.keeps_from_bytes = large.keeps_from_bytes = bytes_of(8);
  for (const DeviceJob& job : {not_told, small, large}) {
    thread.Add(job);
    thread.RunShortTasks();
    const DeviceOutcome outcome = outcomes.Await(thread, 1).front();
    ASSERT_EQ(outcome.results.size(), 1u) << outcome.cause;
    const TaskResult& result = outcome.results[0];
    EXPECT_EQ(result.kept != nullptr, job.flight == 3);
    EXPECT_EQ(result.payload.size(), bytes_of(job.flight == 2 ? 7 : 8)) << "it leaves as well";
    EXPECT_EQ(result.resident_bytes, 0u);
  }
}

TEST(DeviceThread, ShortTasksRunOnTheCallersThreadOnceItIsKnownThatTheyAre) {
  ThreadNotingDevice device;
  Outcomes outcomes;
  DeviceThread thread(device, [&] { outcomes.Wake(); });
  bool here = false;
  // An interruption of the thread may make a task look long once.
  for (int i = 1; i <= 1000 && !here; ++i) {
    thread.Add(JobOf(static_cast<FlightId>(i), static_cast<float>(i)));
    while (thread.RunShortTasks()) {
    }
    std::deque<DeviceOutcome> now = thread.TakeOutcomes();
    here = device.last_thread() == std::this_thread::get_id();
    if (now.empty()) {
      EXPECT_FALSE(here);
      now.push_back(std::move(outcomes.Await(thread, 1).front()));
    }
    EXPECT_EQ(FirstOf(now.front()), static_cast<float>(i));
    if (i == 1) {
      EXPECT_FALSE(here);
    }
  }
  EXPECT_TRUE(here);
  thread.Add(JobOf(2000, 1.0f, 256));  // known to be far too long
  EXPECT_FALSE(thread.RunShortTasks());
  outcomes.Await(thread, 1);
  EXPECT_NE(device.last_thread(), std::this_thread::get_id());
}

}  // namespace
}  // namespace acan
