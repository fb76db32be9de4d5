// A client's requests to a broker, and the events that end its waits, over one transport.
#include <gmock/gmock.h>

#include <atomic>
#include <optional>
#include <thread>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ClientBroker, WaitsEndWhenTheirTimeIsOver) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  Client client(ClientAt(broker.endpoint()));
  EXPECT_FALSE(client.ReadOne(AnyOf("never"), milliseconds(5)));
  EXPECT_TRUE(client.ReadAll({AnyOf("never"), AnyOf("ever")}, milliseconds(5)).empty());
  Get get;
  get.pattern = AnyOf("never");
  EXPECT_TRUE(client.GetSome(get, milliseconds(5)).empty());
  EXPECT_FALSE(client.Take(AnyOf("never"), milliseconds(0)));
  EXPECT_EQ(client.unanswered(), 0u);
  const auto stats = client.GetStatistics();
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->open_reads, 0u);
  EXPECT_EQ(stats->open_gets, 0u);
  EXPECT_EQ(stats->clients, 1u);
}

TEST(ClientBroker, WithoutABrokerABlockingCallGivesUp) {
  TemporaryFolder folder;
  Client client(ClientAt(folder.Ipc()));
  EXPECT_FALSE(client.Put({PlainTuple({"a"}, "b")}, milliseconds(5)));
  EXPECT_FALSE(client.GetStatistics(milliseconds(5)));
  EXPECT_EQ(client.unanswered(), 0u);
  EXPECT_FALSE(client.connected());
}

// A process computes, or is stopped, for longer than the broker waits. Its requests do not fit into
// its channel, which the broker no longer reads.
TEST(ClientBroker, WhoWasSilentForTooLongJoinsAgain) {
  TemporaryFolder folder;
  BrokerOptions options = BrokerThread::Options(folder.Ipc());
  options.client_silence_us = 500'000;
  BrokerThread broker(options);
  Client paused(ClientAt(broker.endpoint()));
  ASSERT_TRUE(paused.Put({PlainTuple({"a"}, "before")}));
  Client other(ClientAt(broker.endpoint()));
  ASSERT_TRUE(PollUntil(other, [&] {
    const auto stats = other.GetStatistics();
    return stats && stats->clients == 1;
  }));
  int answered = 0;
  constexpr int kRequests = 1000;
  for (int i = 0; i < kRequests; ++i) {
    Put put;
    put.tuples.push_back(PlainTuple({"b", i}, std::string(2000, 'b')));
    paused.Submit(std::move(put), [&](ReplyBody&& reply) {
      answered += std::get<PutReply>(reply).status == std::vector{PutStatus::kStored};
    });
  }
  paused.Flush();  // before it checks for messages
  EXPECT_TRUE(PollUntil(paused, [&] { return paused.unanswered() == 0; }));
  EXPECT_EQ(answered, kRequests);
}

TEST(ClientBroker, AnInterruptEndsABlockingCallThatWaitsForABroker) {
  const TemporaryFolder folder;
  Client client(ClientAt(folder.Ipc()));
  struct Stopped {};
  std::atomic<bool> stop{false};
  std::thread stopper;
  client.SetInterrupt([&] {
    if (stop) throw Stopped{};
    // The call waits, or is about to wait.
    if (stopper.joinable()) return;
    stopper = std::thread([&] {
      stop = true;
      client.Wake();
    });
  });
  EXPECT_THROW(client.ReadOne(AnyOf("nothing")), Stopped);
  stopper.join();
  EXPECT_EQ(client.unanswered(), 0u);
  EXPECT_THROW(client.CountOf(AnyOf("nothing"), milliseconds(1)), Stopped);
  client.SetInterrupt(nullptr);
  EXPECT_FALSE(client.CountOf(AnyOf("nothing"), milliseconds(1)));
}

TEST(ClientBroker, ABrokerThatIsStartedAgainElsewhereIsFound) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  auto broker = std::make_unique<BrokerThread>(here.Ipc());
  Client client(ClientAt(here.Ipc() + "," + there.Ipc()));
  ASSERT_TRUE(client.Put({PlainTuple({"a"}, "old")}));
  EXPECT_EQ(client.endpoint(), here.Ipc());
  const std::uint64_t first_life = client.broker_life();
  EXPECT_NE(first_life, 0u);
  std::optional<std::string> read;
  client.Submit(Read{{AnyOf("b")}, true, false, kForeverUs},
                [&](ReplyBody&& reply) { read = std::get<Found>(reply).tuples[0].payload.text(); });
  ASSERT_EQ(client.CountOf(AnyOf("b")), 0u);  // the Read is open at the broker
  broker.reset();
  broker = std::make_unique<BrokerThread>(there.Ipc());
  Client other(ClientAt(there.Ipc()));
  ASSERT_TRUE(other.Put({PlainTuple({"b"}, "new")}));
  ASSERT_TRUE(PollUntil(client, [&] { return read.has_value(); }));  // the client sent it again
  EXPECT_EQ(*read, "new");
  EXPECT_EQ(client.endpoint(), there.Ipc());
  EXPECT_EQ(client.CountOf(AnyOf("a")), 0u);  // another space
  EXPECT_NE(client.broker_life(), first_life);
  // Now the other way round.
  broker.reset();
  broker = std::make_unique<BrokerThread>(here.Ipc());
  ASSERT_TRUE(client.Put({PlainTuple({"c"}, "back")}));
  EXPECT_EQ(client.endpoint(), here.Ipc());
}

TEST(ClientBroker, WhatAnAbandonedGetIsGrantedGoesBack) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  Client client(ClientAt(broker.endpoint()));
  Get get;
  get.pattern = AnyOf("task");
  const RequestId id = client.Submit(get, [](ReplyBody&&) { FAIL() << "it was abandoned"; });
  ASSERT_TRUE(client.CountOf(AnyOf("task")));  // the Get is open at the broker
  Client other(ClientAt(broker.endpoint()));
  ASSERT_TRUE(other.Put({TaskTuple({"task", 1}, "x")}));  // and granted at once
  client.Abandon(id);
  ASSERT_TRUE(PollUntil(client, [&] {
    const auto stats = client.GetStatistics();
    return stats && stats->tasks_ready == 1;
  }));
  EXPECT_EQ(other.GetSome(get).size(), 1u);
}

TEST(ClientBroker, AReplacedGetIsAnsweredOnce) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  Client client(ClientAt(broker.endpoint()));
  Get get;
  get.pattern = AnyOf("task");
  get.offer_bytes = 10;
  std::vector<std::size_t> answers;
  const RequestId id = client.Submit(
      get, [&](ReplyBody&& reply) { answers.push_back(std::get<Grants>(reply).grants.size()); });
  Client other(ClientAt(broker.endpoint()));
  Tuple big = TaskTuple({"task", 1}, "x");
  big.task->need_bytes = 100;
  ASSERT_TRUE(other.Put({big}));
  ASSERT_TRUE(client.CountOf(AnyOf("task")));
  EXPECT_TRUE(answers.empty());  // the task does not fit
  get.offer_bytes = 200;
  client.Replace(id, get);
  ASSERT_TRUE(PollUntil(client, [&] { return !answers.empty(); }));
  EXPECT_THAT(answers, ElementsAre(1u));
  // Nothing stays open: a second task is not granted to this Get.
  big.key = Key{"task", 2};
  ASSERT_TRUE(other.Put({big}));
  ASSERT_TRUE(PollUntil(client, [&] { return client.GetStatistics()->open_gets == 0; }));
  EXPECT_EQ(other.GetSome(get).size(), 1u);
}

TEST(ClientBroker, BadRequestsAreAnsweredWithTheReason) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  Client client(ClientAt(broker.endpoint()));
  try {
    client.Put({PlainTuple(Key{}, "no key")});
    FAIL() << "the empty key was accepted";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadRequest);
    EXPECT_THAT(error.what(), HasSubstr("key"));
  }
  Pattern too_long;
  too_long.fields.assign(17, FieldPattern::Any());
  EXPECT_THROW(client.ReadOne(too_long), SpaceError);
  EXPECT_TRUE(client.Put({PlainTuple({"good"}, "still works")}));
  EXPECT_GE(client.GetStatistics()->counters.bad_requests, 2u);
}

TEST(ClientBroker, TooLargePayloadsAreRefusedByName) {
  TemporaryFolder folder;
  BrokerOptions options = BrokerThread::Options(folder.Ipc());
  options.limits.message_bytes = 10'000;
  BrokerThread broker(options);
  Client client(ClientAt(broker.endpoint()));
  ASSERT_TRUE(client.Put({PlainTuple({"fits"}, Repeated(10'000, 'f'))}));
  try {
    client.Put({PlainTuple({"too", "large"}, Repeated(10'001, 'l'))});
    FAIL() << "10001 bytes were accepted";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_THAT(error.what(), HasSubstr("10001"));
    EXPECT_THAT(error.what(), HasSubstr("message_bytes"));
  }
  EXPECT_TRUE(client.connected());
}

TEST(ClientBroker, BusyIsRetriedUntilThereIsRoom) {
  TemporaryFolder folder;
  BrokerOptions options = BrokerThread::Options(folder.Ipc());
  options.limits.tuples = 2;
  BrokerThread broker(options);
  Client client(ClientAt(broker.endpoint()));
  ASSERT_TRUE(client.Put({PlainTuple({"a", 1}, "x"), PlainTuple({"a", 2}, "x")}));
  bool stored = false;
  client.Submit(Put{{PlainTuple({"b", 1}, "waits")}},
                [&](ReplyBody&& reply) { stored = std::holds_alternative<PutReply>(reply); });
  ASSERT_TRUE(PollUntil(client, [&] { return client.GetStatistics()->counters.busy >= 3; }));
  EXPECT_FALSE(stored);
  ASSERT_TRUE(client.Take(AnyOf("a")));
  ASSERT_TRUE(PollUntil(client, [&] { return stored; }));
}

TEST(ClientBroker, WhatIsKeptForResendingIsLimited) {
  TemporaryFolder folder;
  ClientOptions options = ClientAt(folder.Ipc());
  options.unanswered_bytes = 100'000;
  Client client(options);
  client.Submit(Put{{PlainTuple({"a"}, Repeated(90'000, 'a'))}}, nullptr);
  EXPECT_THROW(client.Submit(Put{{PlainTuple({"b"}, Repeated(90'000, 'b'))}}, nullptr), SpaceError);
  BrokerThread broker(folder.Ipc());
  ASSERT_TRUE(PollUntil(client, [&] { return client.unanswered() == 0; }));
  client.Submit(Put{{PlainTuple({"b"}, Repeated(90'000, 'b'))}}, nullptr);
  ASSERT_TRUE(PollUntil(client, [&] { return client.unanswered() == 0; }));
}

TEST(ClientBroker, NoticesReachTheirOwner) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  Client owner(ClientAt(broker.endpoint(), "owner"));
  Client liar(ClientAt(broker.endpoint(), "liar"));
  std::optional<Notice> notice;
  owner.OnNotice([&](Notice&& one) { notice = std::move(one); });
  ASSERT_TRUE(owner.Put({PlainTuple({"k", 1}, "truth")}));
  ASSERT_TRUE(liar.Put({PlainTuple({"k", 1}, "lie")}));
  ASSERT_TRUE(PollUntil(owner, [&] { return notice.has_value(); }));
  EXPECT_EQ(notice->kind, Notice::Kind::kConflict);
  EXPECT_EQ(notice->key, (Key{"k", 1}));
  EXPECT_EQ(notice->by, "liar");
}

TEST(ClientBroker, WakeAndDescriptorsEndAPoll) {
  TemporaryFolder folder;
  Client client(ClientAt(folder.Ipc()));
  std::thread waker([&] { client.Wake(); });
  EXPECT_EQ(client.Poll(kGenerous), 0);
  waker.join();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(client.Poll(kGenerous, ends[0]), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(ClientBroker, TwoProcessesWithOneIdTakeTurns) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  Client first(ClientAt(broker.endpoint(), "same"));
  ASSERT_TRUE(first.Put({PlainTuple({"a"}, "1")}));
  {
    Client second(ClientAt(broker.endpoint(), "same"));
    ASSERT_TRUE(second.Put({PlainTuple({"b"}, "2")}));
  }
  EXPECT_TRUE(first.Put({PlainTuple({"c"}, "3")}));
  EXPECT_THAT(broker.Log(), HasSubstr("joined again"));
}

TEST(ClientBroker, ManyClientsAtOnce) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  constexpr int kClients = 8;
  constexpr int kEach = 200;
  std::vector<std::thread> threads;
  std::atomic<int> taken{0};
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      Client client(ClientAt(broker.endpoint()));
      for (int i = 0; i < kEach; ++i) {
        if (!client.Put({PlainTuple({"n", c, i}, Repeated(700, 'm'))})) return;
      }
      for (int i = 0; i < kEach; ++i) {
        if (client.Take(AnyOf("n"))) ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, kClients * kEach);
  EXPECT_EQ(broker.Join().tuples, 0u);
}

TEST(ClientBroker, BadClientOptionsAreRefused) {
  EXPECT_THROW(Client(ClientAt("http://x")), std::invalid_argument);
  EXPECT_THROW(Client(ClientAt("tcp://127.0.0.1")), std::invalid_argument);
  EXPECT_THROW(Client(ClientAt("tcp://127.0.0.1:99999")), std::invalid_argument);
  EXPECT_THROW(Client(ClientAt("ipc://" + std::string(108, 'p'))), std::invalid_argument);
  EXPECT_THROW(Client(ClientAt("ipc:///tmp/x", std::string(65, 'i'))), std::invalid_argument);
  EXPECT_THROW(Client(ClientAt("ipc:///tmp/x", std::string(1, '\0'))), std::invalid_argument);
}

}  // namespace
}  // namespace tuplespace
