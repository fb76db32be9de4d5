// A broker that checks payloads against the hashes that their producers send.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

Tuple WithWrongHash(const Key& key) {
  Tuple tuple = PlainTuple(key, "bytes");
  tuple.payload = std::move(tuple.payload).WithHash(HashOf(Payload::Copy("others").bytes()));
  return tuple;
}

TEST(BrokerThatChecksPayloads, RefusesWhatIsNotWhatItsProducerSaid) {
  BrokerOptions options;
  options.listen = {"tcp://127.0.0.1:*"};
  options.check_payloads = true;
  BrokerThread broker(options);
  Client client(ClientAt(broker.endpoint(), "producer"));
  try {
    client.Put({WithWrongHash({"wrong"})}, kGenerous);
    ADD_FAILURE() << "it was stored";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDamaged) << error.what();
  }
  EXPECT_TRUE(client.Put({PlainTuple({"right"}, "bytes")}, kGenerous));
  EXPECT_EQ(client.GetStatistics()->tuples, 1u);
}

TEST(BrokerThatChecksPayloads, IsNotTheDefault) {
  BrokerOptions options;
  options.listen = {"tcp://127.0.0.1:*"};
  BrokerThread broker(options);
  Client client(ClientAt(broker.endpoint(), "producer"));
  EXPECT_TRUE(client.Put({WithWrongHash({"wrong"})}, kGenerous));
  EXPECT_EQ(client.GetStatistics()->tuples, 1u);
}

// ---- only what clients with some role put -------------------------------------------------------

class BrokerThatChecksARole : public ::testing::Test {
 protected:
  BrokerThatChecksARole() {
    const Pattern everything{{FieldPattern::Any()}, true};
    const Role trusted{
        "trusted",
        {Rule{{Operation::kRead, Operation::kPut, Operation::kPutTask}, everything, {}}}};
    Role checked{"checked",
                 {Rule{{Operation::kRead, Operation::kPut, Operation::kGet, Operation::kComplete},
                       everything,
                       {}}}};
    checked.limits.checks_payloads = true;
    BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
    options.access = BrokerAccess{broker_keys_,
                                  {trusted, checked},
                                  {{"m", keys_.public_key, "trusted"},
                                   {"v", good_keys_.public_key, "checked"},
                                   {"w", bad_keys_.public_key, "checked"}}};
    broker_.emplace(std::move(options));
  }
  ClientOptions As(const std::string& name, const KeyPair& keys) const {
    ClientOptions options = ClientAt(broker_->endpoint());
    options.access = {name, keys, broker_keys_.public_key};
    return options;
  }
  template <typename Action>
  static void ExpectDamaged(Action action) {
    try {
      action();
      ADD_FAILURE() << "it was stored";
    } catch (const SpaceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDamaged) << error.what();
    }
  }

  const KeyPair broker_keys_ = MakeKeyPair();
  const KeyPair keys_ = MakeKeyPair(), good_keys_ = MakeKeyPair(), bad_keys_ = MakeKeyPair();
  std::optional<BrokerThread> broker_;
};

TEST_F(BrokerThatChecksARole, OnlyItsClientsAreRefused) {
  Client master(As("m", keys_)), worker(As("w", bad_keys_));
  ExpectDamaged([&] { worker.Put({WithWrongHash({"wrong", 1})}, kGenerous); });
  EXPECT_TRUE(master.Put({WithWrongHash({"wrong", 1})}, kGenerous));
  EXPECT_EQ(master.GetStatistics()->tuples, 1u);
}

// Nobody could read such a result, and an audit that compares hashes would pass it.
TEST_F(BrokerThatChecksARole, WhoCompletesATaskWithWrongBytesHasFailedItAndIsNamed) {
  Client master(As("m", keys_)), good(As("v", good_keys_)), bad(As("w", bad_keys_));
  std::vector<Notice> notices;
  master.OnNotice([&](Notice&& notice) { notices.push_back(std::move(notice)); });
  Tuple task = TaskTuple({"task", 1}, "work");
  task.task->results = {Key{"r", 1}};
  task.task->lease_us = 600'000'000;  // longer than the test waits
  ASSERT_TRUE(master.Put({task}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  const std::vector<Grant> grants = bad.GetSome(get, kGenerous);
  ASSERT_EQ(grants.size(), 1u);
  std::vector<Grant> granted;
  good.Submit(get, [&](ReplyBody&& reply) { granted = std::get<Grants>(reply).grants; });
  ASSERT_TRUE(good.GetStatistics(kGenerous)) << "the space knows that it waits";
  ExpectDamaged([&] {
    bad.CompleteTask({grants[0].key, grants[0].fence}, {WithWrongHash({"r", 1})}, kGenerous);
  });
  ASSERT_TRUE(PollUntil(good, [&] { return !granted.empty(); }));
  const auto completed = good.CompleteTask({granted[0].key, granted[0].fence},
                                           {PlainTuple({"r", 1}, "bytes")}, kGenerous);
  ASSERT_TRUE(completed);
  EXPECT_EQ(completed->lease, LeaseStatus::kOk);
  ASSERT_TRUE(PollUntil(master, [&] { return !notices.empty(); }));
  EXPECT_EQ(notices[0].kind, Notice::Kind::kMistrusted);
  EXPECT_EQ(notices[0].by, bad.id());
}

}  // namespace
}  // namespace tuplespace
