// BrokerCore: clients take turns, and the amount of waiting requests is limited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "broker_core.h"
#include "session_messages.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FairBroker : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kTurnCost = 10;
  FairBroker() : core_(Options()) {
    for (const char* client : {"flood", "honest"}) sessions_[client] = JoinCore(core_, client, 0);
    core_.TakeOutput();
  }
  static BrokerCoreOptions Options() {
    BrokerCoreOptions options;
    options.turn_cost = kTurnCost;
    options.waiting_cost = 1000;
    options.refused_cost = 2;
    return options;
  }
  // Sends `count` Puts of one tuple each in one envelope.
  void Puts(const ClientId& client, int count, bool bye = false) {
    ToBroker envelope;
    envelope.session = sessions_.at(client);
    for (int i = 0; i < count; ++i) {
      envelope.messages.emplace_back(Request{++next_id_, OnePut(static_cast<int>(next_id_))});
    }
    if (bye) envelope.messages.emplace_back(Bye{});
    core_.Receive(client, std::move(envelope), 1);
  }
  // Returns the number of newly answered requests of each client.
  std::map<ClientId, std::size_t> Answered() {
    std::map<ClientId, std::size_t> answered;
    for (const auto& delivery : core_.TakeOutput()) {
      for (const BrokerMessage& message : delivery.envelope.messages) {
        const auto* done = std::get_if<Done>(&message);
        if (done != nullptr) answered[delivery.client] += done->requests.size();
      }
    }
    return answered;
  }
  BrokerCore core_;
  std::map<ClientId, std::uint64_t> sessions_;
  RequestId next_id_ = 0;
};

TEST_F(FairBroker, NobodyWaitsForMoreThanATurnOfAnother) {
  Puts("flood", 100);
  Puts("honest", 1);
  auto answered = Answered();
  EXPECT_EQ(answered["flood"], kTurnCost / 2);  // a put of one tuple costs two
  EXPECT_EQ(answered["honest"], 1u);
  EXPECT_LE(core_.NextDeadlineUs(), 1) << "the rest is not forgotten";
  std::size_t turns = 0;
  for (std::size_t left = 100 - kTurnCost / 2; left > 0; left -= Answered()["flood"]) {
    core_.Tick(1);
    ASSERT_LT(++turns, 100u);
  }
  EXPECT_EQ(turns, 19u);
  EXPECT_EQ(core_.GetStatistics().tuples, 101u);
}

TEST_F(FairBroker, WhatWaitsKeepsItsOrder) {
  Puts("flood", 20);
  core_.Tick(1);
  Puts("flood", 1);  // queued after the waiting ones, though this is another turn
  EXPECT_EQ(core_.GetStatistics().tuples, 10u);
  for (int i = 0; i < 3; ++i) core_.Tick(1);
  EXPECT_EQ(core_.GetStatistics().tuples, 21u);
}

TEST_F(FairBroker, WhoLeavesIsServedFirst) {
  Puts("flood", 20, /*bye=*/true);
  EXPECT_TRUE(core_.Knows("flood"));
  for (int i = 0; i < 4; ++i) core_.Tick(1);
  EXPECT_FALSE(core_.Knows("flood"));
  EXPECT_EQ(core_.GetStatistics().tuples, 20u);
}

TEST_F(FairBroker, WhoClosesItsConnectionAfterItsByeIsServedFirst) {
  Puts("flood", 20, /*bye=*/true);
  core_.Lost("flood", "its connection ended", 1);
  EXPECT_TRUE(core_.Knows("flood"));
  for (int i = 0; i < 4; ++i) core_.Tick(1);
  EXPECT_FALSE(core_.Knows("flood"));
  EXPECT_EQ(core_.GetStatistics().tuples, 20u);
  EXPECT_THAT(Answered(), IsEmpty()) << "another client may have its id";
}

TEST_F(FairBroker, WhoHasLeftIsServedHoweverLongItTakes) {
  Puts("flood", 100, /*bye=*/true);
  core_.Lost("flood", "its connection ended", 1);
  std::int64_t now_us = 1;
  while (core_.Knows("flood")) core_.Tick(now_us += Options().client_silence_us / 4);
  EXPECT_EQ(core_.GetStatistics().tuples, 100u);
}

TEST_F(FairBroker, WhoSendsFasterThanItIsServedIsLost) {
  for (int i = 0; i < 10 && core_.Knows("flood"); ++i) Puts("flood", 100);
  EXPECT_FALSE(core_.Knows("flood"));
  EXPECT_THAT(core_.TakeLog().back(), HasSubstr("faster than it can be served"));
  core_.Tick(1);  // nothing of it is left
  EXPECT_TRUE(core_.Knows("honest"));
}

TEST_F(FairBroker, WhatIsRefusedTakesTurnsTooAndCostsMore) {
  const Role observer{"observer", {Rule{{Operation::kRead}, {{FieldPattern::Any()}, true}, {}}}};
  const AllowedPeer peer{"watch", std::string(40, 'k'), "observer"};
  const AccessList list({observer}, {peer});
  const AccessList::Entry* who = list.Find(peer.public_key);
  ASSERT_NE(who, nullptr);
  const ClientId client = "watch/1";
  ToBroker hello;
  hello.messages.emplace_back(Hello{.nonce = 1, .name = client});
  core_.Receive(client, std::move(hello), 0, who);
  ToBroker envelope;
  envelope.session = std::get<Welcome>(core_.TakeOutput().at(0).envelope.messages.at(0)).session;
  for (int i = 0; i < 100; ++i) envelope.messages.emplace_back(Request{++next_id_, OnePut(i)});
  core_.Receive(client, std::move(envelope), 1, who);
  const auto errors = [this] {
    std::size_t count = 0;
    for (const auto& delivery : core_.TakeOutput()) count += delivery.envelope.messages.size();
    return count;
  };
  constexpr std::size_t kOfATurn =
      kTurnCost / (2 * 2);  // each is a refused Put of one tuple, which costs twice as much
  EXPECT_EQ(errors(), kOfATurn);
  core_.Tick(1);
  EXPECT_EQ(errors(), kOfATurn);
  for (std::size_t left = 100 - 2 * kOfATurn; left > 0; left -= kOfATurn) core_.Tick(1);
  EXPECT_EQ(core_.GetStatistics().counters.refused_requests, 100u);
  EXPECT_EQ(core_.GetStatistics().tuples, 0u);
}

TEST_F(FairBroker, WhatReadsExamineCountsForTheTurn) {
  constexpr int kTuples = 200;
  for (int i = 0; i < kTuples; i += 5) {
    Puts("honest", 5);
    core_.Tick(1);
  }
  ASSERT_EQ(core_.GetStatistics().tuples, kTuples);
  core_.TakeOutput();
  Read read{{Pattern{{FieldPattern::Any(), FieldPattern::Exact("none")}, true}}};
  read.wait_us = 0;
  ToBroker envelope;
  envelope.session = sessions_["flood"];
  for (int i = 0; i < 5; ++i) envelope.messages.emplace_back(Request{++next_id_, read});
  const auto answered = [this] {
    std::size_t count = 0;
    for (const auto& delivery : core_.TakeOutput()) count += delivery.envelope.messages.size();
    return count;
  };
  core_.Tick(1);
  core_.Receive("flood", std::move(envelope), 1);
  // Each claims a cost of two, but looks at all tuples.
  EXPECT_EQ(answered(), 1u);
  for (int i = 1; i < 5; ++i) {
    core_.Tick(1);
    EXPECT_EQ(answered(), 1u);
  }
}

TEST_F(FairBroker, WhatAListLooksAtIsOfTheTurn) {
  constexpr int kTuples = 200;
  for (int i = 0; i < kTuples; i += 5) {
    Puts("honest", 5);
    core_.Tick(1);
  }
  core_.TakeOutput();
  ToBroker envelope;
  envelope.session = sessions_["flood"];
  for (int i = 0; i < 4; ++i) {
    List list{{{FieldPattern::Any()}, true}};
    list.limit = kTuples;
    envelope.messages.emplace_back(Request{++next_id_, list});
  }
  core_.Tick(1);
  core_.Receive("flood", std::move(envelope), 1);
  for (int i = 0; i < 4; ++i) {
    std::size_t answered = 0;
    for (const auto& delivery : core_.TakeOutput()) answered += delivery.envelope.messages.size();
    EXPECT_EQ(answered, 1u) << i;
    core_.Tick(1);
  }
}

TEST_F(FairBroker, ARequestThatCostsMoreThanATurnIsServed) {
  Put put;
  for (int i = 0; i < 50; ++i) {
    put.tuples.push_back(OnePut(1000 + i).tuples[0]);
  }
  ToBroker envelope;
  envelope.session = sessions_["honest"];
  envelope.messages.emplace_back(Request{++next_id_, put});
  core_.Receive("honest", std::move(envelope), 1);
  EXPECT_EQ(core_.GetStatistics().tuples, 50u);
}

// A Hold names only one tuple, but moves all tasks that prefer the tuple's holders.
TEST_F(FairBroker, WhatMovesManyTasksEndsTheTurn) {
  constexpr std::int64_t kTasks = 4 * kTurnCost;
  const Key tile{"tile", 1};
  Put put;
  put.tuples.push_back({.key = tile, .payload = Payload::Copy("x"), .task = {}});
  for (std::int64_t i = 0; i < kTasks; ++i) {
    Tuple& task = put.tuples.emplace_back(Tuple{.key = Key{"task", i}, .payload = {}, .task = {}});
    task.task = TaskSpec{.inputs = {tile}, .affinity = 0};
  }
  core_.Receive("honest", To(sessions_["honest"], Request{++next_id_, std::move(put)}), 1);
  core_.Tick(1);
  ASSERT_EQ(core_.GetStatistics().tasks_ready, static_cast<std::uint64_t>(kTasks));
  Answered();
  ToBroker envelope;
  envelope.session = sessions_["flood"];
  for (int i = 0; i < 4; ++i) {
    envelope.messages.emplace_back(
        Request{++next_id_, i % 2 == 0 ? Hold{{tile}, {}} : Hold{{}, {tile}}});
  }
  core_.Receive("flood", std::move(envelope), 1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Answered()["flood"], 1u) << i;
    core_.Tick(1);
  }
}

// ---- bytes of waiting requests ------------------------------------------------------------------

class WaitingBytes : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 10'000;  // of each payload
  WaitingBytes() : core_(Options()) {
    for (const char* client : {"flood", "honest"}) sessions_[client] = JoinCore(core_, client, 0);
  }
  static BrokerCoreOptions Options() {
    BrokerCoreOptions options;
    options.turn_cost = 10;
    options.waiting_bytes = 10 * kBytes;
    options.waiting_bytes_of_all = 15 * kBytes;
    return options;
  }
  ToBroker Envelope(const ClientId& client) const {
    ToBroker envelope;
    envelope.session = sessions_.at(client);
    return envelope;
  }
  void Puts(const ClientId& client, int count, const SharedRegion* region = nullptr) {
    static const auto bytes = std::make_shared<const std::string>(kBytes, 'x');
    ToBroker envelope = Envelope(client);
    for (int i = 0; i < count; ++i) {
      Put put = OnePut(static_cast<int>(++next_id_));
      put.tuples[0].payload = Payload(bytes, bytes->data(), bytes->size(), region);
      envelope.messages.emplace_back(Request{next_id_, std::move(put)});
    }
    core_.Receive(client, std::move(envelope), 1);
  }
  // The number of requests that the client is told to send again.
  std::size_t Busy(const ClientId& client) {
    std::size_t busy = 0;
    for (const auto& delivery : core_.TakeOutput()) {
      for (const BrokerMessage& message : delivery.envelope.messages) {
        const auto* reply = std::get_if<Reply>(&message);
        const auto* error = reply == nullptr ? nullptr : std::get_if<RequestError>(&reply->body);
        if (delivery.client != client || error == nullptr) continue;
        EXPECT_EQ(error->code, ErrorCode::kBusy);
        EXPECT_THAT(error->text, HasSubstr("the limits are 100000 for a client"));
        ++busy;
      }
    }
    return busy;
  }
  void ServeAll() {
    for (int i = 0; i < 1000; ++i) core_.Tick(1);
  }
  BrokerCore core_;
  std::map<ClientId, std::uint64_t> sessions_;
  RequestId next_id_ = 0;
};

TEST_F(WaitingBytes, WhoSendsMoreIsToldToSendItAgain) {
  Puts("flood", 50);  // five have their turn, and fewer than ten may wait
  const std::size_t busy = Busy("flood");
  EXPECT_GT(busy, 35u);
  EXPECT_LT(busy, 40u);
  // There is still room for requests that cannot be sent again later.
  core_.Receive("flood", To(sessions_["flood"], Request{++next_id_, Hold{{Key{"n", 1}}, {}}}), 1);
  EXPECT_TRUE(core_.Knows("flood"));
  EXPECT_EQ(Busy("flood"), 0u);
  ServeAll();
  EXPECT_EQ(core_.GetStatistics().tuples, 50 - busy);
  Puts("flood", 12);
  EXPECT_EQ(Busy("flood"), 0u) << "what was served takes no room any more";
}

TEST_F(WaitingBytes, OthersKeepTheirPart) {
  for (const char* client : {"more", "most"}) sessions_[client] = JoinCore(core_, client, 0);
  for (const char* client : {"flood", "more", "most"}) Puts(client, 50);
  core_.TakeOutput();
  Puts("honest", 5 + 3);
  EXPECT_EQ(Busy("honest"), 0u);
  core_.Lost("flood", "a test", 1);
  core_.Lost("more", "a test", 1);
  core_.Lost("most", "a test", 1);
  Puts("honest", 5);
  EXPECT_EQ(Busy("honest"), 0u) << "who is lost takes no room any more";
}

TEST_F(WaitingBytes, SharedMemoryIsTheClients) {
  const SharedRegion region;
  Puts("honest", 50, &region);
  EXPECT_EQ(Busy("honest"), 0u);
  ServeAll();
  EXPECT_EQ(core_.GetStatistics().tuples, 50u);
}

// A key takes more memory than its bytes.
TEST_F(WaitingBytes, ShortKeysCountWithWhatTheyTake) {
  constexpr std::size_t kKeys = 100;
  constexpr std::uint64_t kOfEach = kKeys * sizeof(Key);
  const Hold hold{{}, std::vector<Key>(kKeys, Key{""})};
  std::uint64_t sent = 0;
  while (core_.Knows("flood") && sent < 1000) {
    core_.Receive("flood", To(sessions_["flood"], Request{++next_id_, hold}), 1);
    ++sent;
  }
  EXPECT_LE(sent, 2 * Options().waiting_bytes / kOfEach + 2);
  Puts("honest", 5);  // its turn
  Put put = OnePut(1);
  TaskSpec& task = put.tuples[0].task.emplace();
  task.inputs.assign(kKeys, Key{""});
  task.results = task.inputs;
  task.not_by.assign(kKeys, ClientId());
  ToBroker envelope = Envelope("honest");
  constexpr std::uint64_t kPuts = 100;
  for (std::uint64_t i = 0; i < kPuts; ++i) {
    envelope.messages.emplace_back(Request{++next_id_, put});
  }
  core_.Receive("honest", std::move(envelope), 1);
  EXPECT_GE(Busy("honest"), kPuts - Options().waiting_bytes / (3 * kOfEach) - 1);
}

TEST_F(WaitingBytes, WhoSendsMoreOfWhatMustNotComeLaterIsLost) {
  Read read;
  read.patterns = {Pattern::Of(Key{std::string(200, 'r'), std::string(200, 'r')})};
  for (int i = 0; i < 1000 && core_.Knows("flood"); ++i) {
    core_.Receive("flood", To(sessions_["flood"], Request{++next_id_, read}), 1);
  }
  EXPECT_FALSE(core_.Knows("flood"));
  EXPECT_THAT(core_.TakeLog().back(), HasSubstr("faster than it can be served"));
}

}  // namespace
}  // namespace tuplespace
