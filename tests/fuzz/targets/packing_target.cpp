// The parts of packed messages. A peer may fill them with anything, split them anywhere, and lose
// or repeat them.
//
// Input: [kind: 1] and then
//   kAnyParts      [size of a part: 2][its bytes]...
//   kHeadAndParts  [control_bytes: 4][payloads: 4][bytes: 8][what follows the head: 2][its bytes]
//                  [size of a further part: 2][its bytes]...: the heads of the parts are valid
//   kSent          [size of the control frame: 3][payloads: 1][size of each: 3]: split as when sent
//   kCutAnywhere   as kSent, twice and with sizes of 2 bytes; then [message: 1][size of a part: 2]
//                  or [message: 1][0: 2], which starts the message again
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "packing.h"
#include "target.h"
#include "wire.h"

namespace acan::fuzz::packing_target {
namespace {

using namespace tuplespace;

enum Kind : std::uint8_t { kAnyParts, kHeadAndParts, kSent, kCutAnywhere, kKinds };

constexpr std::size_t kMaxPayloads = 16, kMaxLargePayloads = 3;
// The limits of a peer that receives from an untrusted peer, but smaller.
constexpr PackingLimits kLimits{1 << 16, 1 << 18, 1 << 20};
// The memory that decoding may take in addition to the received bytes and the current payload.
constexpr std::uint64_t kOtherBytes = 64 << 10;

struct Message {
  std::string control;
  std::vector<std::string> payloads;
  bool operator==(const Message&) const = default;
};

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Splits the message as the product sends it.
std::vector<std::string> PartsOf(const Message& message, std::uint64_t number) {
  std::vector<Payload> payloads;
  for (const std::string& payload : message.payloads) payloads.push_back(Payload::Copy(payload));
  SendProgress progress{number, 0};
  Packer packer(BytesOf(message.control), payloads, progress);
  std::vector<std::string> parts;
  while (!packer.done()) {
    parts.emplace_back(packer.PartBytes(), '\0');
    Require(parts.back().size() <= kPartBytes, "a part of {} bytes", parts.back().size());
    packer.CopyPart(std::as_writable_bytes(std::span(parts.back())));
    packer.Advance();
  }
  return parts;
}

std::string PartHeadBytes(std::uint64_t number, std::uint64_t offset) {
  std::string head(kPartHeadBytes, '\0');
  std::memcpy(head.data() + 4, "ATSC", 4);
  std::memcpy(head.data() + 8, &number, sizeof(number));
  std::memcpy(head.data() + 16, &offset, sizeof(offset));
  return head;
}

// One peer's Assembly, with checks after each part.
class Receiving {
 public:
  explicit Receiving(PackingLimits limits) : limits_(limits), assembly_(limits) {}

  // Returns the message that `part` completes, if any.
  std::optional<Message> Add(std::string_view part) {
    came_bytes_ += part.size();
    const HeapWatch heap;
    const Assembly::Result result = assembly_.Add(BytesOf(part));
    heap.RequireAtMost(kOtherBytes + 4 * came_bytes_ +
                       std::min(limits_.payload_bytes, most_bytes_));
    if (const auto* error = std::get_if<RequestError>(&result)) {
      Require(error->code == ErrorCode::kBadRequest || error->code == ErrorCode::kTooLarge,
              "the error {}", static_cast<int>(error->code));
      Require(!error->text.empty() && assembly_.empty(), "an error without words or end");
      refused_ = true;
      return std::nullopt;
    }
    if (std::holds_alternative<Assembly::More>(result)) return std::nullopt;
    Require(assembly_.empty(), "a message is open behind a whole one");
    return std::holds_alternative<UnpackedWhole>(result)
               ? ToMessage(std::get<UnpackedWhole>(result), part)
               : ToMessage(std::get<Assembled>(result));
  }
  // Sets the size of the largest payload. Parts from a fuzzer may claim any size.
  void ExpectAtMost(std::uint64_t bytes) { most_bytes_ = bytes; }
  bool refused() const { return refused_; }

 private:
  static Message ToMessage(const UnpackedWhole& whole, std::string_view part) {
    const auto in_part = [&](std::size_t begin, std::size_t bytes) {
      Require(begin <= part.size() && bytes <= part.size() - begin,
              "{} bytes at {} are named of a part of {}", bytes, begin, part.size());
      return std::string(part.substr(begin, bytes));
    };
    Message message{in_part(whole.control_begin, whole.control_bytes), {}};
    std::size_t end = whole.control_begin + whole.control_bytes;
    for (const auto& range : whole.payloads) {
      Require(range.begin >= end && range.begin % 64 == 0, "a payload at {}, behind {}",
              range.begin, end);
      end = range.begin + range.bytes;
      message.payloads.push_back(in_part(range.begin, range.bytes));
    }
    return message;
  }

  Message ToMessage(const Assembled& assembled) const {
    Message message{TextOf(assembled.control), {}};
    std::uint64_t bytes = message.control.size();
    for (const Payload& payload : assembled.payloads) {
      Require(reinterpret_cast<std::uintptr_t>(payload.data()) % 64 == 0, "a payload at {}",
              static_cast<const void*>(payload.data()));
      message.payloads.emplace_back(payload.text());
      bytes += payload.size();
    }
    Require(bytes <= came_bytes_, "{} bytes came, the message has {}", came_bytes_, bytes);
    return message;
  }

  const PackingLimits limits_;
  Assembly assembly_;
  std::uint64_t came_bytes_ = 0;
  std::uint64_t most_bytes_ = UINT64_MAX;
  bool refused_ = false;
};

// A message that was decoded can be encoded and decodes to the same.
void RequireComesBack(const Message& message) {
  Receiving receiving({});
  receiving.ExpectAtMost(1 << 23);
  const std::vector<std::string> parts = PartsOf(message, 7);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<Message> whole = receiving.Add(parts[i]);
    Require(whole.has_value() == (i + 1 == parts.size()), "part {} of {} completed {}", i + 1,
            parts.size(), whole.has_value());
    if (whole) Require(*whole == message, "the message came changed");
  }
}

bool TakeParts(Receiving& receiving, const std::vector<std::string>& parts) {
  bool taken = false;
  for (const std::string& part : parts) {
    const std::optional<Message> message = receiving.Add(part);
    if (!message) continue;
    RequireComesBack(*message);
    taken = true;
  }
  return taken && !receiving.refused();
}

bool RunAnyParts(InputReader in) {
  std::vector<std::string> parts;
  while (!in.empty()) parts.emplace_back(in.SizedText());
  Receiving receiving(kLimits);
  return TakeParts(receiving, parts);
}

bool RunHeadAndParts(InputReader in) {
  const auto control_bytes = static_cast<std::uint32_t>(in.Number(4));
  const auto payloads = static_cast<std::uint32_t>(in.Number(4));
  const std::uint64_t bytes = in.Number(8);
  constexpr std::uint64_t kNumber = 5;
  std::string first(kPackedHeadBytes, '\0');
  std::memcpy(first.data() + 4, "ATSP", 4);
  std::memcpy(first.data() + 8, &control_bytes, sizeof(control_bytes));
  std::memcpy(first.data() + 12, &payloads, sizeof(payloads));
  std::memcpy(first.data() + 16, &kNumber, sizeof(kNumber));
  std::memcpy(first.data() + 24, &bytes, sizeof(bytes));
  first += in.SizedText();
  std::uint64_t offset = first.size();
  std::vector<std::string> parts = {std::move(first)};
  while (!in.empty()) {
    const std::string_view text = in.SizedText();
    parts.push_back(PartHeadBytes(kNumber, offset) + std::string(text));
    offset += text.size();
  }
  Receiving limited(kLimits);
  const bool taken = TakeParts(limited, parts);
  // A client sets no limits for its broker. This leaves out messages that would take too much
  // memory.
  if (bytes <= kLimits.message_bytes) {
    Receiving unlimited({});
    unlimited.ExpectAtMost(kLimits.message_bytes);
    TakeParts(unlimited, parts);
  }
  return taken;
}

Message SentMessage(InputReader& in, std::size_t size_bytes, std::size_t most_bytes,
                    std::size_t most_payloads, char fill) {
  const auto filled = [&](std::size_t bytes) {
    std::string text(bytes % (most_bytes + 1), '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(fill + i % 61);
    return text;
  };
  Message message{filled(in.Number(size_bytes)), {}};
  const std::size_t payloads = in.Number(1) % (most_payloads + 1);
  for (std::size_t i = 0; i < payloads; ++i) {
    message.payloads.push_back(filled(in.Number(size_bytes)));
  }
  return message;
}

bool RunSent(InputReader in) {
  RequireComesBack(SentMessage(in, 3, kPartBytes + (1 << 18), kMaxLargePayloads, 1));
  return true;
}

// The messages of two senders, split into parts of any size, in any order, with parts left out and
// repeated: every completed message is one of them, complete.
bool RunCutAnywhere(InputReader in) {
  std::array<Message, 2> messages;
  std::array<std::string, 2> packed;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    messages[i] = SentMessage(in, 2, 4096, kMaxPayloads, static_cast<char>(1 + 64 * i));
    packed[i] = PartsOf(messages[i], i + 1).at(0);
  }
  std::array<std::size_t, 2> at{};
  Receiving receiving(kLimits);
  bool taken = false;
  while (!in.empty()) {
    const std::size_t which = in.Number(1) % 2;
    const std::size_t wanted = in.Number(2);
    if (wanted == 0) at[which] = 0;
    // The first part contains at least the whole head.
    const std::size_t least = at[which] == 0 ? kPackedHeadBytes : 1;
    const std::size_t left = packed[which].size() - at[which];
    const std::size_t bytes = std::min(std::max(wanted, least), left);
    if (bytes == 0) continue;
    std::string part = packed[which].substr(at[which], bytes);
    if (at[which] > 0) part.insert(0, PartHeadBytes(which + 1, at[which]));
    at[which] += bytes;
    const std::optional<Message> whole = receiving.Add(part);
    Require(!receiving.refused(), "parts of a message that was sent are refused");
    if (!whole) continue;
    Require(*whole == messages[which], "a message came changed");
    taken = true;
  }
  return taken;
}

bool Run(std::string_view input) {
  InputReader in(input);
  switch (in.Number(1) % kKinds) {
    case kAnyParts:
      return RunAnyParts(in);
    case kHeadAndParts:
      return RunHeadAndParts(in);
    case kSent:
      return RunSent(in);
    default:
      return RunCutAnywhere(in);
  }
}

std::string OfKind(Kind kind, const std::string& rest) {
  return NumberBytes(kind, 1) + rest;
}

std::string HeadAndFirst(std::uint64_t control_bytes, std::uint64_t payloads, std::uint64_t bytes,
                         const std::string& follows) {
  return OfKind(kHeadAndParts, NumberBytes(control_bytes, 4) + NumberBytes(payloads, 4) +
                                   NumberBytes(bytes, 8) + SizedTextBytes(follows));
}

std::string LittleEndian(std::uint64_t value) {
  std::string bytes = NumberBytes(value, 8);
  std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

std::vector<Seed> Seeds() {
  const Message message{"a control frame", {"first", "", std::string(100, 'p')}};
  const std::string packed = PartsOf(message, 3).at(0);
  std::string cut = SizedTextBytes(packed.substr(0, 40));
  for (std::size_t at = 40; at < packed.size(); at += 50) {
    cut += SizedTextBytes(PartHeadBytes(3, at) + packed.substr(at, 50));
  }
  // Two messages of a few bytes: three parts of the first one, with two parts of the second between
  // them.
  const std::string two = NumberBytes(5, 2) + NumberBytes(2, 1) + NumberBytes(70, 2) +
                          NumberBytes(0, 2) + NumberBytes(300, 2) + NumberBytes(1, 1) +
                          NumberBytes(64, 2);
  const auto turn = [](std::uint64_t which, std::uint64_t bytes) {
    return NumberBytes(which, 1) + NumberBytes(bytes, 2);
  };
  return {{"whole", OfKind(kAnyParts, SizedTextBytes(packed))},
          {"parts", OfKind(kAnyParts, cut)},
          {"head", HeadAndFirst(packed.size() - kPackedHeadBytes, 0, packed.size(),
                                packed.substr(kPackedHeadBytes))},
          {"head-and-parts", HeadAndFirst(8, 1, 32 + 8 + 8 + 16 + 70, "controls") +
                                 SizedTextBytes(LittleEndian(70) + std::string(16, '\0')) +
                                 SizedTextBytes(std::string(70, 'p'))},
          {"sent", OfKind(kSent, NumberBytes(20, 3) + NumberBytes(2, 1) + NumberBytes(600, 3) +
                                     NumberBytes(0, 3))},
          {"sent-large", OfKind(kSent, NumberBytes(20, 3) + NumberBytes(2, 1) +
                                           NumberBytes(kPartBytes, 3) + NumberBytes(65, 3))},
          {"cut", OfKind(kCutAnywhere, two + turn(0, 40) + turn(0, 30) + turn(0, 4096))},
          {"cut-and-mixed", OfKind(kCutAnywhere, two + turn(0, 40) + turn(1, 50) + turn(0, 60) +
                                                     turn(1, 4096) + turn(0, 0) + turn(0, 4096))}};
}

std::vector<Seed> Hostile() {
  constexpr std::uint64_t kMost = UINT64_MAX;
  return {{"a-huge-message", HeadAndFirst(0, 0, kMost, "")},
          {"a-huge-control-frame", HeadAndFirst(UINT32_MAX, 0, UINT32_MAX + 32ull, "")},
          {"too-many-payloads", HeadAndFirst(0, UINT32_MAX, 1 << 20, "")},
          {"payloads-that-wrap-round",
           HeadAndFirst(0, 2, kMost, LittleEndian(kMost - 100) + LittleEndian(kMost))}};
}

const Registration registration({"packing", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::packing_target
