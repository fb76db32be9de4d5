// The patterns of Gets: what they see, and how many there may be.
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "space_get.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using testing::GetTest;
using testing::Plain;
using testing::Task;
using testing::UpTo;

class GetPatternsTest : public GetTest {};

TEST_F(GetPatternsTest, DifferentPatternsSeeTheSameTupleOnce) {
  const RequestId wide = d->Send("a", GetOf({{}, true}));
  const RequestId narrow = d->Send("b", GetOf(Every("t"), 50));
  d->PutOne("m", Task(Key{"t", 1}, {}, 10));
  EXPECT_TRUE(d->ReplyTo("b", narrow));
  EXPECT_FALSE(d->ReplyTo("a", wide));
  d->PutOne("m", Task(Key{"t", 2}, {}, 10));
  EXPECT_TRUE(d->ReplyTo("a", wide));
  d->PutOne("m", Task(Key{"t", 3}, {}, 10));
  EXPECT_EQ(d->GetNow("a", {{}, true}).size(), 1u);
  EXPECT_EQ(NextKey("b"), Key());
}

TEST_F(GetPatternsTest, GetPatternsAreLimitedAndIdleOnesMakeRoom) {
  SpaceLimits limits;
  limits.get_patterns = 2;
  Begin(limits);
  for (int i = 0; i < 5; ++i) d->PutOne("m", Plain(Key{"k" + std::to_string(i), 1}));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(d->GetNow("a", Every("k" + std::to_string(i))).size(), 1u);
  }
  const RequestId first = d->Send("a", GetOf(Every("x")));
  d->Send("a", GetOf(Every("y")));
  const RequestError error = d->Ask<RequestError>("a", GetOf(Every("z")));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_NE(error.text.find("limits.get_patterns"), std::string::npos);
  d->Ask<Ok>("a", Cancel{first});
  const RequestId third = d->Send("a", GetOf(Every("z")));
  EXPECT_FALSE(d->ReplyTo("a", third));
  // A replacement may use the group of the Get that it replaces.
  d->Step(Incoming{"a", {third, GetOf(Every("w"))}});
  EXPECT_FALSE(d->ReplyTo("a", third));
}

TEST_F(GetPatternsTest, NobodyTakesThePatternsOfOthers) {
  ClientLimits limits;
  limits.get_patterns_of_key = 3;
  Begin({});
  d->Step(ClientJoined{"k/1", "k", limits});
  d->Step(ClientJoined{"k/2", "k", limits});
  d->PutOne("m", Plain(Key{"t", 1}));
  EXPECT_EQ(d->GetNow("a", Every("idle")).size(), 0u);
  // Patterns for which no Get waits make room for others of the key,
  for (int i = 0; i < 10; ++i) d->GetNow("k/1", UpTo("t", -i));
  // but patterns of waiting Gets do not, whichever client of the key they belong to.
  for (int i = 0; i < 3; ++i) d->Send(i == 0 ? "k/1" : "k/2", GetOf(UpTo("x", i)));
  const RequestError error = d->Ask<RequestError>("k/2", GetOf(UpTo("x", 3)));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_NE(error.text.find("limits.get_patterns_of_key: Gets of 3 different patterns of \"k\""),
            std::string::npos)
      << error.text;
  // A pattern that exists already may be used by every client.
  EXPECT_FALSE(d->ReplyTo("k/2", d->Send("k/2", GetOf(Every("idle")))));
  EXPECT_EQ(d->GetNow("b", UpTo("t", 5)).size(), 1u);
}

// For example, managers of one key each wait for the lead of another job.
TEST_F(GetPatternsTest, WholeKeysTakeNoRoomFromPatterns) {
  SpaceLimits of_space;
  of_space.get_patterns = 3;
  of_space.get_keys = 30;
  Begin(of_space);
  ClientLimits limits;
  limits.get_patterns_of_key = 2;
  limits.get_keys_of_key = 20;
  d->Step(ClientJoined{"k/1", "k", limits});
  const auto waits = [&](const ClientId& client, const Pattern& pattern) {
    const RequestId id = d->Send(client, GetOf(pattern));
    EXPECT_FALSE(d->ReplyTo(client, id)) << pattern.ToString();
    return id;
  };
  const auto busy = [&](const ClientId& client, const Pattern& pattern) {
    return d->Ask<RequestError>(client, GetOf(pattern)).text;
  };
  const auto key = [](int i) { return Pattern::Of(Key{"lead", i}); };
  RequestId last = 0;
  for (int i = 0; i < 20; ++i) last = waits("k/1", key(i));
  EXPECT_NE(busy("k/1", key(20)).find("limits.get_keys_of_key: Gets of 20 different keys of \"k\""),
            std::string::npos);
  for (int i = 0; i < 2; ++i) waits("k/1", UpTo("x", i));
  EXPECT_NE(busy("k/1", UpTo("x", 2)).find("limits.get_patterns_of_key"), std::string::npos);
  d->Ask<Ok>("k/1", Cancel{last});
  waits("k/1", key(20));
  for (int i = 30; i < 40; ++i) waits("a", key(i));
  EXPECT_NE(busy("a", key(40)).find("limits.get_keys: Gets of 30 different keys"),
            std::string::npos);
  waits("a", UpTo("x", 3));
  EXPECT_NE(busy("a", UpTo("x", 4)).find("limits.get_patterns: Gets of 3"), std::string::npos);
}

TEST_F(GetPatternsTest, WhoseNewPatternsMoveManyTuplesWaitsForTheNext) {
  SpaceLimits limits;
  limits.examined_by_get_us = 1000;  // which suffices for few tuples
  Begin(limits);
  constexpr int kTasks = 50;
  for (int i = 0; i < kTasks; ++i) d->PutOne("m", Task(Key{"t", i}, {}, 100));
  const auto get = [&](const ClientId& client, int i) {
    const RequestId id = d->Send(client, GetOf(UpTo("t", kTasks + i), 1, 0));
    const auto reply = d->ReplyTo(client, id);
    const auto* error = reply ? std::get_if<RequestError>(&*reply) : nullptr;
    return error != nullptr ? error->text : "";
  };
  EXPECT_EQ(get("a", 0), "");
  EXPECT_EQ(get("a", 1), "");
  const std::string busy = get("a", 2);
  EXPECT_NE(busy.find("limits.examined_by_get_us"), std::string::npos) << busy;
  EXPECT_NE(busy.find("in 100000 us"), std::string::npos) << busy;
  EXPECT_EQ(get("a", 1), "") << "it is known";
  EXPECT_EQ(get("b", 3), "") << "others have done nothing";
  d->Lose("a");
  d->Join("a");
  EXPECT_EQ(get("a", 2), busy) << "the debt is not forgotten with the client";
  d->Advance(99'999);
  EXPECT_NE(get("a", 2), "");
  d->Advance(1);
  EXPECT_EQ(get("a", 2), "");
}

TEST_F(GetPatternsTest, ANewPatternSeesWhatIsReadyAsThoseBeforeIt) {
  for (const char* client : {"a", "b"}) Introduce(client);
  Tuple named = Task(Key{"t", 1});
  named.task->prefers = "c";
  named.task->prefer_us = 1'000'000;
  Tuple not_by = Task(Key{"t", 2});
  not_by.task->not_by = {"c"};
  d->Ask<PutReply>("m", Put{{named, not_by, Plain(Key{"tile", 1}), Plain(Key{"t", 3})}});
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  d->PutOne("m", Task(Key{"t", 4}, {Key{"tile", 1}}, 0, 0));
  // A new pattern of a new client: from now on tasks that name the client are kept for it.
  EXPECT_EQ(d->GetNow("c", UpTo("t", 2), 1, 5).size(), 1u);
  const auto rest = d->GetNow("c", UpTo("t", 9), UINT64_MAX, 5);
  ASSERT_EQ(rest.size(), 1u) << "the other one is for others, and the last is kept for its holder";
  EXPECT_EQ(rest[0].key, (Key{"t", 3}));
  const auto own = d->GetNow("a", UpTo("t", 8), UINT64_MAX, 5);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0].key, (Key{"t", 4}));
  EXPECT_EQ(own[1].key, (Key{"t", 2}));
}

}  // namespace
}  // namespace tuplespace
