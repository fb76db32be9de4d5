// Payloads that stay with a client go directly to their readers, over TCP, with and without keys.
#include <gmock/gmock.h>

#include <zmq.hpp>

#include "direct_fixture.h"
#include "room_for_threads.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

const Key kDirectTile{"open", 1};
constexpr std::uint64_t kBytes = 5'000'123;  // several pieces

class DirectTransfer : public DirectFixture {};

TEST_P(DirectTransfer, NoByteOfItPassesTheBroker) {
  const auto holder = Make("holder"), reader = Make("reader");
  const std::string payload = Repeated(kBytes, 3);
  Keep(*holder, kDirectTile, payload);
  const Stats before = StatsOf(*reader);
  const auto found = Fetch(*reader, {holder.get()}, {Named(kDirectTile)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload);
  EXPECT_EQ(found->hash, HashOf(found->payload.bytes()));
  EXPECT_FALSE(found->resident);
  const Stats after = StatsOf(*reader);
  EXPECT_EQ(after.counters.bytes_in, before.counters.bytes_in);
  EXPECT_EQ(after.counters.bytes_out, before.counters.bytes_out);
  EXPECT_EQ(after.counters.wanted, 0u);
  EXPECT_EQ(after.counters.placed, 1u);
  EXPECT_EQ(after.counters.placed_bytes, kBytes);
  EXPECT_EQ(reader->direct_counts().fetched_bytes, kBytes);
  EXPECT_TRUE(PollUntil(*holder, [&] { return holder->direct_counts().sent_bytes == kBytes; }));
}

TEST_P(DirectTransfer, AGrantNamesThePlaceOfAnInput) {
  const auto holder = Make("holder"), reader = Make("reader");
  const std::string payload = Repeated(kBytes, 4);
  Keep(*holder, kDirectTile, payload);
  ASSERT_TRUE(holder->Put({TaskTuple({"task", 1}, "work", {kDirectTile})}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  get.with_inputs = get.direct = true;
  const std::vector<Grant> grants = reader->GetSome(get, kGenerous);
  ASSERT_EQ(grants.size(), 1u);
  ASSERT_TRUE(grants[0].inputs.at(0).place);
  EXPECT_FALSE(grants[0].input_sent.at(0));
  const std::uint64_t requests = StatsOf(*reader).counters.requests;
  const auto found = Fetch(*reader, {holder.get()}, {grants[0].inputs[0]});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload);
  const Stats stats = StatsOf(*reader);
  EXPECT_EQ(stats.counters.requests, requests + 1) << "the broker was asked for this number only";
  EXPECT_EQ(stats.counters.wanted, 0u);
}

TEST_P(DirectTransfer, WhatWasSuppliedStillComesFromWhoHoldsIt) {
  const auto holder = Make("holder"), reader = Make("reader");
  const std::string payload = Repeated(kBytes, 9);
  Keep(*holder, kDirectTile, payload);
  Supply supply;
  supply.tuples.push_back({.key = kDirectTile, .payload = Payload::Copy(payload), .task = {}});
  supply.tuples[0].held = true;
  bool supplied = false;
  holder->Submit(std::move(supply), [&](ReplyBody&&) { supplied = true; });
  ASSERT_TRUE(PollUntil(*holder, [&] { return supplied; }));
  const Stats before = StatsOf(*reader);
  const auto found = Fetch(*reader, {holder.get()}, {Named(kDirectTile)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload);
  EXPECT_EQ(StatsOf(*reader).counters.bytes_out, before.counters.bytes_out);
  EXPECT_EQ(reader->direct_counts().fetched_bytes, kBytes);
  // The holder no longer has it, but the broker does.
  holder->OnAsked([](const Key&) { return Payload(); });
  const auto again = Fetch(*reader, {holder.get()}, {Named(kDirectTile)});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->payload.text(), payload);
  EXPECT_EQ(reader->direct_counts().failed_fetches, 1u);
}

TEST_P(DirectTransfer, WhoDoesNotAskForPlacesGetsItThroughTheBroker) {
  const auto holder = Make("holder"), reader = Make("reader", /*direct=*/false);
  const Payload kept = Payload::Copy(Repeated(kBytes, 5));
  Keep(*holder, kDirectTile, std::string(kept.text()));
  holder->OnNotice([&](Notice&& notice) {
    if (notice.kind != Notice::Kind::kWanted) return;
    Supply supply;
    supply.tuples.push_back({.key = kDirectTile, .payload = kept, .task = {}});
    holder->Submit(std::move(supply), [](ReplyBody&&) {});
  });
  const auto found = Fetch(*reader, {holder.get()}, {Named(kDirectTile)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), kept.text());
  EXPECT_EQ(StatsOf(*reader).counters.placed, 0u);
}

TEST_P(DirectTransfer, WhatIsNotWithAnyClientComesFromTheBroker) {
  const auto holder = Make("holder"), reader = Make("reader");
  Keep(*holder, kDirectTile, Repeated(kBytes, 6));
  holder->Put({PlainTuple({"open", 2}, "plain")}, kGenerous);
  std::optional<ReplyBody> answer;
  reader->ReadDirectly({Named({"open", 2}), Named(kDirectTile)}, 60'000'000,
                       [&](ReplyBody&& reply) { answer = std::move(reply); });
  while (!answer) {
    reader->Poll(std::chrono::milliseconds(1));
    holder->Poll(std::chrono::milliseconds(1));
  }
  const auto& found = std::get<Found>(*answer);
  ASSERT_EQ(found.tuples.size(), 2u);
  EXPECT_EQ(found.tuples[0].payload.text(), "plain");
  EXPECT_EQ(found.tuples[1].payload.size(), kBytes);
}

TEST_P(DirectTransfer, AWithdrawnPayloadIsReadThroughTheBroker) {
  const auto holder = Make("holder"), reader = Make("reader");
  Keep(*holder, kDirectTile, Repeated(kBytes, 7));
  holder->OnAsked([](const Key&) { return Payload(); });
  const auto found = Fetch(*reader, {holder.get()}, {Named(kDirectTile)}, /*wait_us=*/200'000);
  EXPECT_FALSE(found);  // nobody supplies it
  EXPECT_EQ(reader->direct_counts().failed_fetches, 1u);
  EXPECT_EQ(StatsOf(*reader).counters.wanted, 1u);
}

TEST_P(DirectTransfer, AReaderWithoutTheRightGetsNoPlace) {
  if (!GetParam()) GTEST_SKIP() << "roles need keys";
  const auto holder = Make("holder"), watcher = Make("watcher");
  const Key secret{"secret", 1};
  Keep(*holder, secret, Repeated(kBytes, 8));
  std::optional<ReplyBody> answer;
  watcher->ReadDirectly({Named(secret)}, 60'000'000,
                        [&](ReplyBody&& reply) { answer = std::move(reply); });
  ASSERT_TRUE(PollUntil(*watcher, [&] { return answer.has_value(); }));
  EXPECT_EQ(std::get<RequestError>(*answer).code, ErrorCode::kForbidden);
  EXPECT_EQ(StatsOf(*watcher).counters.placed, 0u);
}

TEST_P(DirectTransfer, ManyReadersAndPayloadsAtOnce) {
  const auto holder = Make("holder");
  holder->OnAsked([](const Key& key) {
    const auto number = std::get<std::int64_t>(key.Fields()[1]);
    return Payload::Copy(Repeated(300'000 + number, static_cast<char>(number)));
  });
  std::vector<Tuple> tuples;
  for (std::int64_t i = 0; i < 40; ++i) tuples.push_back(Staying({"open", i}, 300'000 + i));
  holder->Put(std::move(tuples), kGenerous);
  std::vector<std::unique_ptr<Client>> readers;
  for (const char* name : {"reader", "owner", "thief"}) readers.push_back(Make(name));
  std::size_t right = 0, answered = 0;
  for (auto& reader : readers) {
    for (std::int64_t i = 0; i < 40; ++i) {
      reader->ReadDirectly({Named({"open", i})}, 60'000'000, [&, i](ReplyBody&& reply) {
        ++answered;
        const auto* found = std::get_if<Found>(&reply);
        if (found == nullptr || found->tuples.size() != 1) return;
        right += found->tuples[0].payload.text() == Repeated(300'000 + i, static_cast<char>(i));
      });
    }
  }
  while (answered < 120) {
    for (auto& reader : readers) reader->Poll(std::chrono::milliseconds(1));
    holder->Poll(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(right, 120u);
  EXPECT_EQ(StatsOf(*holder).counters.wanted, 0u);
}

// All answers have arrived before the first handler runs.
TEST_P(DirectTransfer, AHandlerThatThrowsTakesNoOtherAnswerWithIt) {
  const auto holder = Make("holder"), reader = Make("reader");
  Keep(*holder, kDirectTile, Repeated(kBytes, 3));
  Read read{{Pattern::Of(kDirectTile)}};
  read.direct = true;
  std::vector<FoundTuple> placed;
  reader->Submit(std::move(read),
                 [&](ReplyBody&& reply) { placed = std::move(std::get<Found>(reply).tuples); });
  ASSERT_TRUE(PollUntil(*reader, [&] { return !placed.empty(); }));
  std::size_t answered = 0;
  for (int i = 0; i < 3; ++i) {
    reader->ReadDirectly(placed, 60'000'000, [&](ReplyBody&& reply) {
      EXPECT_TRUE(std::holds_alternative<Found>(reply));
      ++answered;
      throw std::runtime_error("of the program");
    });
  }
  ASSERT_TRUE(PollUntil(*holder, [&] { return reader->direct_counts().fetched_payloads == 3u; }));
  for (std::size_t i = 1; i <= 3; ++i) {
    EXPECT_THROW(reader->Poll(std::chrono::milliseconds(0)), std::runtime_error);
    EXPECT_EQ(answered, i);
  }
}

TEST_P(DirectTransfer, AReaderThatJoinsAgainGoesOn) {
  auto holder = Make("holder");
  const auto reader = Make("reader");
  const std::string payload = Repeated(kBytes, 9);
  Keep(*holder, kDirectTile, payload);
  ASSERT_TRUE(Fetch(*reader, {holder.get()}, {Named(kDirectTile)}));
  // The restarted holder has another port, other keys and another secret.
  holder.reset();
  // The old holder's tuple is removed, but its goodbye and the new tuple use different connections.
  ASSERT_TRUE(PollUntil(*reader, [&] { return reader->CountOf(Pattern::Of(kDirectTile)) == 0u; }));
  holder = Make("holder");
  Keep(*holder, kDirectTile, payload);
  const auto found = Fetch(*reader, {holder.get()}, {Named(kDirectTile)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload);
  EXPECT_EQ(reader->direct_counts().fetched_payloads, 2u);
}

TEST_P(DirectTransfer, AListenerThatCannotBindSaysSoAndGoesOn) {
  ClientOptions options = OptionsOf("holder");
  options.direct_listen = broker_->endpoint();  // already in use
  Client holder(options);
  std::string problem;
  holder.OnDirectProblem([&](const std::string& text) { problem = text; });
  holder.GetStatistics(kGenerous);
  EXPECT_TRUE(PollUntil(holder, [&] { return !problem.empty(); }));
  EXPECT_THAT(problem, HasSubstr("cannot listen at " + broker_->endpoint()));
  EXPECT_TRUE(holder.Put({PlainTuple({"open", 2}, "plain")}, kGenerous));
  EXPECT_EQ(Fetch(holder, {}, {Named({"open", 2})})->payload.text(), "plain");
}

TEST_P(DirectTransfer, AClientThatGetsTooFewThreadsSaysSoAndGoesOn) {
  zmq::context_t context;
  const zmq::socket_t starts_its_threads(context, zmq::socket_type::dealer);
  ClientOptions options = OptionsOf("holder");
  options.context = &context;
  Client holder(options);
  std::string problem;
  holder.OnDirectProblem([&](const std::string& text) { problem = text; });
  {
    const acan::test::RoomForThreads room(1);
    holder.GetStatistics(kGenerous);
    EXPECT_TRUE(PollUntil(holder, [&] { return !problem.empty(); }));
  }
  EXPECT_THAT(problem, HasSubstr("and direct transfers need 3"));
  EXPECT_TRUE(holder.Put({PlainTuple({"open", 2}, "plain")}, kGenerous));
  EXPECT_EQ(Fetch(holder, {}, {Named({"open", 2})})->payload.text(), "plain");
}

INSTANTIATE_TEST_SUITE_P(Keys, DirectTransfer, ::testing::Bool(), KeysOrNot);

}  // namespace
}  // namespace tuplespace
