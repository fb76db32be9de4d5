// Control frames with their payload frames, decoded as a broker and a client do.
//
// The control frame may be compressed: in the input or, with a flag, by the target.
//
// Input: [flags: 1][frames: 1][size of each frame: 2][frames][control frame]
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "compression.h"
#include "target.h"
#include "tests/tuplespace/wire/wire_messages.h"
#include "wire.h"

namespace acan::fuzz::wire_target {
namespace {

using namespace tuplespace;

constexpr std::uint64_t kToClient = 1, kCheckPayloads = 2, kUnaligned = 4, kCompressed = 8;
constexpr std::uint64_t kMaxFrames = 16;

// Opens every segment as empty memory, so that messages that name segments are also decoded.
class AnyOpener : public SegmentOpener {
 public:
  std::optional<Payload> Open(std::uint64_t, const SegmentRef& ref) override {
    if (ref.fd < 0) return std::nullopt;
    return Payload();
  }
};

struct Parts {
  std::uint64_t flags = 0;
  std::vector<Payload> frames;
  std::string control;  // starts with one extra byte if it should be unaligned
  std::span<const std::byte> ControlBytes() const {
    return std::as_bytes(std::span(control)).subspan(flags & kUnaligned ? 1 : 0);
  }
};

Parts Split(std::string_view input) {
  InputReader in(input);
  Parts parts;
  parts.flags = in.Number(1);
  std::vector<std::size_t> sizes(in.Number(1) % (kMaxFrames + 1));
  for (std::size_t& size : sizes) size = in.Number(2);
  for (const std::size_t size : sizes) parts.frames.push_back(Payload::Copy(in.Text(size)));
  if (parts.flags & kUnaligned) parts.control = " ";
  parts.control += in.Rest();
  return parts;
}

std::optional<Frames> EncodeAgain(const ToBroker& decoded) {
  Encoder encoder;
  encoder.Begin(decoded.session);
  for (const ClientMessage& message : decoded.messages) {
    if (std::holds_alternative<Malformed>(message)) return std::nullopt;
    std::visit(
        [&](const auto& one) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(one)>, Malformed>) encoder.Add(one);
        },
        message);
  }
  return Finish(encoder);
}

std::optional<Frames> EncodeAgain(const ToClient& decoded) {
  Encoder encoder;
  encoder.Begin(decoded.session);
  for (const BrokerMessage& message : decoded.messages) {
    std::visit([&](const auto& one) { encoder.Add(one); }, message);
  }
  return Finish(encoder);
}

bool SameFrames(const Frames& a, const Frames& b) {
  return a.control == b.control &&
         std::equal(a.payloads.begin(), a.payloads.end(), b.payloads.begin(), b.payloads.end(),
                    [](const Payload& x, const Payload& y) { return x.text() == y.text(); });
}

// `decode(control, frames)`. A decoded message can be encoded again and then decodes to the same.
template <typename Decoded, typename Decode>
bool Check(std::span<const std::byte> control, const Parts& parts, Decode decode) {
  const HeapWatch heap;
  const std::variant<Decoded, tuplespace::RequestError> result = decode(control, parts.frames);
  heap.RequireAtMost((64 << 10) + 128 * control.size());
  if (const auto* error = std::get_if<tuplespace::RequestError>(&result)) {
    Require(!error->text.empty(), "a frame is refused without a reason");
    return false;
  }
  const std::optional<Frames> first = EncodeAgain(std::get<Decoded>(result));
  if (!first) return false;  // a malformed request
  const std::variant<Decoded, tuplespace::RequestError> again =
      decode(first->control, first->payloads);
  const auto* error = std::get_if<tuplespace::RequestError>(&again);
  Require(error == nullptr, "what was decoded is refused after it was encoded: {}",
          error == nullptr ? "" : error->text);
  const std::optional<Frames> second = EncodeAgain(std::get<Decoded>(again));
  Require(second && SameFrames(*first, *second), "encoding and decoding changes a message");
  return true;
}

// The frame after decompression, if it was compressed; nullopt: it was refused.
std::optional<std::span<const std::byte>> Open(Decompressor& decompressor,
                                               std::span<const std::byte> arrived) {
  constexpr std::size_t kContextBytes = 512 << 10;
  const HeapWatch heap;
  const auto opened = decompressor.Open(arrived, kControlLimit);
  heap.RequireAtMost(kContextBytes + kMaxCompression * arrived.size());
  if (const auto* error = std::get_if<tuplespace::RequestError>(&opened)) {
    Require(!error->text.empty(), "a compressed frame is refused without a reason");
    return std::nullopt;
  }
  return std::get<0>(opened);
}

bool Run(std::string_view input) {
  const Parts parts = Split(input);
  Compressor compressor;
  Decompressor decompressor;
  std::span<const std::byte> arrived = parts.ControlBytes();
  if (parts.flags & kCompressed) arrived = compressor.Compress(arrived);
  const auto opened = Open(decompressor, arrived);
  if (!opened) return false;
  const bool shrank = arrived.data() != parts.ControlBytes().data();
  Require(!shrank || std::ranges::equal(*opened, parts.ControlBytes()),
          "compressing changes a frame");
  AnyOpener opener;
  if (parts.flags & kToClient) {
    return Check<ToClient>(*opened, parts, [&](auto control, const auto& frames) {
      return DecodeToClient(control, frames, &opener);
    });
  }
  return Check<ToBroker>(*opened, parts, [&](auto control, const auto& frames) {
    return DecodeToBroker(control, frames, kControlLimit, &opener,
                          (parts.flags & kCheckPayloads) != 0);
  });
}

std::string Bytes(std::uint64_t flags, Encoder& encoder) {
  const Frames frames = Finish(encoder);
  std::string bytes = NumberBytes(flags, 1) + NumberBytes(frames.payloads.size(), 1);
  for (const Payload& frame : frames.payloads) bytes += NumberBytes(frame.size(), 2);
  for (const Payload& frame : frames.payloads) bytes += frame.text();
  bytes.append(reinterpret_cast<const char*>(frames.control.data()), frames.control.size());
  return bytes;
}

template <typename... Messages>
Seed SeedOf(std::string name, std::uint64_t flags, const Messages&... messages) {
  Encoder encoder;
  encoder.Begin(7);
  (encoder.Add(messages), ...);
  return {std::move(name), Bytes(flags, encoder)};
}

std::vector<Seed> Seeds() {
  std::vector<Seed> seeds;
  Generator generate(1);
  for (std::size_t kind = 0; kind < kRequestKinds; ++kind) {
    seeds.push_back(SeedOf(fmt::format("request-{:02}", kind), kind % 2 == 0 ? kCheckPayloads : 0,
                           Request{kind + 1, generate.Body(kind)}));
  }
  for (std::size_t kind = 0; kind < kReplyKinds; ++kind) {
    seeds.push_back(SeedOf(fmt::format("reply-{:02}", kind),
                           kind % 2 == 0 ? kToClient : kToClient | kUnaligned,
                           Reply{kind + 1, generate.Answer(kind)}));
  }
  const Sharing sharing{1, 5, std::string(32, 'p'), std::string(32, 's'), 6, 7};
  seeds.push_back(SeedOf("session-to-broker", 0, Hello{7, "a name", sharing, true}, Ping{},
                         ClientSegments{std::string(32, 'c'), {1, 2}, {3}},
                         Request{1, Put{generate.Tuples()}}, Request{2, GetStats{}}, Bye{}));
  seeds.push_back(
      SeedOf("listening", 0,
             Listening{"tcp://10.0.0.1:5600", std::string(40, 'k'), std::string(32, 's')}));
  FoundTuple placed;
  placed.key = Key{"tile", 1};
  placed.resident = true;
  placed.place = std::make_shared<const Place>(
      Place{"tcp://10.0.0.1:5600", std::string(40, 'k'), std::string(40, 't')});
  seeds.push_back(SeedOf("placed", kToClient, Reply{1, Found{{placed}}}));
  Put put;
  for (std::int64_t i = 0; i < 20; ++i) {
    put.tuples.push_back({Key{"job", "task", i}, Payload::Copy(std::string(30, 'p')), {}});
  }
  seeds.push_back(SeedOf("to-be-compressed", kCompressed, Request{1, put}));
  Encoder encoder;
  encoder.Begin(7);
  encoder.Add(Request{1, put});
  Compressor compressor;
  const auto compressed = compressor.Compress(encoder.Finish());
  seeds.push_back({"compressed",
                   NumberBytes(0, 2) + std::string(reinterpret_cast<const char*>(compressed.data()),
                                                   compressed.size())});
  seeds.push_back(SeedOf("session-to-client", kToClient,
                         Welcome{7, 1, 5'000'000, 1 << 20, 1 << 30, sharing, 9, true}, Pong{5},
                         Done{{1, 2}}, Notice{Notice::Kind::kLost, Key{"job", 3}, "client", "why"},
                         BrokerSegments{{{1, 2, false}, {3, 4, true}}, {5}, {6}},
                         tuplespace::RequestError{ErrorCode::kBusy, "later"}, Goodbye{}));
  return seeds;
}

const Registration registration({"wire", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz::wire_target
