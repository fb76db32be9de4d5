// Frames that must be refused: other versions, damage, hand-made contents.
#include "wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "wire_generated.h"
#include "wire_messages.h"
#include "wire_refusals.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

// Decodes one hand-made message and returns its error.
Malformed RefusedOne(flatbuffers::FlatBufferBuilder& builder, wire::Body type,
                     flatbuffers::Offset<void> body, std::span<const Payload> payloads = {},
                     RequestId id = 5) {
  const auto message = wire::CreateMessage(builder, id, type, body);
  const auto list = builder.CreateVector(&message, 1);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  const auto decoded = DecodeToBroker(
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()})),
      payloads, kControlLimit);
  if (const auto* error = std::get_if<RequestError>(&decoded)) {
    ADD_FAILURE() << "refused as a whole: " << error->text;
    return {};
  }
  const auto& messages = std::get<ToBroker>(decoded).messages;
  if (messages.size() != 1 || !std::holds_alternative<Malformed>(messages[0])) {
    ADD_FAILURE() << "it was accepted";
    return {};
  }
  return std::get<Malformed>(messages[0]);
}

TEST(WireRefuses, OtherVersionsNamingBoth) {
  Encoder encoder;
  encoder.Begin(0, {.version = kProtocolVersion + 1});
  encoder.Add(Hello{1, "from the future"});
  const RequestError error = RefusedWhole(ToBrokerOf(Finish(encoder)));
  EXPECT_EQ(error.code, ErrorCode::kVersion);
  EXPECT_THAT(error.text, HasSubstr("version 5"));
  EXPECT_THAT(error.text, HasSubstr("version 4"));
}

TEST(WireRefuses, AnEnvelopeOfAnotherVersionWhateverElseIsInIt) {
  // Only the first field of the root table is common to all versions.
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString("a field that this version does not know");
  const auto start = builder.StartTable();
  builder.AddElement<std::uint32_t>(4, 9, 0);
  builder.AddOffset(6, text);  // this version has an integer here
  builder.Finish(flatbuffers::Offset<wire::Envelope>(builder.EndTable(start)), "ATSP");
  const RequestError error = RefusedWhole(DecodeToBroker(
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()})), {},
      kControlLimit));
  EXPECT_EQ(error.code, ErrorCode::kVersion);
  EXPECT_THAT(error.text, HasSubstr("version 9"));
}

TEST(WireRefuses, RandomBytes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (i % 2 == 0 && bytes.size() >= 8) std::memcpy(bytes.data() + 4, "ATSP", 4);
    const auto decoded = DecodeToBroker(bytes, {}, kControlLimit);
    EXPECT_TRUE(std::holds_alternative<RequestError>(decoded));
  }
}

TEST(WireRefuses, EveryTruncation) {
  Generator generate(4);
  const Frames frames = Encode(Request{1, Complete{generate.Lease(), generate.Tuples()}});
  for (std::size_t size = 0; size < frames.control.size(); ++size) {
    // A copy of exactly this size, so that a sanitizer detects reads beyond its end.
    const std::vector<std::byte> part(frames.control.begin(),
                                      frames.control.begin() + static_cast<std::ptrdiff_t>(size));
    const auto decoded = DecodeToBroker(part, frames.payloads, kControlLimit);
    if (const auto* envelope = std::get_if<ToBroker>(&decoded)) {
      // Only a cut inside the padding at the end may decode.
      EXPECT_GE(size + 8, frames.control.size());
      EXPECT_LE(envelope->messages.size(), 1u);
    }
  }
}

// Whatever decodes after damage is still well formed: canonical keys and patterns, enums in range.
TEST(WireRefuses, DamagedFramesNeverYieldMalformedValues) {
  Generator generate(5);
  Encoder encoder;
  for (int round = 0; round < 30'000; ++round) {
    encoder.Begin(1);
    encoder.Add(Request{1, generate.Body(generate.Raw() % kRequestKinds)});
    Frames frames = Finish(encoder);
    for (std::size_t n = 1 + generate.Raw() % 3; n > 0; --n) {
      frames.control[generate.Raw() % frames.control.size()] =
          static_cast<std::byte>(generate.Raw() % 4 == 0 ? generate.Raw() : generate.Raw() % 16);
    }
    const auto decoded = ToBrokerOf(frames);
    const auto* envelope = std::get_if<ToBroker>(&decoded);
    if (envelope == nullptr) continue;
    for (const ClientMessage& message : envelope->messages) {
      const auto* request = std::get_if<Request>(&message);
      if (request == nullptr) continue;
      EXPECT_NE(request->id, 0u);
      // Encoding it again reads every byte of every field.
      encoder.Begin(1);
      encoder.Add(*request);
      const auto again = ToBrokerOf(Finish(encoder));
      ASSERT_TRUE(std::holds_alternative<ToBroker>(again)) << std::get<RequestError>(again).text;
      const auto& copy = std::get<ToBroker>(again).messages.at(0);
      ASSERT_TRUE(std::holds_alternative<Request>(copy)) << std::get<Malformed>(copy).text;
      Same(std::get<Request>(copy).body, request->body);
    }
  }
}

TEST(WireRefuses, WrongPayloadFrames) {
  const Payload large = Payload::Copy(std::string(1000, 'L'));
  const Frames good = Encode(Request{5, Put{{{Key{1}, large, {}, false, false}}}});
  // No frame, although one is named: the request is malformed.
  const auto none = DecodeToBroker(good.control, {}, kControlLimit);
  const auto& message = std::get<ToBroker>(none).messages.at(0);
  ASSERT_TRUE(std::holds_alternative<Malformed>(message));
  EXPECT_EQ(std::get<Malformed>(message).id, 5u);
  EXPECT_THAT(std::get<Malformed>(message).text, HasSubstr("payload frame 0 is named, but 0 came"));
  // Two frames, although one is named: the whole message is refused.
  const std::vector<Payload> two = {large, large};
  const RequestError error = RefusedWhole(DecodeToBroker(good.control, two, kControlLimit));
  EXPECT_EQ(error.code, ErrorCode::kBadRequest);
  EXPECT_THAT(error.text, HasSubstr("2 payload frames came"));
}

TEST(WireRefuses, ControlFramesOverTheLimit) {
  const Frames frames = Encode(Request{5, Put{{{Key{1}, Payload::Copy("x"), {}, false, false}}}});
  const RequestError error =
      RefusedWhole(DecodeToBroker(frames.control, {}, frames.control.size() - 1));
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_THAT(error.text, HasSubstr(std::to_string(frames.control.size())));
}

TEST(WireRefuses, TooManyPayloadFrames) {
  const Frames frames = Encode(Ping{});
  const std::vector<Payload> many(kMaxPayloadFrames + 1);
  EXPECT_EQ(RefusedWhole(DecodeToBroker(frames.control, many, kControlLimit)).code,
            ErrorCode::kTooLarge);
}

TEST(WireRefuses, MessagesOfTheOtherDirection) {
  const auto decoded = ToBrokerOf(Encode(Reply{5, Ok{}}));
  const auto& message = std::get<ToBroker>(decoded).messages.at(0);
  ASSERT_TRUE(std::holds_alternative<Malformed>(message));
  EXPECT_THAT(std::get<Malformed>(message).text, HasSubstr("not one that a client sends"));
  EXPECT_TRUE(std::holds_alternative<RequestError>(ToClientOf(Encode(Request{5, GetStats{}}))));
}

TEST(WireRefuses, MessageTypesOfTheFuture) {
  flatbuffers::FlatBufferBuilder builder;
  const auto bad =
      RefusedOne(builder, static_cast<wire::Body>(200), wire::CreatePing(builder).Union());
  EXPECT_EQ(bad.id, 5u);
  EXPECT_THAT(bad.text, HasSubstr("200"));
}

TEST(WireRefuses, RequestsWithoutIdOrBody) {
  flatbuffers::FlatBufferBuilder builder;
  EXPECT_THAT(
      RefusedOne(builder, wire::Body::GetStats, wire::CreateGetStats(builder).Union(), {}, 0).text,
      HasSubstr("id 0"));
  flatbuffers::FlatBufferBuilder empty;
  EXPECT_THAT(RefusedOne(empty, wire::Body::Put, 0).text, HasSubstr("no body"));
}

TEST(WireRefuses, KeysThatAreNotCanonical) {
  for (const std::string_view bytes : {std::string_view(""), std::string_view("\x07garbage"),
                                       std::string_view("\x01\x00\x00", 3)}) {
    flatbuffers::FlatBufferBuilder builder;
    const auto tuple = wire::CreateTuple(builder, BytesIn(builder, bytes));
    const auto list = builder.CreateVector(&tuple, 1);
    EXPECT_THAT(RefusedOne(builder, wire::Body::Put, wire::CreatePut(builder, list).Union()).text,
                HasSubstr("canonical"));
  }
}

TEST(WireRefuses, PayloadsThatAreBothInlineAndInAFrame) {
  flatbuffers::FlatBufferBuilder builder;
  const auto key = BytesIn(builder, Key{1}.bytes());
  const auto tuple = wire::CreateTuple(builder, key, BytesIn(builder, "inline"), 0);
  const auto list = builder.CreateVector(&tuple, 1);
  const Payload frame = Payload::Copy("frame");
  EXPECT_THAT(
      RefusedOne(builder, wire::Body::Put, wire::CreatePut(builder, list).Union(), {&frame, 1})
          .text,
      HasSubstr("both inline and in frame 0"));
}

TEST(WireRefuses, InlinePayloadsThatAreTooLong) {
  flatbuffers::FlatBufferBuilder builder;
  const auto key = BytesIn(builder, Key{1}.bytes());
  const std::string bytes(kMaxInlinePayloadBytes + 1, 'i');
  const auto tuple = wire::CreateTuple(builder, key, BytesIn(builder, bytes));
  const auto list = builder.CreateVector(&tuple, 1);
  EXPECT_THAT(RefusedOne(builder, wire::Body::Put, wire::CreatePut(builder, list).Union()).text,
              HasSubstr("16385"));
}

TEST(WireRefuses, AffinityBeyondTheInputs) {
  for (const std::int32_t affinity : {-2, 1, INT32_MAX}) {
    flatbuffers::FlatBufferBuilder builder;
    const std::string input = Key{"in"}.bytes();
    const std::uint32_t end = static_cast<std::uint32_t>(input.size());
    const auto key = BytesIn(builder, Key{1}.bytes());
    const auto inputs =
        wire::CreateKeys(builder, BytesIn(builder, input), builder.CreateVector(&end, 1));
    const auto task = wire::CreateTaskSpec(builder, inputs, 0, 0, 0, affinity);
    const auto tuple = wire::CreateTuple(builder, key, 0, UINT32_MAX, task);
    const auto list = builder.CreateVector(&tuple, 1);
    EXPECT_THAT(RefusedOne(builder, wire::Body::Put, wire::CreatePut(builder, list).Union()).text,
                HasSubstr("affinity"));
  }
}

TEST(WireRefuses, KeyListsWhoseEndsAreWrong) {
  const std::string two = Key{"a"}.bytes() + Key{"b"}.bytes();
  const auto size = static_cast<std::uint32_t>(two.size());
  const std::vector<std::vector<std::uint32_t>> bad_ends = {
      {}, {size / 2}, {size / 2, size + 1}, {size, size}, {0, size}, {size, size / 2}};
  for (const auto& ends : bad_ends) {
    flatbuffers::FlatBufferBuilder builder;
    const auto bytes = BytesIn(builder, two);
    const auto keys = wire::CreateKeys(builder, bytes, builder.CreateVector(ends));
    const auto hold = wire::CreateHold(builder, keys);
    EXPECT_THAT(RefusedOne(builder, wire::Body::Hold, hold.Union()).text, HasSubstr("held"));
  }
}

TEST(WireRefuses, BadPatterns) {
  const auto refused = [](const std::string& fields) {
    flatbuffers::FlatBufferBuilder builder;
    const auto bytes = BytesIn(builder, fields);
    const auto pattern = wire::CreatePattern(builder, bytes);
    return RefusedOne(builder, wire::Body::Count, wire::CreateCount(builder, pattern).Union()).text;
  };
  const std::string number = Key{1}.bytes(), text = Key{"t"}.bytes();
  EXPECT_THAT(refused("\x09" + number), HasSubstr("op 9"));
  EXPECT_THAT(refused("\x01"), HasSubstr("field 0 of a pattern has no canonical value"));
  EXPECT_THAT(refused("\x01" + number.substr(0, 8)), HasSubstr("no canonical value"));
  EXPECT_THAT(refused("\x01" + text.substr(0, text.size() - 1)), HasSubstr("no canonical value"));
  EXPECT_THAT(refused("\x01\x03tt"), HasSubstr("no canonical value"));
  EXPECT_THAT(refused(std::string(1, '\0') + number), HasSubstr("field 1"));  // the tag as an op
  EXPECT_THAT(refused(std::string(17, '\0')), HasSubstr("more than 16 fields"));
  EXPECT_THAT(refused("\x02" + text), HasSubstr("bad pattern"));
  EXPECT_THAT(refused("\x04" + number), HasSubstr("bad pattern"));
  flatbuffers::FlatBufferBuilder builder;
  EXPECT_THAT(RefusedOne(builder, wire::Body::Count, wire::CreateCount(builder).Union()).text,
              HasSubstr("missing"));
}

TEST(WireRefuses, NegativeDurations) {
  const Frames frames = Encode(Request{5, Extend{{Key{1}, 1}, -1}});
  const auto decoded = ToBrokerOf(frames);
  const auto& message = std::get<ToBroker>(decoded).messages.at(0);
  ASSERT_TRUE(std::holds_alternative<Malformed>(message));
  EXPECT_THAT(std::get<Malformed>(message).text, HasSubstr("lease_us is -1"));
}

// Names each payload in shared memory as a segment, and opens every segment as one payload.
struct OnePayload : SegmentNamer, SegmentOpener {
  std::optional<SegmentRef> Name(const Payload& given) override {
    return SegmentRef{++last_id, given.size(), 3};
  }
  std::optional<Payload> Open(std::uint64_t, const SegmentRef& ref) override {
    opened.push_back(ref.id);
    if (ref.id == refused) return std::nullopt;
    return payload;
  }
  std::uint64_t last_id = 0, refused = 0;
  std::vector<std::uint64_t> opened;
  Payload payload;
};

// A short message in which every tuple names a large payload; hashing it each time would take very
// long.
TEST(WireRefuses, ToHashThePayloadsOfOneMessageAgainAndAgain) {
  OnePayload segments;
  segments.payload = Payload::Copy(std::string(64 << 20, 'x'));
  const PayloadHash hash = HashOf(segments.payload.bytes());
  const wire::Hash wire_hash(hash.low, hash.high);
  const wire::Segment segment(1, segments.payload.size(), 3);
  for (const bool in_segment : {false, true}) {
    for (const bool hashed : {false, true}) {
      flatbuffers::FlatBufferBuilder builder;
      std::vector<flatbuffers::Offset<wire::Tuple>> tuples;
      for (int i = 0; i < 100'000; ++i) {
        const auto key = BytesIn(builder, Key{i}.bytes());
        tuples.push_back(wire::CreateTuple(builder, key, 0, in_segment ? UINT32_MAX : 0, 0, false,
                                           false, hashed ? &wire_hash : nullptr,
                                           in_segment ? &segment : nullptr));
      }
      const auto put = wire::CreatePut(builder, builder.CreateVector(tuples));
      const auto message = wire::CreateMessage(builder, 5, wire::Body::Put, put.Union());
      const auto list = builder.CreateVector(&message, 1);
      wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
      std::vector<Payload> frames;
      if (!in_segment) frames.push_back(segments.payload);
      const auto decoded = DecodeToBroker(
          std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()})),
          frames, kControlLimit, &segments, /*check_payloads=*/true);
      const auto& request = std::get<Request>(std::get<ToBroker>(decoded).messages.at(0));
      for (const Tuple& tuple : std::get<Put>(request.body).tuples) {
        ASSERT_EQ(tuple.payload.hash(), hash);
      }
    }
  }
}

TEST(WireRefuses, OneSegmentOfSeveralSizesWithoutHashes) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::Tuple>> tuples;
  for (int i = 0; i < 2; ++i) {
    const auto key = BytesIn(builder, Key{i}.bytes());
    const wire::Segment segment(1, static_cast<std::uint64_t>(100 + i), 3);
    tuples.push_back(
        wire::CreateTuple(builder, key, 0, UINT32_MAX, 0, false, false, nullptr, &segment));
  }
  struct Opener : SegmentOpener {
    std::optional<Payload> Open(std::uint64_t, const SegmentRef& ref) override {
      return Payload::Copy(std::string(ref.bytes, 'x'));
    }
  } opener;
  const auto put = wire::CreatePut(builder, builder.CreateVector(tuples));
  const auto message = wire::CreateMessage(builder, 5, wire::Body::Put, put.Union());
  const auto list = builder.CreateVector(&message, 1);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  const auto decoded = DecodeToBroker(
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()})), {},
      kControlLimit, &opener);
  const auto& bad = std::get<Malformed>(std::get<ToBroker>(decoded).messages.at(0));
  EXPECT_THAT(bad.text, HasSubstr("with 100 and with 101 bytes"));
}

// The sender has lent each segment and counts them.
TEST(WireRefuses, NoRequestBeforeAllItsSegmentsAreOpened) {
  const std::string bytes(1000, 'x');
  const SharedRegion region;
  const auto tuple = [&](const Key& key) {
    return Tuple{key, Payload(nullptr, bytes.data(), bytes.size(), &region), {}, false, false};
  };
  OnePayload segments;
  Encoder encoder;
  encoder.Begin(1, {.namer = &segments});
  encoder.Add(Request{1, Put{{tuple(Key{1}), tuple(Key{}), tuple(Key{3})}}});
  encoder.Add(Request{2, Complete{{Key{}, 1}, {tuple(Key{4}), tuple(Key{5})}}});
  encoder.Add(Request{3, Put{{tuple(Key{6})}}});
  encoder.Add(Request{0, Put{{tuple(Key{7})}}});
  segments.refused = 3;
  const Frames frames = Finish(encoder);
  const auto decoded = DecodeToBroker(frames.control, frames.payloads, kControlLimit, &segments);
  EXPECT_EQ(segments.opened, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7}));
  const auto& messages = std::get<ToBroker>(decoded).messages;
  ASSERT_EQ(messages.size(), 4u);
  for (const std::size_t bad : {0, 1, 3}) {
    ASSERT_TRUE(std::holds_alternative<Malformed>(messages[bad])) << bad;
    EXPECT_EQ(std::get<Malformed>(messages[bad]).code, ErrorCode::kBadRequest) << bad;
  }
  EXPECT_TRUE(std::holds_alternative<Request>(messages[2]));
}

TEST(WireRefuses, OneBadRequestAmongGoodOnes) {
  Encoder encoder;
  encoder.Begin(1);
  encoder.Add(Request{1, Count{Pattern::Of(Key{1})}});
  encoder.Add(Request{2, Put{{{Key{}, Payload(), {}, false, false}}}});  // the empty key
  encoder.Add(Request{3, Count{Pattern::Of(Key{1})}});
  const auto decoded = ToBrokerOf(Finish(encoder));
  const auto& messages = std::get<ToBroker>(decoded).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Request>(messages[0]));
  EXPECT_EQ(std::get<Malformed>(messages[1]).id, 2u);
  EXPECT_TRUE(std::holds_alternative<Request>(messages[2]));
}

}  // namespace
}  // namespace tuplespace
