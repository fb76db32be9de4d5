// ClientSession and BrokerCore together, over links that break and a broker that restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "session_messages.h"
#include "tuplespace/client.h"

namespace tuplespace {
namespace {

// A simulated broker that restarts, and workers whose links break. Links keep the order of messages
// and lose everything in flight when they break. The seed decides everything.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    StartBroker();
    for (int i = 0; i < 3; ++i) {
      auto worker = std::make_unique<Worker>();
      worker->id = "w" + std::to_string(i);
      SessionOptions options;
      options.first_nonce = random_();
      worker->session = std::make_unique<ClientSession>(options);
      workers_.push_back(std::move(worker));
    }
  }

  // Every worker puts `puts` tuples of its own, and all Puts must be answered.
  void Run(int puts) {
    for (auto& worker : workers_) {
      for (int i = 0; i < puts; ++i) worker->to_put.push_back(i);
    }
    for (int step = 0; step < 1'000'000 && !Done(puts); ++step) {
      const bool calm = step > 20'000;  // no more faults, so everything must end well
      now_us_ += static_cast<std::int64_t>(random_() % 3'000);
      Worker& worker = *workers_[random_() % workers_.size()];
      if (!calm && random_() % 300 == 0) BreakLink(worker);
      if (!calm && random_() % 2'000 == 0) StartBroker();
      Drive(worker);
      core_->Tick(now_us_);
      Route();
    }
    ASSERT_TRUE(Done(puts));
    for (auto& worker : workers_) {
      EXPECT_TRUE(worker->answered_twice.empty());
      EXPECT_EQ(worker->session->unanswered_bytes(), 0u);
    }
    EXPECT_GT(restarts_, 1);
    EXPECT_GT(breaks_, 1);
  }

 private:
  struct Worker {
    ClientId id;
    std::unique_ptr<ClientSession> session;
    bool linked = false;
    std::deque<ToBroker> up;
    std::deque<ToClient> down;
    std::deque<int> to_put;
    std::set<RequestId> open;
    std::set<RequestId> answered;
    std::set<RequestId> answered_twice;
  };

  bool Done(int puts) const {
    for (const auto& worker : workers_) {
      if (worker->answered.size() != static_cast<std::size_t>(puts)) return false;
    }
    return true;
  }

  void StartBroker() {
    ++restarts_;
    BrokerCoreOptions options;
    options.first_session = random_();
    core_ = std::make_unique<BrokerCore>(options);
    for (auto& worker : workers_) BreakLink(*worker);
  }

  void BreakLink(Worker& worker) {
    ++breaks_;
    worker.up.clear();
    worker.down.clear();
    worker.linked = false;
    worker.session->LinkDown("fault", now_us_);
    // Sometimes the broker notices that at once, and sometimes only later.
    if (random_() % 2 == 0) core_->Lost(worker.id, "fault", now_us_);
  }

  void Drive(Worker& worker) {
    if (!worker.to_put.empty() && random_() % 2 == 0) {
      worker.open.insert(worker.session->Submit(
          Put{{PlainTuple({worker.id, worker.to_put.front()}, "x")}}, now_us_));
      worker.to_put.pop_front();
    }
    while (!worker.down.empty() && random_() % 4 != 0) {
      worker.session->Receive(std::move(worker.down.front()), now_us_);
      worker.down.pop_front();
    }
    worker.session->Tick(now_us_);
    for (const SessionEvent& event : worker.session->TakeEvents()) {
      if (const auto* reply = std::get_if<Reply>(&event)) {
        EXPECT_TRUE(worker.open.contains(reply->id));
        if (!worker.answered.insert(reply->id).second) worker.answered_twice.insert(reply->id);
        ASSERT_TRUE(std::holds_alternative<PutReply>(reply->body));
      } else if (std::holds_alternative<RelinkWanted>(event)) {
        worker.linked = true;
        worker.session->LinkUp(now_us_);
      }
    }
    if (!worker.linked || !worker.session->HasOutput()) return;
    const ClientSession::Output output = worker.session->TakeOutput(now_us_);
    ToBroker envelope;
    envelope.session = output.session;
    for (const auto& message : output.messages) {
      if (const auto* request = std::get_if<const Request*>(&message)) {
        envelope.messages.emplace_back(**request);
      } else if (const auto* hello = std::get_if<Hello>(&message)) {
        envelope.messages.emplace_back(*hello);
      } else {
        envelope.messages.emplace_back(Ping{});
      }
    }
    worker.up.push_back(std::move(envelope));
  }

  void Route() {
    for (auto& worker : workers_) {
      while (!worker->up.empty() && random_() % 3 != 0) {
        core_->Receive(worker->id, std::move(worker->up.front()), now_us_);
        worker->up.pop_front();
      }
    }
    for (auto& delivery : core_->TakeOutput()) {
      for (auto& worker : workers_) {
        if (worker->id == delivery.client && worker->linked) {
          worker->down.push_back(std::move(delivery.envelope));
        }
      }
    }
    core_->TakeLog();
  }

  std::mt19937_64 random_;
  std::int64_t now_us_ = 1;
  std::unique_ptr<BrokerCore> core_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int restarts_ = 0;
  int breaks_ = 0;
};

TEST(SessionAndBroker, EveryRequestIsAnsweredOnceWhateverBreaks) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    World(seed).Run(/*puts=*/3'000);
  }
}

}  // namespace
}  // namespace tuplespace
