// What all clients of one key together may use of a space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using ::testing::HasSubstr;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;
using testing::UpTo;

class KeyQuotaTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    d->Join("m");
  }
  // A client whose id is "key/number".
  void Join(const ClientId& client, const ClientLimits& limits) {
    d->Step(ClientJoined{client, client.substr(0, client.find('/')), limits});
  }

  std::unique_ptr<SpaceDriver> d;
};

// The space knows from the pattern that others could do a task.
TEST_F(KeyQuotaTest, APatternThatOthersUseIsNotRemovedByWhoBeganIt) {
  ClientLimits limits;
  limits.get_patterns_of_key = 2;
  SpaceLimits of_space;
  of_space.tasks_in_vain = 1;
  Begin(of_space);
  Join("evil/1", limits);
  Join("good/1", limits);
  for (int i = 0; i < 2; ++i) d->PutOne("m", Task(Key{"t", i}));
  EXPECT_EQ(d->GetNow("evil/1", Every("none")).size(), 0u);
  const LeaseRef lease = d->TakeNow("evil/1", Every("t"));
  EXPECT_EQ(d->GetNow("good/1", Every("t")).size(), 1u);  // it is busy with that task
  for (int i = 0; i < 3; ++i) EXPECT_EQ(d->GetNow("evil/1", UpTo("x", i)).size(), 0u);
  d->Ask<LeaseReply>("evil/1", Fail{lease, "it does not want to"});
  EXPECT_EQ(d->counters().benched, 1u);
  // A pattern that nobody else uses any more makes room again.
  d->Lose("good/1");
  for (int i = 3; i < 6; ++i) EXPECT_EQ(d->GetNow("evil/1", UpTo("x", i)).size(), 0u);
}

// Otherwise two keys could use all patterns that the space has.
TEST_F(KeyQuotaTest, APatternThatOthersUseStillCountsForWhoBeganIt) {
  ClientLimits limits;
  limits.get_patterns_of_key = 2;
  for (const char* client : {"evil/1", "evil/2"}) Join(client, limits);
  Join("friend/1", limits);
  std::vector<RequestId> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(d->Send("evil/1", GetOf(UpTo("x", i))));
    EXPECT_FALSE(d->ReplyTo("evil/1", open.back()));
    EXPECT_EQ(d->GetNow("friend/1", UpTo("x", i)).size(), 0u);
  }
  for (const char* client : {"evil/1", "evil/2"}) {
    const RequestError error = d->Ask<RequestError>(client, GetOf(UpTo("x", 2)));
    EXPECT_EQ(error.code, ErrorCode::kBusy);
    EXPECT_THAT(error.text, HasSubstr("limits.get_patterns_of_key"));
  }
  EXPECT_EQ(d->GetNow("friend/1", UpTo("x", 2)).size(), 0u) << "this one is not of its making";
  // It gets room again when nobody else uses a pattern for which it does not wait.
  d->Ask<Ok>("evil/1", Cancel{open[0]});
  EXPECT_EQ(d->Ask<RequestError>("evil/1", GetOf(UpTo("x", 3))).code, ErrorCode::kBusy);
  d->Lose("friend/1");
  EXPECT_FALSE(d->ReplyTo("evil/1", d->Send("evil/1", GetOf(UpTo("x", 3)))));
}

TEST_F(KeyQuotaTest, HoldsOfAllClientsOfAKeyAreLimitedTogether) {
  ClientLimits limits;
  limits.held_keys_of_key = 2;
  Join("k/1", limits);
  Join("k/2", limits);
  Join("other/1", limits);
  for (int i = 1; i <= 3; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  const auto held = [&] { return d->space.GetStatistics().held_keys; };
  d->Ask<Ok>("k/1", Hold{{Key{"tile", 1}}, {}});
  d->Ask<Ok>("k/2", Hold{{Key{"tile", 1}, Key{"tile", 2}, Key{"tile", 3}}, {}});
  EXPECT_EQ(held(), 2u);
  d->Ask<Ok>("other/1", Hold{{Key{"tile", 2}}, {}});
  EXPECT_EQ(held(), 3u) << "another key has its own";
  d->Ask<Ok>("k/2", Hold{{}, {Key{"tile", 1}}});
  d->Ask<Ok>("k/1", Hold{{Key{"tile", 3}, Key{"tile", 2}}, {}});
  EXPECT_EQ(held(), 3u) << "what is dropped makes room";
  d->Lose("k/1");
  d->Ask<RetireReply>("m", Retire{Every("tile"), false});
  EXPECT_EQ(held(), 0u);
  for (int i = 4; i <= 6; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("k/2", Hold{{Key{"tile", 4}, Key{"tile", 5}, Key{"tile", 6}}, {}});
  EXPECT_EQ(held(), 2u);
}

// Many clients of a key must not fill the space.
TEST_F(KeyQuotaTest, OwnTuplesOfAllClientsOfAKeyAreAPartOfTheSpace) {
  SpaceLimits of_space;
  of_space.tuples = 40;
  Begin(of_space);
  ClientLimits limits;
  limits.leaves_nothing = true;
  for (const char* client : {"k/1", "k/2"}) Join(client, limits);
  Join("other/1", limits);
  for (int i = 0; i < 8; ++i) d->PutOne("k/1", Plain(Key{"first", i}));
  for (int i = 0; i < 2; ++i) d->PutOne("k/2", Plain(Key{"second", i}));
  const auto more = [&](const ClientId& client) {
    return d->Ask<RequestError>(client, Put{{Plain(Key{"second", 9})}});
  };
  for (const char* client : {"k/1", "k/2"}) {
    EXPECT_EQ(more(client).code, ErrorCode::kBusy);
    EXPECT_THAT(more(client).text, HasSubstr("own tuples of all clients of this key"));
    EXPECT_THAT(more(client).text, HasSubstr("1 more with 10 there, at most 10"));
  }
  EXPECT_EQ(d->PutOne("other/1", Plain(Key{"third", 1})), PutStatus::kStored)
      << "another key has its own";
  d->Ask<RetireReply>("m", Retire{Pattern::Of(Key{"first", 0}), false});
  EXPECT_EQ(d->PutOne("k/2", Plain(Key{"second", 9})), PutStatus::kStored) << "there is room again";
  d->Lose("k/1");
  for (int i = 2; i < 9; ++i) {
    EXPECT_EQ(d->PutOne("k/2", Plain(Key{"second", i})), PutStatus::kStored);
  }
  EXPECT_EQ(more("k/2").code, ErrorCode::kBusy);
  std::vector<Tuple> too_many;
  for (int i = 0; i < 11; ++i) too_many.push_back(Plain(Key{"third", i}));
  EXPECT_EQ(d->Ask<RequestError>("other/1", Put{too_many}).code, ErrorCode::kTooLarge);
}

TEST_F(KeyQuotaTest, ManyClientsOfAKeyLeaveRoomForThePayloadsOfOthers) {
  constexpr std::size_t kKiB = 1024;
  SpaceLimits of_space;
  of_space.payload_bytes = 400 * kKiB;
  Begin(of_space);
  ClientLimits limits;
  limits.leaves_nothing = true;
  limits.own_payload_bytes = 50 * kKiB;
  int stored = 0;
  for (int i = 0; i < 8; ++i) {
    const ClientId client = "k/" + std::to_string(i);
    Join(client, limits);
    const Tuple probe = Plain(Key{"probe", client}, std::string(50 * kKiB, 'p'));
    const RequestId id = d->Send(client, Put{{probe}});
    const auto reply = d->ReplyTo(client, id);
    ASSERT_TRUE(reply);
    if (const auto* error = std::get_if<RequestError>(&*reply)) {
      EXPECT_EQ(error->code, ErrorCode::kBusy);
      EXPECT_THAT(error->text, HasSubstr("own payload bytes of all clients of this key"));
    } else {
      ++stored;
    }
  }
  EXPECT_EQ(stored, 2) << "a quarter of the space";
  EXPECT_EQ(d->PutOne("m", Plain(Key{"tile"}, std::string(300 * kKiB, 't'))), PutStatus::kStored);
}

}  // namespace
}  // namespace tuplespace
