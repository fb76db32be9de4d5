// Frames that must be refused because they would take far more time or memory than they have bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "wire.h"
#include "wire_generated.h"
#include "wire_messages.h"
#include "wire_refusals.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

std::string RefusalOfPut(flatbuffers::FlatBufferBuilder& builder,
                         const std::vector<flatbuffers::Offset<wire::Tuple>>& tuples) {
  const auto put = wire::CreatePut(builder, builder.CreateVector(tuples));
  const auto message = wire::CreateMessage(builder, 5, wire::Body::Put, put.Union());
  const auto list = builder.CreateVector(&message, 1);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  const auto control =
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()}));
  return RefusedWhole(DecodeToBroker(control, {}, kControlLimit)).text;
}

// Many tables that share one long key would need far more memory than the frame has.
TEST(WireRefuses, PartsThatOverlap) {
  flatbuffers::FlatBufferBuilder builder;
  const auto key = BytesIn(builder, Key{std::string(200, 'k')}.bytes());
  std::vector<flatbuffers::Offset<wire::Tuple>> tuples;
  for (int i = 0; i < 100; ++i) tuples.push_back(wire::CreateTuple(builder, key));
  EXPECT_THAT(RefusalOfPut(builder, tuples), HasSubstr("overlap"));
}

TEST(WireRefuses, ListsOfDueInputsThatOverlap) {
  flatbuffers::FlatBufferBuilder builder;
  const auto due = builder.CreateVector(std::vector<std::uint32_t>(200, 1));
  wire::TaskSpecBuilder task(builder);
  task.add_due(due);
  const auto shared = task.Finish();
  std::vector<flatbuffers::Offset<wire::Tuple>> tuples;
  for (int i = 0; i < 100; ++i) {
    const auto key = BytesIn(builder, Key{i}.bytes());
    wire::TupleBuilder tuple(builder);
    tuple.add_key(key);
    tuple.add_task(shared);
    tuples.push_back(tuple.Finish());
  }
  EXPECT_THAT(RefusalOfPut(builder, tuples), HasSubstr("overlap"));
}

// One table is named a million times; the verifier must give up instead of running for minutes.
TEST(WireRefuses, TablesThatAreNamedAgainAndAgain) {
  flatbuffers::FlatBufferBuilder builder;
  const auto pattern = wire::CreatePattern(builder);
  const auto patterns = builder.CreateVector(std::vector(2000, pattern));
  const auto read = wire::CreateRead(builder, patterns);
  const auto message = wire::CreateMessage(builder, 5, wire::Body::Read, read.Union());
  const auto list = builder.CreateVector(std::vector(2000, message));
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  const auto control =
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()}));
  EXPECT_THAT(RefusedWhole(DecodeToBroker(control, {}, kControlLimit)).text, HasSubstr("damaged"));
}

std::variant<ToBroker, RequestError> DecodedEnvelope(
    flatbuffers::FlatBufferBuilder& builder,
    const std::vector<flatbuffers::Offset<wire::Message>>& messages) {
  const auto list = builder.CreateVector(messages);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  return DecodeToBroker(
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()})), {},
      kControlLimit);
}

std::vector<flatbuffers::Offset<wire::Message>> EmptyMessages(
    flatbuffers::FlatBufferBuilder& builder, std::size_t count) {
  std::vector<flatbuffers::Offset<wire::Message>> messages;
  for (std::size_t i = 0; i < count; ++i) messages.push_back(wire::CreateMessage(builder));
  return messages;
}

TEST(WireRefuses, MoreMessagesThanAnyEnvelopeNeeds) {
  flatbuffers::FlatBufferBuilder builder;
  const auto error =
      RefusedWhole(DecodedEnvelope(builder, EmptyMessages(builder, kMaxMessages + 1)));
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_THAT(error.text, HasSubstr("16385 messages in one envelope, at most 16384"));
}

// The session ends with the first one that is too many, so nothing is done for the others.
TEST(WireRefuses, WhatFollowsTooManyMalformedMessagesIsLeftOut) {
  flatbuffers::FlatBufferBuilder builder;
  const auto decoded = DecodedEnvelope(builder, EmptyMessages(builder, 1000));
  const auto& messages = std::get<ToBroker>(decoded).messages;
  EXPECT_EQ(messages.size(), kMaxMalformed + 1);
  EXPECT_TRUE(std::holds_alternative<Malformed>(messages.back()));
}

// Each takes 8 bytes of the frame, and would take a hundred times as much in memory.
TEST(WireRefuses, MorePatternsThanAnyEnvelopeNeeds) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::Message>> messages;
  for (std::uint64_t id = 1; id <= 2; ++id) {
    std::vector<flatbuffers::Offset<wire::Pattern>> half;
    for (std::size_t i = 0; i <= kMaxItems / 2; ++i) half.push_back(wire::CreatePattern(builder));
    const auto read = wire::CreateRead(builder, builder.CreateVector(half));
    messages.push_back(wire::CreateMessage(builder, id, wire::Body::Read, read.Union()));
  }
  const auto decoded = DecodedEnvelope(builder, messages);
  const auto& both = std::get<ToBroker>(decoded).messages;
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(std::get<Malformed>(both.front()).code, ErrorCode::kBadRequest) << "no fields";
  const auto& beyond = std::get<Malformed>(both.back());
  EXPECT_EQ(beyond.code, ErrorCode::kTooLarge);
  EXPECT_THAT(beyond.text, HasSubstr("more than 131072 tuples and patterns in one envelope"));
}

}  // namespace
}  // namespace tuplespace
