// Limits on all clients of one key together, and on what is logged about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "broker_core.h"
#include "session_messages.h"

namespace tuplespace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ClientsOfAKey, AreLimited) {
  const Role role{"worker", {Rule{{Operation::kRead}, {{FieldPattern::Any()}, true}, {}}}};
  const AccessList list({role}, {{"one", std::string(40, 'a'), "worker"},
                                 {"another", std::string(40, 'b'), "worker"}});
  BrokerCoreOptions options;
  options.clients_per_key = 2;
  BrokerCore core(options);
  const auto join = [&](const ClientId& client, char key) {
    ToBroker hello;
    hello.messages.emplace_back(Hello{.nonce = 1, .name = client});
    core.Receive(client, std::move(hello), 0, list.Find(std::string(40, key)));
    return core.TakeOutput().at(0).envelope.messages.at(0);
  };
  for (const char* client : {"a1", "a2", "b1"}) join(client, client[0]);
  const BrokerMessage answer = join("a3", 'a');
  const auto* error = std::get_if<RequestError>(&answer);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, ErrorCode::kBusy);
  EXPECT_THAT(error->text, HasSubstr("2 clients with the key \"one\""));
  EXPECT_FALSE(core.Knows("a3"));
  EXPECT_THAT(core.TakeLog(), Contains(AllOf(HasSubstr("a3"), HasSubstr("is not admitted: 2 "))));
  join("a3", 'a');
  EXPECT_THAT(core.TakeLog(), ElementsAre()) << "it tries again and again";
  join("b2", 'b');
  EXPECT_TRUE(core.Knows("b2"));
  core.Lost("a1", "a test", 0);
  core.TakeOutput();
  join("a3", 'a');
  EXPECT_TRUE(core.Knows("a3"));
}

class LogOfAKey : public ::testing::Test {
 protected:
  void Join(const std::string& key, std::int64_t now_us) {
    const ClientId id = key + "/" + std::to_string(++count_);
    ToBroker hello;
    hello.messages.emplace_back(Hello{.nonce = 1, .name = "x"});
    core_.Receive(id, std::move(hello), now_us, list_.Find(std::string(40, key[0])));
    const std::uint64_t session = core_.TakeOutput().at(0).envelope.session;
    ToBroker forbidden;
    forbidden.session = session;
    Tuple tuple;
    tuple.key = {"data", 1};
    forbidden.messages.emplace_back(Request{1, Put{{std::move(tuple)}}});
    core_.Receive(id, std::move(forbidden), now_us, list_.Find(std::string(40, key[0])));
    core_.ReceiveBad(id, {ErrorCode::kBadRequest, "garbage"}, now_us);
    core_.Lost(id, "a test", now_us);
    core_.TakeOutput();
    core_.TakeEnded();
  }

  const Role role_{"worker", {Rule{{Operation::kRead}, {{FieldPattern::Any()}, true}, {}}}};
  const AccessList list_{
      {role_},
      {{"evil", std::string(40, 'e'), "worker"}, {"honest", std::string(40, 'h'), "worker"}}};
  BrokerCore core_{BrokerCoreOptions{}};
  int count_ = 0;
};

// Each new id of a key would have lines of its own.
TEST_F(LogOfAKey, IsLimitedWhateverIdsItsClientsUse) {
  constexpr std::int64_t kSeconds = 100;
  for (std::int64_t i = 0; i < 100 * kSeconds; ++i) Join("evil", i * 10'000);
  const std::size_t lines = core_.TakeLog().size();
  EXPECT_LE(lines, LogQuota::kLines + kSeconds + 2 * (kSeconds / 10 + 1));
  Join("honest", kSeconds * 1'000'000);
  EXPECT_THAT(core_.TakeLog(),
              ElementsAre(HasSubstr("joined"), HasSubstr("may not put"), HasSubstr("a bad message"),
                          HasSubstr("is lost: a test")));
  Join("evil", kSeconds * 2'000'000);
  EXPECT_THAT(core_.TakeLog(),
              Contains(AllOf(HasSubstr("evil/"), HasSubstr("lines about clients of \"evil\""))));
}

class KeysThatJudgeApart : public ::testing::Test {
 protected:
  // A client of each key joins and puts a task.
  KeysThatJudgeApart() {
    role_.limits.judges_apart = true;
    role_.limited_rules = role_.rules;
    const AccessList list = ListOf(peers_);
    for (const AllowedPeer& peer : peers_) {
      const AccessList::Entry* who = list.Find(peer.public_key);
      const ClientId client = peer.name + "/1";
      ToBroker hello;
      hello.messages.emplace_back(Hello{.nonce = 1, .name = "x"});
      core_.Receive(client, std::move(hello), 0, who);
      ToBroker put;
      put.session = core_.TakeOutput().at(0).envelope.session;
      Tuple tuple;
      tuple.key = {peer.name, 1};
      tuple.task.emplace();
      put.messages.emplace_back(Request{1, Put{{std::move(tuple)}}});
      core_.Receive(client, std::move(put), 0, who);
      core_.TakeOutput();
    }
    core_.SendAwayOthers(list, 0);
    EXPECT_EQ(core_.GetStatistics().tuples, 2u);
  }
  AccessList ListOf(const std::vector<AllowedPeer>& peers) const {
    Role other = role_;
    other.name = "other";
    return AccessList({role_, other}, peers);
  }
  // Of the key "one", because the list becomes this one.
  void ExpectNothingIsLeft(const std::vector<AllowedPeer>& peers) {
    core_.SendAwayOthers(ListOf(peers), 0);
    EXPECT_EQ(core_.GetStatistics().tuples, 1u);
    EXPECT_FALSE(core_.Knows("one/1"));
    EXPECT_TRUE(core_.Knows("two/1"));
  }

  Role role_{"manager", {Rule{{Operation::kPutTask}, {{FieldPattern::Any()}, true}, {}}}};
  std::vector<AllowedPeer> peers_ = {{"one", std::string(40, 'a'), "manager"},
                                     {"two", std::string(40, 'b'), "manager"}};
  BrokerCore core_{BrokerCoreOptions{}};
};

// A key may have been revoked because of its tasks.
TEST_F(KeysThatJudgeApart, LeaveNoTasksWhenTheyEnd) {
  ExpectNothingIsLeft({peers_[1]});
}

// It could not remove them any more.
TEST_F(KeysThatJudgeApart, LeaveNoTasksWhenTheirLimitChanges) {
  peers_[0].limit = "77";
  ExpectNothingIsLeft(peers_);
}

TEST_F(KeysThatJudgeApart, LeaveNoTasksWhenTheirRoleChanges) {
  peers_[0].role = "other";
  ExpectNothingIsLeft(peers_);
}

}  // namespace
}  // namespace tuplespace
