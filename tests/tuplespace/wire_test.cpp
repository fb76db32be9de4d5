#include "wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "wire_generated.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kControlLimit = 64ull << 20;

struct Frames {
  std::vector<std::byte> control;
  std::vector<Payload> payloads;
};

Frames Finish(Encoder& encoder) {
  const auto control = encoder.Finish();
  return {{control.begin(), control.end()}, encoder.TakeFrames()};
}

template <typename Message>
Frames Encode(const Message& message, std::uint64_t session = 7) {
  Encoder encoder;
  encoder.Begin(session);
  encoder.Add(message);
  return Finish(encoder);
}

std::variant<ToBroker, Error> ToBrokerOf(const Frames& frames) {
  return DecodeToBroker(frames.control, frames.payloads, kControlLimit);
}
std::variant<ToClient, Error> ToClientOf(const Frames& frames) {
  return DecodeToClient(frames.control, frames.payloads);
}

// ---- random messages
// -----------------------------------------------------------------------------

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::uint64_t Number() {
    switch (random_() % 4) {
      case 0:
        return random_() % 4;
      case 1:
        return UINT64_MAX - random_() % 4;
      default:
        return random_();
    }
  }
  std::int64_t Duration() { return static_cast<std::int64_t>(Number() >> 1); }
  bool Coin() { return random_() % 2 == 0; }
  std::string Text(std::size_t limit) {
    std::string text(random_() % (limit + 1), '\0');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }
  Key OneKey() {
    std::vector<Field> fields;
    for (std::size_t n = 1 + random_() % 5; n > 0; --n) {
      if (Coin()) {
        fields.emplace_back(static_cast<std::int64_t>(Number()));
      } else {
        fields.emplace_back(Text(20));
      }
    }
    return Key(fields);
  }
  std::vector<Key> Keys() {
    std::vector<Key> keys(random_() % 4);
    for (Key& key : keys) key = OneKey();
    return keys;
  }
  Payload Content() {
    static constexpr std::size_t kSizes[] = {0, 1, 100, 511, 512, 513, 5000};
    return Payload::Copy(
        std::string(kSizes[random_() % std::size(kSizes)], static_cast<char>(random_())));
  }
  std::optional<TaskSpec> Task() {
    if (Coin()) return std::nullopt;
    TaskSpec task;
    task.inputs = Keys();
    task.need_bytes = Number();
    task.priority = static_cast<std::int64_t>(Number());
    task.lease_us = Duration();
    task.affinity = static_cast<std::int32_t>(random_() % (task.inputs.size() + 1)) - 1;
    return task;
  }
  std::vector<Tuple> Tuples() {
    std::vector<Tuple> tuples(random_() % 4);
    for (Tuple& tuple : tuples) tuple = {OneKey(), Content(), Task(), Coin(), Coin()};
    return tuples;
  }
  std::vector<FoundTuple> FoundTuples() {
    std::vector<FoundTuple> tuples(random_() % 4);
    for (FoundTuple& tuple : tuples) tuple = {OneKey(), Content(), Number(), Text(64)};
    return tuples;
  }
  Pattern OnePattern() {
    Pattern pattern;
    for (std::size_t n = 1 + random_() % 5; n > 0; --n) {
      switch (random_() % 6) {
        case 0:
          pattern.fields.push_back(FieldPattern::Any());
          break;
        case 1:
          pattern.fields.push_back(FieldPattern::Exact(static_cast<std::int64_t>(Number())));
          break;
        case 2:
          pattern.fields.push_back(FieldPattern::Exact(Text(10)));
          break;
        case 3:
          pattern.fields.push_back(FieldPattern::AtMost(static_cast<std::int64_t>(Number())));
          break;
        case 4:
          pattern.fields.push_back(FieldPattern::AtLeast(static_cast<std::int64_t>(Number())));
          break;
        default:
          pattern.fields.push_back(FieldPattern::Prefix(Text(10)));
      }
    }
    pattern.open = Coin();
    return pattern;
  }
  LeaseRef Lease() { return {OneKey(), Number()}; }
  std::vector<PutStatus> Statuses() {
    std::vector<PutStatus> statuses(random_() % 5);
    for (PutStatus& status : statuses) status = static_cast<PutStatus>(random_() % 4);
    return statuses;
  }
  LeaseStatus OneLeaseStatus() { return Coin() ? LeaseStatus::kOk : LeaseStatus::kStale; }

  RequestBody Body(std::size_t kind) {
    switch (kind) {
      case 0:
        return Put{Tuples()};
      case 1: {
        Read read{{}, Coin(), Coin(), Duration()};
        for (std::size_t n = random_() % 4; n > 0; --n) read.patterns.push_back(OnePattern());
        return read;
      }
      case 2:
        return List{OnePattern(), Number(), Coin()};
      case 3:
        return Count{OnePattern()};
      case 4:
        return Get{OnePattern(), Number(),   static_cast<std::uint32_t>(Number()),
                   Coin(),       Duration(), Duration()};
      case 5:
        return Complete{Lease(), Tuples()};
      case 6:
        return Extend{Lease(), Duration()};
      case 7:
        return Store{Lease()};
      case 8:
        return Fail{Lease(), Text(300)};
      case 9:
        return Retire{OnePattern(), Coin()};
      case 10:
        return Hold{Keys(), Keys()};
      case 11:
        return Cancel{Number()};
      default:
        return GetStats{};
    }
  }
  ReplyBody Answer(std::size_t kind) {
    switch (kind) {
      case 0:
        return PutReply{Statuses()};
      case 1:
        return Found{FoundTuples(), Coin(), Coin()};
      case 2:
        return CountReply{Number()};
      case 3: {
        Grants grants;
        for (std::size_t n = random_() % 3; n > 0; --n) {
          Grant grant{OneKey(), Content(), Number(), Duration(), Task(), FoundTuples(), {}};
          for (std::size_t i = 0; i < grant.inputs.size(); ++i) grant.input_sent.push_back(Coin());
          grants.grants.push_back(std::move(grant));
        }
        return grants;
      }
      case 4:
        return CompleteReply{OneLeaseStatus(), Statuses()};
      case 5:
        return LeaseReply{OneLeaseStatus()};
      case 6:
        return RetireReply{Number()};
      case 7:
        return Ok{};
      case 8: {
        Stats stats;
        stats.counters.puts = Number();
        stats.counters.bytes_out = Number();
        stats.tuples = Number();
        stats.held_keys = Number();
        return stats;
      }
      default:
        return Error{static_cast<ErrorCode>(random_() % 5), Text(300)};
    }
  }
  std::uint64_t Raw() { return random_(); }

 private:
  std::mt19937_64 random_;
};

constexpr std::size_t kRequestKinds = std::variant_size_v<RequestBody>;
constexpr std::size_t kReplyKinds = std::variant_size_v<ReplyBody>;

// ---- equality of what came out with what went in
// ---------------------------------------------------

void Same(const Payload& a, const Payload& b) {
  EXPECT_EQ(a.text(), b.text());
}
void Same(const std::optional<TaskSpec>& a, const std::optional<TaskSpec>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a) return;
  EXPECT_EQ(a->inputs, b->inputs);
  EXPECT_EQ(a->need_bytes, b->need_bytes);
  EXPECT_EQ(a->priority, b->priority);
  EXPECT_EQ(a->lease_us, b->lease_us);
  EXPECT_EQ(a->affinity, b->affinity);
}
void Same(const Tuple& a, const Tuple& b) {
  EXPECT_EQ(a.key, b.key);
  Same(a.payload, b.payload);
  Same(a.task, b.task);
  EXPECT_EQ(a.ephemeral, b.ephemeral);
  EXPECT_EQ(a.held, b.held);
}
void Same(const FoundTuple& a, const FoundTuple& b) {
  EXPECT_EQ(a.key, b.key);
  Same(a.payload, b.payload);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.put_by, b.put_by);
}
void Same(const Grant& a, const Grant& b);
template <typename T>
void Same(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) Same(a[i], b[i]);
}
void Same(const LeaseRef& a, const LeaseRef& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.fence, b.fence);
}
void Same(const Grant& a, const Grant& b) {
  EXPECT_EQ(a.key, b.key);
  Same(a.payload, b.payload);
  EXPECT_EQ(a.fence, b.fence);
  EXPECT_EQ(a.lease_us, b.lease_us);
  Same(a.task, b.task);
  Same(a.inputs, b.inputs);
  EXPECT_EQ(a.input_sent, b.input_sent);
}
void Same(const Put& a, const Put& b) {
  Same(a.tuples, b.tuples);
}
void Same(const Read& a, const Read& b) {
  EXPECT_EQ(a.patterns, b.patterns);
  EXPECT_EQ(a.all, b.all);
  EXPECT_EQ(a.metadata_only, b.metadata_only);
  EXPECT_EQ(a.wait_us, b.wait_us);
}
void Same(const List& a, const List& b) {
  EXPECT_EQ(a.pattern, b.pattern);
  EXPECT_EQ(a.limit, b.limit);
  EXPECT_EQ(a.metadata_only, b.metadata_only);
}
void Same(const Count& a, const Count& b) {
  EXPECT_EQ(a.pattern, b.pattern);
}
void Same(const Get& a, const Get& b) {
  EXPECT_EQ(a.pattern, b.pattern);
  EXPECT_EQ(a.offer_bytes, b.offer_bytes);
  EXPECT_EQ(a.max_count, b.max_count);
  EXPECT_EQ(a.with_inputs, b.with_inputs);
  EXPECT_EQ(a.lease_us, b.lease_us);
  EXPECT_EQ(a.wait_us, b.wait_us);
}
void Same(const Complete& a, const Complete& b) {
  Same(a.lease, b.lease);
  Same(a.results, b.results);
}
void Same(const Extend& a, const Extend& b) {
  Same(a.lease, b.lease);
  EXPECT_EQ(a.lease_us, b.lease_us);
}
void Same(const Store& a, const Store& b) {
  Same(a.lease, b.lease);
}
void Same(const Fail& a, const Fail& b) {
  Same(a.lease, b.lease);
  EXPECT_EQ(a.cause, b.cause);
}
void Same(const Retire& a, const Retire& b) {
  EXPECT_EQ(a.pattern, b.pattern);
  EXPECT_EQ(a.watermark, b.watermark);
}
void Same(const Hold& a, const Hold& b) {
  EXPECT_EQ(a.held, b.held);
  EXPECT_EQ(a.dropped, b.dropped);
}
void Same(const Cancel& a, const Cancel& b) {
  EXPECT_EQ(a.request, b.request);
}
void Same(const GetStats&, const GetStats&) {}
void Same(const PutReply& a, const PutReply& b) {
  EXPECT_EQ(a.status, b.status);
}
void Same(const Found& a, const Found& b) {
  Same(a.tuples, b.tuples);
  EXPECT_EQ(a.timed_out, b.timed_out);
  EXPECT_EQ(a.truncated, b.truncated);
}
void Same(const CountReply& a, const CountReply& b) {
  EXPECT_EQ(a.count, b.count);
}
void Same(const Grants& a, const Grants& b) {
  Same(a.grants, b.grants);
}
void Same(const CompleteReply& a, const CompleteReply& b) {
  EXPECT_EQ(a.lease, b.lease);
  EXPECT_EQ(a.results, b.results);
}
void Same(const LeaseReply& a, const LeaseReply& b) {
  EXPECT_EQ(a.lease, b.lease);
}
void Same(const RetireReply& a, const RetireReply& b) {
  EXPECT_EQ(a.removed, b.removed);
}
void Same(const Ok&, const Ok&) {}
void Same(const Stats& a, const Stats& b) {
  EXPECT_EQ(a.counters.puts, b.counters.puts);
  EXPECT_EQ(a.counters.bytes_out, b.counters.bytes_out);
  EXPECT_EQ(a.tuples, b.tuples);
  EXPECT_EQ(a.held_keys, b.held_keys);
}
void Same(const Error& a, const Error& b) {
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.text, b.text);
}
template <typename... Bodies>
void Same(const std::variant<Bodies...>& a, const std::variant<Bodies...>& b) {
  ASSERT_EQ(a.index(), b.index());
  std::visit([&](const auto& body) { Same(body, std::get<std::decay_t<decltype(body)>>(b)); }, a);
}

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
    ASSERT_TRUE(std::holds_alternative<ToBroker>(decoded)) << std::get<Error>(decoded).text;
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
    ASSERT_TRUE(std::holds_alternative<ToClient>(decoded)) << std::get<Error>(decoded).text;
    ASSERT_EQ(std::get<ToClient>(decoded).messages.size(), 1u);
    const auto& reply = std::get<Reply>(std::get<ToClient>(decoded).messages[0]);
    EXPECT_EQ(reply.id, sent.id);
    Same(reply.body, sent.body);
  }
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

  const auto welcome = ToClientOf(Encode(Welcome{1, 2, 3, 4, 5}));
  const auto& got = std::get<Welcome>(std::get<ToClient>(welcome).messages.at(0));
  EXPECT_EQ(got.nonce, 1u);
  EXPECT_EQ(got.session, 2u);
  EXPECT_EQ(got.silence_us, 3);
  EXPECT_EQ(got.control_frame_bytes, 4u);
  EXPECT_EQ(got.message_bytes, 5u);
  const auto notice =
      ToClientOf(Encode(Notice{Notice::Kind::kOrphaned, Key{"k", 1}, "somebody", "why"}));
  const auto& got_notice = std::get<Notice>(std::get<ToClient>(notice).messages.at(0));
  EXPECT_EQ(got_notice.kind, Notice::Kind::kOrphaned);
  EXPECT_EQ(got_notice.key, (Key{"k", 1}));
  EXPECT_EQ(got_notice.by, "somebody");
  EXPECT_EQ(got_notice.text, "why");
  EXPECT_TRUE(std::holds_alternative<Error>(
      std::get<ToClient>(ToClientOf(Encode(Error{ErrorCode::kHelloRequired, "x"})))
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
  ASSERT_EQ(frames.payloads.size(), 1u);  // one frame serves both
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

// ---- what must be refused
// --------------------------------------------------------------------------

Error RefusedWhole(const std::variant<ToBroker, Error>& decoded) {
  EXPECT_TRUE(std::holds_alternative<Error>(decoded));
  return std::holds_alternative<Error>(decoded) ? std::get<Error>(decoded) : Error{};
}

// Decodes one hand-made message and returns what is wrong with it.
Malformed RefusedOne(flatbuffers::FlatBufferBuilder& builder, wire::Body type,
                     flatbuffers::Offset<void> body, std::span<const Payload> payloads = {},
                     RequestId id = 5) {
  const auto message = wire::CreateMessage(builder, id, type, body);
  const auto list = builder.CreateVector(&message, 1);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  const auto decoded = DecodeToBroker(
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()})),
      payloads, kControlLimit);
  if (const auto* error = std::get_if<Error>(&decoded)) {
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

flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> Bytes(
    flatbuffers::FlatBufferBuilder& builder, std::string_view bytes) {
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

TEST(WireRefuses, OtherVersionsNamingBoth) {
  Encoder encoder;
  encoder.Begin(0, kProtocolVersion + 1);
  encoder.Add(Hello{1, "from the future"});
  const Error error = RefusedWhole(ToBrokerOf(Finish(encoder)));
  EXPECT_EQ(error.code, ErrorCode::kVersion);
  EXPECT_THAT(error.text, HasSubstr("version 2"));
  EXPECT_THAT(error.text, HasSubstr("version 1"));
}

TEST(WireRefuses, AnEnvelopeOfAnotherVersionWhateverElseIsInIt) {
  // Only the first field of the root table is the same in all versions.
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString("a field that this version does not know");
  const auto start = builder.StartTable();
  builder.AddElement<std::uint32_t>(4, 9, 0);
  builder.AddOffset(6, text);  // where this version has an integer
  builder.Finish(flatbuffers::Offset<wire::Envelope>(builder.EndTable(start)), "ATSP");
  const Error error = RefusedWhole(DecodeToBroker(
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
    EXPECT_TRUE(std::holds_alternative<Error>(decoded));
  }
}

TEST(WireRefuses, EveryTruncation) {
  Generator generate(4);
  const Frames frames = Encode(Request{1, Complete{generate.Lease(), generate.Tuples()}});
  for (std::size_t size = 0; size < frames.control.size(); ++size) {
    // A copy of exactly this size, so that a sanitizer sees any read beyond it.
    const std::vector<std::byte> part(frames.control.begin(),
                                      frames.control.begin() + static_cast<std::ptrdiff_t>(size));
    const auto decoded = DecodeToBroker(part, frames.payloads, kControlLimit);
    if (const auto* envelope = std::get_if<ToBroker>(&decoded)) {
      // Cut inside of padding at the end, if at all.
      EXPECT_GE(size + 8, frames.control.size());
      EXPECT_LE(envelope->messages.size(), 1u);
    }
  }
}

// What decodes after any damage is still well formed: keys and patterns canonical, enums in range.
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
      // Encoding again reads every byte of every field.
      encoder.Begin(1);
      encoder.Add(*request);
      const auto again = ToBrokerOf(Finish(encoder));
      ASSERT_TRUE(std::holds_alternative<ToBroker>(again)) << std::get<Error>(again).text;
      const auto& copy = std::get<ToBroker>(again).messages.at(0);
      ASSERT_TRUE(std::holds_alternative<Request>(copy)) << std::get<Malformed>(copy).text;
      Same(std::get<Request>(copy).body, request->body);
    }
  }
}

TEST(WireRefuses, WrongPayloadFrames) {
  const Payload large = Payload::Copy(std::string(1000, 'L'));
  const Frames good = Encode(Request{5, Put{{{Key{1}, large, {}, false, false}}}});
  // None, though one is named: the request is bad.
  const auto none = DecodeToBroker(good.control, {}, kControlLimit);
  const auto& message = std::get<ToBroker>(none).messages.at(0);
  ASSERT_TRUE(std::holds_alternative<Malformed>(message));
  EXPECT_EQ(std::get<Malformed>(message).id, 5u);
  EXPECT_THAT(std::get<Malformed>(message).text, HasSubstr("payload frame 0 is named, but 0 came"));
  // Two, though one is named: nobody knows what is meant.
  const std::vector<Payload> two = {large, large};
  const Error error = RefusedWhole(DecodeToBroker(good.control, two, kControlLimit));
  EXPECT_EQ(error.code, ErrorCode::kBadRequest);
  EXPECT_THAT(error.text, HasSubstr("2 payload frames came"));
}

TEST(WireRefuses, ControlFramesOverTheLimit) {
  const Frames frames = Encode(Request{5, Put{{{Key{1}, Payload::Copy("x"), {}, false, false}}}});
  const Error error = RefusedWhole(DecodeToBroker(frames.control, {}, frames.control.size() - 1));
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
  EXPECT_TRUE(std::holds_alternative<Error>(ToClientOf(Encode(Request{5, GetStats{}}))));
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
    const auto tuple = wire::CreateTuple(builder, Bytes(builder, bytes));
    const auto list = builder.CreateVector(&tuple, 1);
    EXPECT_THAT(RefusedOne(builder, wire::Body::Put, wire::CreatePut(builder, list).Union()).text,
                HasSubstr("canonical"));
  }
}

TEST(WireRefuses, PayloadsThatAreBothInlineAndInAFrame) {
  flatbuffers::FlatBufferBuilder builder;
  const auto key = Bytes(builder, Key{1}.bytes());
  const auto tuple = wire::CreateTuple(builder, key, Bytes(builder, "inline"), 0);
  const auto list = builder.CreateVector(&tuple, 1);
  const Payload frame = Payload::Copy("frame");
  EXPECT_THAT(
      RefusedOne(builder, wire::Body::Put, wire::CreatePut(builder, list).Union(), {&frame, 1})
          .text,
      HasSubstr("both inline and in frame 0"));
}

TEST(WireRefuses, InlinePayloadsThatAreTooLong) {
  flatbuffers::FlatBufferBuilder builder;
  const auto key = Bytes(builder, Key{1}.bytes());
  const std::string bytes(kInlinePayloadBytes + 1, 'i');
  const auto tuple = wire::CreateTuple(builder, key, Bytes(builder, bytes));
  const auto list = builder.CreateVector(&tuple, 1);
  EXPECT_THAT(RefusedOne(builder, wire::Body::Put, wire::CreatePut(builder, list).Union()).text,
              HasSubstr("513"));
}

TEST(WireRefuses, AffinityBeyondTheInputs) {
  for (const std::int32_t affinity : {-2, 1, INT32_MAX}) {
    flatbuffers::FlatBufferBuilder builder;
    const std::string input = Key{"in"}.bytes();
    const std::uint32_t end = static_cast<std::uint32_t>(input.size());
    const auto key = Bytes(builder, Key{1}.bytes());
    const auto inputs =
        wire::CreateKeys(builder, Bytes(builder, input), builder.CreateVector(&end, 1));
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
    const auto bytes = Bytes(builder, two);
    const auto keys = wire::CreateKeys(builder, bytes, builder.CreateVector(ends));
    const auto hold = wire::CreateHold(builder, keys);
    EXPECT_THAT(RefusedOne(builder, wire::Body::Hold, hold.Union()).text, HasSubstr("held"));
  }
}

TEST(WireRefuses, BadPatterns) {
  const auto refused = [](wire::Op op, std::int64_t integer, bool with_text) {
    flatbuffers::FlatBufferBuilder builder;
    flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> text = 0;
    if (with_text) text = Bytes(builder, "t");
    const auto field = wire::CreateFieldPattern(builder, op, integer, text);
    const auto fields = builder.CreateVector(&field, 1);
    const auto pattern = wire::CreatePattern(builder, fields);
    return RefusedOne(builder, wire::Body::Count, wire::CreateCount(builder, pattern).Union()).text;
  };
  EXPECT_THAT(refused(static_cast<wire::Op>(9), 0, false), HasSubstr("op 9"));
  EXPECT_THAT(refused(wire::Op::Exact, 3, true), HasSubstr("an integer and a string"));
  EXPECT_THAT(refused(wire::Op::Any, 3, false), HasSubstr("any value"));
  EXPECT_THAT(refused(wire::Op::AtMost, 0, true), HasSubstr("pattern"));
  EXPECT_THAT(refused(wire::Op::Prefix, 1, false), HasSubstr("pattern"));
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

// Many tables that share one long key would ask for far more memory than the frame has.
TEST(WireRefuses, PartsThatOverlap) {
  flatbuffers::FlatBufferBuilder builder;
  const auto key = Bytes(builder, Key{std::string(200, 'k')}.bytes());
  std::vector<flatbuffers::Offset<wire::Tuple>> tuples;
  for (int i = 0; i < 100; ++i) tuples.push_back(wire::CreateTuple(builder, key));
  const auto put = wire::CreatePut(builder, builder.CreateVector(tuples));
  const auto message = wire::CreateMessage(builder, 5, wire::Body::Put, put.Union());
  const auto list = builder.CreateVector(&message, 1);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  const auto control =
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()}));
  EXPECT_THAT(RefusedWhole(DecodeToBroker(control, {}, kControlLimit)).text, HasSubstr("overlap"));
}

// One table named a million times: the check has to give up, not to take minutes.
TEST(WireRefuses, TablesThatAreNamedAgainAndAgain) {
  flatbuffers::FlatBufferBuilder builder;
  const auto fields = [&] {
    const auto field = wire::CreateFieldPattern(builder);
    return builder.CreateVector(std::vector(2000, field));
  }();
  const auto pattern = wire::CreatePattern(builder, fields);
  const auto patterns = builder.CreateVector(std::vector(2000, pattern));
  const auto read = wire::CreateRead(builder, patterns);
  const auto message = wire::CreateMessage(builder, 5, wire::Body::Read, read.Union());
  const auto list = builder.CreateVector(std::vector(2000, message));
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, kProtocolVersion, 1, list));
  const auto control =
      std::as_bytes(std::span(builder.GetBufferPointer(), std::size_t{builder.GetSize()}));
  EXPECT_THAT(RefusedWhole(DecodeToBroker(control, {}, kControlLimit)).text, HasSubstr("damaged"));
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
