// Inputs that a handler fetches before or after the task that needs them is granted: it fetches
// each once, from its holder.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "acan/manager/planned_task.h"
#include "cluster_fixture.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Payload;

constexpr std::chrono::seconds kGenerous{60};
constexpr int kRows = 64, kWidth = 512, kOutputs = 4;
const Key kSamples{"job", std::int64_t{2}, "act", std::int64_t{0}};
const Key kOthers{"job", std::int64_t{2}, "act", std::int64_t{1}};
const Key kWeights{"job", std::int64_t{1}, "weights", std::int64_t{0}};

Payload Ones(int count) {
  const std::vector<float> ones(static_cast<std::size_t>(count), 1.0f);
  return Payload::Copy(reinterpret_cast<const std::byte*>(ones.data()), 4 * ones.size());
}

// A task whose result is the product of samples and weights that are all ones.
PlannedTask Product(std::int64_t step, const Key& samples, int rows) {
  PlannedTask planned;
  planned.key = Key{"job", step, "task", "exact", "forward", std::int64_t{0}};
  planned.inputs = {samples, kWeights};
  Task& task = planned.task;
  task.kind = TaskKind::kForward;
  task.buffers = {{rows, kWidth}, {kOutputs, kWidth}, {rows, kOutputs}};
  task.pieces = {{0, 0, 0, 0, rows, kWidth}, {1, 1, 0, 0, kOutputs, kWidth}};
  Call product;
  product.gemm = true;
  product.views = {{0, 0, 0, rows, kWidth}, {1, 0, 0, kOutputs, kWidth}, {2, 0, 0, rows, kOutputs}};
  task.calls = {product};
  task.outputs = {{Key{"job", step, "made", std::int64_t{0}}, {2, 0, 0, rows, kOutputs}}};
  return planned;
}

class AheadTest : public testing::Test {
 protected:
  void SetUp() override {
    tuplespace::BrokerOptions options;
    options.listen = {"tcp://127.0.0.1:*"};
    broker_ = std::make_unique<tuplespace::Broker>(std::move(options));
    thread_ = std::thread([this] { broker_->Run(); });
    watcher_ = MakeClient(/*direct=*/false);
    owner_ = MakeOwner({kSamples, kOthers});
    const Key small{"job", std::int64_t{1}, "act", std::int64_t{0}};
    PutPlain(small, Ones(kWidth));
    PutPlain(kWeights, Ones(kOutputs * kWidth));
    HandlerOptions handler = RunningHandler::Options(broker_->endpoints().front(), 64 << 20);
    handler.shared_memory = false;
    handler_.emplace(std::move(handler));
    PlannedTask first = Product(1, small, 1);
    first.task.ahead = {{kSamples, samples_.size()}};
    Put(first);
    ASSERT_TRUE(watcher_->ReadOne(tuplespace::Pattern::Of(first.task.outputs[0].key), kGenerous));
  }
  void TearDown() override {
    handler_.reset();
    broker_->Stop();
    thread_.join();
  }
  std::unique_ptr<tuplespace::Client> MakeClient(bool direct) const {
    tuplespace::ClientOptions options;
    options.endpoint = broker_->endpoints().front();
    options.shared_memory = false;
    options.direct = direct;
    return std::make_unique<tuplespace::Client>(std::move(options));
  }
  // A client that holds `keys`; it answers only while it is polled.
  std::unique_ptr<tuplespace::Client> MakeOwner(const std::vector<Key>& keys) const {
    std::unique_ptr<tuplespace::Client> owner = MakeClient(/*direct=*/true);
    owner->OnAsked([this](const Key&) { return samples_; });
    EXPECT_TRUE(owner->GetStatistics(kGenerous));  // after the reply it listens
    for (const Key& key : keys) {
      tuplespace::Tuple samples;
      samples.key = key;
      samples.resident_bytes = samples_.size();
      EXPECT_TRUE(owner->Put({samples}, kGenerous));
    }
    return owner;
  }
  void PutPlain(const Key& key, Payload payload) {
    tuplespace::Tuple tuple;
    tuple.key = key;
    tuple.payload = std::move(payload);
    ASSERT_TRUE(watcher_->Put({tuple}, kGenerous));
  }
  void Put(const PlannedTask& task) {
    ASSERT_TRUE(watcher_->Put({ToTuple(task, 60'000'000)}, kGenerous));
  }
  static void ExpectProduct(const std::optional<tuplespace::FoundTuple>& made) {
    ASSERT_TRUE(made);
    ASSERT_EQ(made->payload.size(), 4u * kRows * kOutputs);
    EXPECT_EQ(reinterpret_cast<const float*>(made->payload.data())[5], float{kWidth});
  }
  std::optional<tuplespace::FoundTuple> MadeWhileItAnswers(tuplespace::Client& owner,
                                                           const PlannedTask& task) {
    std::optional<tuplespace::FoundTuple> made;
    WaitUntil([&] {
      owner.Poll(std::chrono::milliseconds(1));
      made = watcher_->ReadOne(tuplespace::Pattern::Of(task.task.outputs[0].key),
                               std::chrono::seconds(0));
      return made.has_value();
    });
    return made;
  }
  // Returns false after a long time.
  template <typename Condition>
  static bool WaitUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kGenerous;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

  const Payload samples_ = Ones(kRows * kWidth);
  std::unique_ptr<tuplespace::Broker> broker_;
  std::thread thread_;
  std::unique_ptr<tuplespace::Client> watcher_, owner_;
  std::optional<RunningHandler> handler_;
};

TEST_F(AheadTest, ATaskFindsWhatCameBeforeIt) {
  ASSERT_TRUE(WaitUntil([&] {
    owner_->Poll(std::chrono::milliseconds(1));
    return owner_->direct_counts().sent_bytes == samples_.size();
  }));
  const PlannedTask second = Product(2, kSamples, kRows);
  Put(second);  // from here on the owner does not answer
  ExpectProduct(watcher_->ReadOne(tuplespace::Pattern::Of(second.task.outputs[0].key), kGenerous));
  EXPECT_EQ(handler_->Stop().fetched_bytes, samples_.size());
}

TEST_F(AheadTest, ATaskWaitsForWhatIsUnderWay) {
  const PlannedTask second = Product(2, kSamples, kRows);
  Put(second);
  ASSERT_TRUE(WaitUntil([&] { return watcher_->GetStatistics(kGenerous)->tasks_leased > 0; }));
  ExpectProduct(MadeWhileItAnswers(*owner_, second));
  EXPECT_EQ(handler_->Stop().fetched_bytes, samples_.size());
}

TEST_F(AheadTest, TwoTasksThatNeedTheSameFetchItOnce) {
  const PlannedTask first = Product(2, kOthers, kRows), second = Product(3, kOthers, kRows);
  Put(first);
  Put(second);
  ASSERT_TRUE(WaitUntil([&] { return watcher_->GetStatistics(kGenerous)->tasks_leased == 2; }));
  ExpectProduct(MadeWhileItAnswers(*owner_, first));
  ExpectProduct(MadeWhileItAnswers(*owner_, second));
  EXPECT_EQ(handler_->Stop().fetched_bytes, 2 * samples_.size());  // one part came ahead
}

TEST_F(AheadTest, WhatCameForATaskThatStillWaitsIsNotFetchedAgain) {
  const Key late{"job", std::int64_t{2}, "act", std::int64_t{2}};
  const std::unique_ptr<tuplespace::Client> slow_owner = MakeOwner({late});
  PlannedTask first = Product(2, kOthers, kRows);
  first.inputs.push_back(late);
  first.task.buffers.push_back({kRows, kWidth});
  first.task.pieces.push_back({2, 3, 0, 0, kRows, kWidth});
  Put(first);
  ASSERT_TRUE(WaitUntil([&] {
    owner_->Poll(std::chrono::milliseconds(1));
    return owner_->direct_counts().sent_bytes == 2 * samples_.size();  // one part came ahead
  }));
  const PlannedTask second = Product(3, kOthers, kRows);
  Put(second);
  ExpectProduct(MadeWhileItAnswers(*owner_, second));
  ExpectProduct(MadeWhileItAnswers(*slow_owner, first));
  EXPECT_EQ(handler_->Stop().fetched_bytes, 3 * samples_.size());
}

}  // namespace
}  // namespace acan
