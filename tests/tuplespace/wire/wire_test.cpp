// Messages survive encoding and decoding.
#include "wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "wire_messages.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Wire, EveryRequestSurvivesTheTrip) {
  Generator generate(1);
  for (int round = 0; round < 3000; ++round) {
    Encoder encoder;
    encoder.Begin(42);
    std::vector<Request> sent;
    for (std::size_t n = 0; n < 1 + generate.Raw() % 4; ++n) {
      sent.push_back({1 + generate.Raw() / 2, generate.Body(generate.Raw() % kRequestKinds)});
      encoder.Add(sent.back());
    }
    const Frames frames = Finish(encoder);
    auto decoded = ToBrokerOf(frames);
    ASSERT_TRUE(std::holds_alternative<ToBroker>(decoded)) << std::get<RequestError>(decoded).text;
    const ToBroker& got = std::get<ToBroker>(decoded);
    EXPECT_EQ(got.session, 42u);
    ASSERT_EQ(got.messages.size(), sent.size());
    std::size_t bound = 256;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const auto* malformed = std::get_if<Malformed>(&got.messages[i]);
      ASSERT_EQ(malformed, nullptr) << malformed->text;
      const auto& request = std::get<Request>(got.messages[i]);
      EXPECT_EQ(request.id, sent[i].id);
      Same(request.body, sent[i].body);
      bound += ControlBytesBound(sent[i].body);
    }
    EXPECT_LE(frames.control.size(), bound);
  }
}

TEST(Wire, EveryReplySurvivesTheTrip) {
  Generator generate(2);
  for (int round = 0; round < 3000; ++round) {
    const Reply sent{1 + generate.Raw() / 2, generate.Answer(generate.Raw() % kReplyKinds)};
    const Frames frames = Encode(sent);
    EXPECT_LE(frames.control.size(), 256 + ControlBytesBound(sent.body));
    auto decoded = ToClientOf(frames);
    ASSERT_TRUE(std::holds_alternative<ToClient>(decoded)) << std::get<RequestError>(decoded).text;
    ASSERT_EQ(std::get<ToClient>(decoded).messages.size(), 1u);
    const auto& reply = std::get<Reply>(std::get<ToClient>(decoded).messages[0]);
    EXPECT_EQ(reply.id, sent.id);
    Same(reply.body, sent.body);
  }
}

TEST(Wire, ABoundCountsEveryByteZeroOfAPatternTwice) {
  Pattern pattern;
  for (int i = 0; i < 16; ++i) {
    pattern.fields.push_back(FieldPattern::Exact(std::string(256, '\0')));
  }
  const Request request{1, Count{pattern}};
  EXPECT_LE(Encode(request).control.size(), 256 + ControlBytesBound(request.body));
}

TEST(Wire, SessionMessagesSurviveTheTrip) {
  const auto hello = ToBrokerOf(Encode(Hello{77, "a name"}));
  const auto& got_hello = std::get<Hello>(std::get<ToBroker>(hello).messages.at(0));
  EXPECT_EQ(got_hello.nonce, 77u);
  EXPECT_EQ(got_hello.name, "a name");
  EXPECT_TRUE(
      std::holds_alternative<Ping>(std::get<ToBroker>(ToBrokerOf(Encode(Ping{}))).messages.at(0)));
  EXPECT_TRUE(
      std::holds_alternative<Bye>(std::get<ToBroker>(ToBrokerOf(Encode(Bye{}))).messages.at(0)));

  const auto welcome = ToClientOf(Encode(Welcome{1, 2, 3, 4, 5, {}, 6, true, 7}));
  const auto& got = std::get<Welcome>(std::get<ToClient>(welcome).messages.at(0));
  EXPECT_EQ(got.nonce, 1u);
  EXPECT_EQ(got.session, 2u);
  EXPECT_EQ(got.silence_us, 3);
  EXPECT_EQ(got.control_frame_bytes, 4u);
  EXPECT_EQ(got.message_bytes, 5u);
  EXPECT_EQ(got.broker_us, 6);
  EXPECT_TRUE(got.decompresses);
  EXPECT_EQ(got.life, 7u);
  const auto pong = ToClientOf(Encode(Pong{7}));
  EXPECT_EQ(std::get<Pong>(std::get<ToClient>(pong).messages.at(0)).broker_us, 7);
  const auto listening = ToBrokerOf(Encode(Listening{"tcp://10.0.0.1:5", "key", "secret"}));
  const auto& got_listening = std::get<Listening>(std::get<ToBroker>(listening).messages.at(0));
  EXPECT_EQ(got_listening.endpoint, "tcp://10.0.0.1:5");
  EXPECT_EQ(got_listening.public_key, "key");
  EXPECT_EQ(got_listening.secret, "secret");
  for (const auto kind : {Notice::Kind::kParked, Notice::Kind::kOrphaned, Notice::Kind::kConflict,
                          Notice::Kind::kLost, Notice::Kind::kWanted, Notice::Kind::kReleased,
                          Notice::Kind::kMistrusted}) {
    const auto notice = ToClientOf(Encode(Notice{kind, Key{"k", 1}, "somebody", "why"}));
    const auto& got_notice = std::get<Notice>(std::get<ToClient>(notice).messages.at(0));
    EXPECT_EQ(got_notice.kind, kind);
    EXPECT_EQ(got_notice.key, (Key{"k", 1}));
    EXPECT_EQ(got_notice.by, "somebody");
    EXPECT_EQ(got_notice.text, "why");
  }
  const auto done = ToClientOf(Encode(Done{{1, 7, 1ull << 40}}));
  EXPECT_THAT(std::get<Done>(std::get<ToClient>(done).messages.at(0)).requests,
              ElementsAre(1, 7, 1ull << 40));
  EXPECT_TRUE(std::holds_alternative<RequestError>(
      std::get<ToClient>(ToClientOf(Encode(RequestError{ErrorCode::kHelloRequired, "x"})))
          .messages.at(0)));
}

TEST(Wire, LargePayloadsAreSharedAndSmallOnesTravelInside) {
  const Payload large = Payload::Copy(std::string(kInlinePayloadBytes + 1, 'L'));
  const Payload small = Payload::Copy(std::string(kInlinePayloadBytes, 's'));
  Put put;
  put.tuples = {{Key{1}, large, {}, false, false},
                {Key{2}, small, {}, false, false},
                {Key{3}, large, {}, false, false}};
  const Frames frames = Encode(Request{1, put});
  ASSERT_EQ(frames.payloads.size(), 1u);  // both tuples share one frame
  EXPECT_EQ(frames.payloads[0].data(), large.data());
  const auto decoded = ToBrokerOf(frames);
  const auto& request = std::get<Request>(std::get<ToBroker>(decoded).messages.at(0));
  const auto& tuples = std::get<Put>(request.body).tuples;
  EXPECT_EQ(tuples[0].payload.data(), large.data());
  EXPECT_EQ(tuples[2].payload.data(), large.data());
  EXPECT_EQ(tuples[1].payload.text(), small.text());
}

TEST(Wire, TwoPayloadsThatBeginAtOneAddressKeepTheirSizes) {
  const Payload whole = Payload::Copy(std::string(4000, 'w'));
  const Payload part(whole.owner(), whole.data(), 1000);
  Put put;
  put.tuples = {{Key{1}, whole, {}, false, false},
                {Key{2}, part, {}, false, false},
                {Key{3}, whole, {}, false, false}};
  const auto decoded = ToBrokerOf(Encode(Request{1, put}));
  const auto& request = std::get<Request>(std::get<ToBroker>(decoded).messages.at(0));
  const auto& tuples = std::get<Put>(request.body).tuples;
  EXPECT_EQ(tuples[0].payload.size(), 4000u);
  EXPECT_EQ(tuples[1].payload.size(), 1000u);
  EXPECT_EQ(tuples[2].payload.size(), 4000u);
}

TEST(Wire, MisalignedFramesAreRead) {
  const Frames frames = Encode(Request{9, Count{Pattern::Of(Key{"a", 1})}});
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> buffer(shift);
    buffer.insert(buffer.end(), frames.control.begin(), frames.control.end());
    const auto decoded = DecodeToBroker(std::span(buffer).subspan(shift), {}, kControlLimit);
    ASSERT_TRUE(std::holds_alternative<ToBroker>(decoded)) << shift;
  }
}

TEST(Wire, TextsThatAreTooLongAreCut) {
  Fail fail;
  fail.lease.key = Key{1};
  fail.cause = std::string(100'000, 'x');
  const auto decoded = ToBrokerOf(Encode(Request{1, fail}));
  const auto& request = std::get<Request>(std::get<ToBroker>(decoded).messages.at(0));
  EXPECT_EQ(std::get<Fail>(request.body).cause.size(), kMaxTextBytes);
}

std::vector<Payload> WithABitFlipped(const std::vector<Payload>& payloads) {
  std::vector<Payload> flipped = payloads;
  std::string bytes(flipped.at(0).text());
  bytes[1234] ^= 0x10;
  flipped[0] = Payload::Copy(bytes);
  return flipped;
}

TEST(Wire, AFlippedBitInAPutIsFoundByABrokerThatChecks) {
  Put put;
  put.tuples = {{Key{"r", 1}, Payload::Copy(std::string(5000, 'r')), {}, false, false}};
  const Frames frames = Encode(Request{3, put});
  const auto decode = [&](const std::vector<Payload>& payloads, bool check) {
    auto decoded = DecodeToBroker(frames.control, payloads, kControlLimit, nullptr, check);
    return std::get<ToBroker>(decoded).messages.at(0);
  };
  EXPECT_TRUE(std::holds_alternative<Request>(decode(frames.payloads, true)));
  const auto flipped = WithABitFlipped(frames.payloads);
  EXPECT_TRUE(std::holds_alternative<Request>(decode(flipped, false)));
  const auto malformed = std::get<Malformed>(decode(flipped, true));
  EXPECT_EQ(malformed.code, ErrorCode::kDamaged);
  EXPECT_EQ(malformed.id, 3u);
  EXPECT_THAT(malformed.text, HasSubstr("(\"r\", 1)"));
  EXPECT_FALSE(malformed.damaged_results_of);
}

TEST(Wire, ADamagedResultComesWithTheLeaseOfItsTask) {
  const Complete complete{{Key{"t", 1}, 7},
                          {{Key{"r", 1}, Payload::Copy(std::string(5000, 'r')), {}, false, false}}};
  const Frames frames = Encode(Request{3, complete});
  const auto flipped = WithABitFlipped(frames.payloads);
  const auto decoded = DecodeToBroker(frames.control, flipped, kControlLimit, nullptr, true);
  const auto& malformed = std::get<Malformed>(std::get<ToBroker>(decoded).messages.at(0));
  EXPECT_EQ(malformed.code, ErrorCode::kDamaged);
  ASSERT_TRUE(malformed.damaged_results_of);
  EXPECT_EQ(malformed.damaged_results_of->key, (Key{"t", 1}));
  EXPECT_EQ(malformed.damaged_results_of->fence, 7u);
}

TEST(Wire, AFlippedBitInAnAnswerIsFoundAndThePayloadLeftOut) {
  FoundTuple tuple;
  tuple.key = Key{"r", 1};
  const Payload payload = Payload::Copy(std::string(5000, 'r'));
  tuple.hash = HashOf(payload.bytes());
  tuple.payload = Payload(payload).WithHash(tuple.hash);
  Grant grant;
  grant.key = Key{"t", 1};
  grant.payload = tuple.payload;
  for (const ReplyBody& body : {ReplyBody(Found{{tuple}}), ReplyBody(Grants{{grant}})}) {
    const Frames frames = Encode(Reply{3, body});
    for (const bool flip : {false, true}) {
      auto decoded =
          DecodeToClient(frames.control, flip ? WithABitFlipped(frames.payloads) : frames.payloads);
      auto& reply = std::get<Reply>(std::get<ToClient>(decoded).messages.at(0)).body;
      if (const auto* found = std::get_if<Found>(&reply)) {
        EXPECT_EQ(found->tuples[0].damaged, flip);
        EXPECT_EQ(found->tuples[0].payload.empty(), flip);
      } else {
        EXPECT_EQ(std::get<Grants>(reply).grants[0].damaged, flip);
        EXPECT_EQ(std::get<Grants>(reply).grants[0].payload.empty(), flip);
      }
    }
  }
}

TEST(Wire, WhoPutsHashesAndWithoutPayloadsTheHashComesAlong) {
  Put put;
  put.tuples = {{Key{1}, Payload::Copy("short"), {}, false, false}, {Key{2}, {}, {}, false, false}};
  const auto decoded = ToBrokerOf(Encode(Request{1, put}));
  const auto& request = std::get<Request>(std::get<ToBroker>(decoded).messages.at(0));
  const auto& tuples = std::get<Put>(request.body).tuples;
  EXPECT_EQ(tuples[0].payload.hash(), HashOf(put.tuples[0].payload.bytes()));
  EXPECT_FALSE(tuples[1].payload.hash());
  // The published test vector of XXH3-128 for empty input and seed 0.
  EXPECT_EQ(HashOf({}).ToString(), "99aa06d3014798d86001c324468d497f");
}

TEST(PayloadHash, PartsGiveTheHashOfTheWhole) {
  std::vector<std::byte> bytes(200'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t part : {std::size_t{1000}, PayloadHasher::kPartBytes, bytes.size()}) {
    PayloadHasher hasher;
    for (std::size_t at = 0; at < all.size(); at += part) {
      hasher.Add(all.subspan(at, std::min(part, all.size() - at)));
    }
    EXPECT_EQ(hasher.Hash(), HashOf(all)) << part;
  }
  EXPECT_EQ(PayloadHasher().Hash(), HashOf({}));
}

}  // namespace
}  // namespace tuplespace
