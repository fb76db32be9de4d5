// The messages between the reader of a payload and the client that holds it. Anyone who can connect
// to the other side may send them.
//
// Input: [kind: 1] and then
//   kToHolder   a message for a holder
//   kToReader   a message for a reader
//   kHolding    [peer: 1][size: 2][a message]...: for a holder, which serves what tickets allow
//   kReading    [size: 2][a message]...: for a reader that has started three fetches
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "peer_holder.h"
#include "peer_reader.h"
#include "target.h"

namespace acan::fuzz::peer_target {
namespace {

using namespace tuplespace;

enum PeerKind : std::uint8_t { kToHolder, kToReader, kHolding, kReading, kPeerKinds };

constexpr std::uint64_t kFuzzSession = 3;
constexpr std::uint64_t kFuzzedBytes = 3'000;

std::span<const std::byte> MessageOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string TextOfMessage(const std::vector<std::byte>& message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

Key FuzzKey() {
  return Key{"tile", 1};
}
// Known to the fuzzer, so that tickets are valid.
std::string FuzzSecret() {
  return std::string(kTicketSecretBytes, 's');
}
FetchFrame GoodFetch(std::uint64_t transfer) {
  return {transfer, MakeTicket(FuzzSecret(), {kFuzzSession, "r", "", FuzzKey().bytes()}, 1000),
          1 << 20, "r", FuzzKey()};
}

bool RunToHolder(std::string_view message) {
  const auto frame = DecodeToHolder(MessageOf(message));
  if (!frame) return false;
  const std::string again =
      TextOfMessage(std::visit([](const auto& one) { return EncodePeer(one); }, *frame));
  Require(again == message, "a message to a holder changes");
  return true;
}

bool RunToReader(std::string_view message) {
  const auto frame = DecodeToReader(MessageOf(message));
  if (!frame) return false;
  if (const auto* refusal = std::get_if<RefusalFrame>(&*frame)) {
    Require(TextOfMessage(EncodePeer(*refusal)) == message, "a refusal changes");
    return true;
  }
  const auto& piece = std::get<PieceFrame>(*frame);
  Require(piece.offset + piece.bytes.size() <= piece.total_bytes, "a piece beyond its payload");
  Require(TextOfMessage(EncodePeerHead(piece)) == message.substr(0, kPieceHeadBytes),
          "the head of a piece changes");
  return true;
}

// What the holder keeps and sends must stay within its limits.
bool RunHolding(InputReader in) {
  constexpr PeerHolderLimits kFewer{.window_bytes = 2 << 20,
                                    .in_flight_bytes_per_peer = 3 << 20,
                                    .in_flight_bytes = 4 << 20,
                                    .transfers_per_peer = 3,
                                    .transfers = 5};
  static const Payload payload = Payload::Copy(std::string(5 << 20, 'p'));  // takes 10 ms
  PeerHolder holder(FuzzSecret(), kFewer);
  holder.SessionBegan(kFuzzSession, 0, 0);
  bool good = true;
  std::int64_t now_us = 0;
  while (!in.empty()) {
    const std::string peer(1, static_cast<char>('a' + in.Number(1) % 4));
    good = holder.Receive(peer, "", MessageOf(in.SizedText()), now_us += 10) && good;
    for (const Key& key : holder.TakeAsked()) {
      Require(key == FuzzKey(), "a payload is asked for without a ticket");
      holder.Provide(key, payload, now_us);
    }
    std::size_t messages = 0;
    while (holder.TakeOutput()) ++messages;
    Require(messages <= (4 << 20) / kPieceBytes + 5, "{} messages at once", messages);
  }
  holder.Tick(now_us + kFewer.stall_us);
  return good;
}

bool RunReading(InputReader in) {
  PeerReader reader(PeerReaderLimits{.open_fetches = 2});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    reader.Fetch({id, FuzzKey(), kFuzzedBytes, std::string(kTicketBytes, 't'), "r"}, 0);
  }
  std::size_t ended = 0;
  while (!in.empty()) {
    const HeapWatch heap;
    reader.Receive(MessageOf(in.SizedText()), 1);
    heap.RequireAtMost((64 << 10) + kFuzzedBytes);
    for (const FetchedPayload& fetched : reader.TakeFetched()) {
      ++ended;
      Require(fetched.payload.empty() || fetched.payload.size() == kFuzzedBytes,
              "a payload of {} bytes", fetched.payload.size());
      Require(fetched.payload.empty() || HashOf(fetched.payload.bytes()) == *fetched.payload.hash(),
              "a payload without its hash");
    }
    reader.TakeOutput();
  }
  const bool failed = reader.failed();
  reader.Fail("over");
  ended += reader.TakeFetched().size();
  Require(ended == 3, "of three fetches {} ended", ended);
  return !failed;
}

bool RunPeer(std::string_view input) {
  InputReader in(input);
  switch (in.Number(1) % kPeerKinds) {
    case kToHolder:
      return RunToHolder(in.Rest());
    case kToReader:
      return RunToReader(in.Rest());
    case kHolding:
      return RunHolding(in);
    default:
      return RunReading(in);
  }
}

std::string KindBytes(PeerKind kind) {
  return NumberBytes(kind, 1);
}

std::vector<Seed> PeerSeeds() {
  const std::string payload(kFuzzedBytes, 'x');
  const auto bytes = MessageOf(payload);
  const auto piece = [&](std::uint64_t id, std::uint64_t at, std::uint64_t size) {
    return TextOfMessage(EncodePeerHead({id, kFuzzedBytes, at, HashOf(bytes), {}})) +
           payload.substr(at, size);
  };
  const auto to_holder = [](const auto& frame) { return TextOfMessage(EncodePeer(frame)); };
  const std::string from_a = NumberBytes(0, 1);
  return {
      {"fetch", KindBytes(kToHolder) + to_holder(GoodFetch(1))},
      {"more", KindBytes(kToHolder) + to_holder(MoreFrame{1, 1 << 20})},
      {"stop", KindBytes(kToHolder) + to_holder(StopFrame{1})},
      {"piece", KindBytes(kToReader) + piece(1, 1'000, 100)},
      {"refusal", KindBytes(kToReader) + to_holder(RefusalFrame{1, FetchRefusal::kGone})},
      {"holding", KindBytes(kHolding) + from_a + SizedTextBytes(to_holder(GoodFetch(1))) + from_a +
                      SizedTextBytes(to_holder(MoreFrame{1, 1 << 20})) + from_a +
                      SizedTextBytes(to_holder(GoodFetch(2))) + from_a +
                      SizedTextBytes(to_holder(StopFrame{2}))},
      {"reading", KindBytes(kReading) + SizedTextBytes(piece(1, 0, kFuzzedBytes)) +
                      SizedTextBytes(to_holder(RefusalFrame{2, FetchRefusal::kBusy})) +
                      SizedTextBytes(piece(3, 0, kFuzzedBytes))},
  };
}

std::vector<Seed> PeerHostile() {
  const std::string fetch = TextOfMessage(EncodePeer(GoodFetch(1)));
  std::string many = KindBytes(kHolding);
  for (int i = 0; i < 200; ++i) {
    std::string forged = fetch;
    forged[30] = static_cast<char>(i);
    many += NumberBytes(0, 1) + SizedTextBytes(forged);
  }
  return {{"many-forged", many},
          {"more-key-than-bytes",
           KindBytes(kToHolder) + fetch.substr(0, 62) + "\xff\xff" + fetch.substr(64)}};
}

const Registration peer_registration({"peer", RunPeer, PeerSeeds, PeerHostile});

}  // namespace
}  // namespace acan::fuzz::peer_target
