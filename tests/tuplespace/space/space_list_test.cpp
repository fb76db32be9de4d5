// What Lists may find, and how much memory they may take until they are complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "space_driver.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;
using testing::Plain;
using testing::SpaceDriver;

class ListTest : public ::testing::Test {
 protected:
  static constexpr int kTuples = 50;
  ListTest() {
    d.Join("m");
    for (int i = 0; i < kTuples; ++i) d.PutOne("m", Plain(Key{"k", i}, "x"));
  }
  static SpaceLimits InSlices() {
    SpaceLimits limits;
    limits.examined_at_once = 10;
    limits.examined_by_slice = 4;
    return limits;
  }
  void Join(const ClientId& client, const std::string& key, std::uint64_t listed_bytes_of_key) {
    ClientLimits limits;
    limits.listed_bytes_of_key = listed_bytes_of_key;
    d.Step(ClientJoined{client, key, limits});
  }
  RequestId SendList(const ClientId& client) {
    return d.Send(client, List{{{FieldPattern::Any()}, true}, 1000, true});
  }
  // Ticks until the request is answered.
  template <typename T>
  T After(const ClientId& client, RequestId id) {
    for (int ticks = 0; ticks < 1000; ++ticks) {
      if (auto reply = d.ReplyTo(client, id)) return std::get<T>(*reply);
      d.Advance(0);
    }
    ADD_FAILURE() << "never answered";
    return {};
  }
  std::size_t Listed(const ClientId& client, RequestId id) {
    const Found found = After<Found>(client, id);
    EXPECT_FALSE(found.truncated);
    return found.tuples.size();
  }
  SpaceDriver d{InSlices()};
};

TEST_F(ListTest, EndsAtTheLimitOfItsRole) {
  ClientLimits limits;
  limits.per_request = 5;
  d.Step(ClientJoined{"k/1", "k", limits});
  const Found found = After<Found>("k/1", SendList("k/1"));
  EXPECT_EQ(found.tuples.size(), 5u);
  EXPECT_TRUE(found.truncated);
}

// However many clients list at the same time, none of which is served before the others.
TEST_F(ListTest, AllUnfinishedOnesOfAKeyAreLimitedTogether) {
  constexpr std::uint64_t kBytes = sizeof(FoundTuple) * kTuples * 2;
  for (const char* client : {"k/1", "k/2"}) Join(client, "k", kBytes);
  Join("other/1", "other", kBytes);
  const RequestId first = SendList("k/1");
  const RequestId second = SendList("k/2");
  const RequestId of_other = SendList("other/1");
  const auto busy = After<RequestError>("k/1", first);
  EXPECT_EQ(busy.code, ErrorCode::kBusy);
  EXPECT_THAT(busy.text, HasSubstr("limits.listed_bytes_of_key"));
  EXPECT_EQ(Listed("k/2", second), 50u);
  EXPECT_EQ(Listed("other/1", of_other), 50u) << "another key has its own";
  EXPECT_EQ(Listed("k/1", SendList("k/1")), 50u) << "there is room again";
  SendList("k/1");
  d.Advance(0);
  d.Lose("k/1");
  EXPECT_EQ(Listed("k/2", SendList("k/2")), 50u) << "who is lost takes no room any more";
}

// It would be tried again and again.
TEST_F(ListTest, OneThatNeverHasRoomIsRefusedForGood) {
  Join("k/1", "k", sizeof(FoundTuple) * kTuples / 2);
  EXPECT_EQ(After<RequestError>("k/1", SendList("k/1")).code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace tuplespace
