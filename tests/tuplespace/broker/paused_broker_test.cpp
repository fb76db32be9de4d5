// A broker that does not run for some time, as it is stopped or its machine is suspended, blames
// nobody for what it could not hear.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

using std::chrono::milliseconds;

// The loop of this broker stands still from when a client named "test lullaby" joins until WakeUp.
class PausingBroker {
 public:
  explicit PausingBroker(BrokerOptions options)
      : broker_(WithPause(std::move(options))), thread_([this] { broker_.Run(); }) {}
  ~PausingBroker() {
    WakeUp();
    Join();
  }

  const std::string& endpoint() const { return broker_.endpoints().front(); }
  Stats Join() {
    broker_.Stop();
    if (thread_.joinable()) thread_.join();
    return broker_.GetStatistics();
  }
  void WaitUntilPaused() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return paused_; });
  }
  void WakeUp() {
    const std::lock_guard lock(mutex_);
    awake_ = true;
    changed_.notify_all();
  }

 private:
  BrokerOptions WithPause(BrokerOptions options) {
    options.log = [this](const std::string& line) {
      if (line.find("lullaby") == std::string::npos) return;
      std::unique_lock lock(mutex_);
      paused_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return awake_; });
    };
    return options;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = false, awake_ = false;
  Broker broker_;
  std::thread thread_;
};

TEST(PausedBroker, DoesNotEndLeasesThatItCouldNotExtend) {
  constexpr milliseconds kLease(1500);
  TemporaryFolder folder;
  PausingBroker broker(BrokerThread::Options(folder.Ipc()));
  Client worker(ClientAt(broker.endpoint()));
  Tuple task = TaskTuple({"task"}, "x");
  task.task->lease_us = std::chrono::microseconds(kLease).count();
  ASSERT_TRUE(worker.Put({task}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  const std::vector<Grant> grants = worker.GetSome(get, kGenerous);
  ASSERT_EQ(grants.size(), 1u);
  const LeaseRef lease{grants[0].key, grants[0].fence};

  Client lullaby(ClientAt(broker.endpoint(), "lullaby"));
  std::thread joining([&] { lullaby.GetStatistics(kGenerous); });
  broker.WaitUntilPaused();
  std::optional<ReplyBody> extended;
  worker.Submit(Extend{lease, task.task->lease_us},
                [&](ReplyBody&& reply) { extended = std::move(reply); });
  worker.Flush();
  // The time that passes is what is tested.
  std::this_thread::sleep_for(2 * kLease);
  broker.WakeUp();
  const auto completed = worker.CompleteTask(lease, {}, kGenerous);
  joining.join();
  ASSERT_TRUE(completed && extended && std::holds_alternative<LeaseReply>(*extended));
  EXPECT_EQ(completed->lease, LeaseStatus::kOk);
  EXPECT_EQ(std::get<LeaseReply>(*extended).lease, LeaseStatus::kOk);
  EXPECT_EQ(broker.Join().counters.leases_expired, 0u);
}

}  // namespace
}  // namespace tuplespace
