// The wire form of messages: one control frame (a FlatBuffer, schema/wire.fbs) and payload frames.
// Pure: bytes in, values out. packing.h says how frames are arranged in a socket's messages.
// PROTOCOL.md describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "envelope.h"

namespace tuplespace {

// Payloads up to this size travel inside the control frame, because a frame of their own would cost
// more than copying them.
inline constexpr std::size_t kInlinePayloadBytes = 512;
// Also payloads up to this size if the control frame will be compressed, because task descriptions
// are repetitive.
inline constexpr std::size_t kMaxInlinePayloadBytes = 16 * 1024;
inline constexpr std::size_t kMaxPayloadFrames = 131'072;  // in one message
// Of an envelope to the broker. Many small messages, tuples or patterns take some twenty times as
// much memory as the frame, before a role or a quota can refuse them. An envelope of an Encoder has
// fewer messages, as each takes at least 20 bytes (kBatchControlBytes).
inline constexpr std::size_t kMaxMessages = 16'384;
inline constexpr std::size_t kMaxItems = 131'072;  // tuples and patterns of all its messages
inline constexpr std::size_t kMaxMalformed = 64;   // malformed messages; more end the session
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxEndpointBytes = 128;        // in a Listening or a Place
inline constexpr std::size_t kMaxPublicKeyBytes = 64;        // likewise
inline constexpr std::size_t kMaxTicketBytes = 64;           // in a Place
inline constexpr std::size_t kMaxTextBytes = 16'384;         // of causes and error texts
inline constexpr std::size_t kMaxControlBytes = 1ull << 30;  // FlatBuffers' limit is 2 GiB
// A batch is closed when it exceeds this.
inline constexpr std::size_t kBatchControlBytes = 256 * 1024;
inline constexpr std::size_t kBatchFrames = 1024;  // or this
// Or this many bytes of payload frames: FrontRoom sends a large payload in a message of its own
// without a copy, which saves more than the message costs.
inline constexpr std::size_t kBatchFrameBytes = 128 * 1024;

// A reference to a payload in shared memory, as a message has it.
struct SegmentRef {
  std::uint64_t id = 0;  // chosen by the sender
  std::uint64_t bytes = 0;
  std::int32_t fd = -1;                  // the sender's descriptor
  std::optional<PayloadHash> hash = {};  // the payload's hash according to the message
};

// Says how the receiver can find a payload in shared memory. nullopt: the bytes must be sent.
class SegmentNamer {
 public:
  virtual ~SegmentNamer() = default;
  virtual std::optional<SegmentRef> Name(const Payload& payload) = 0;
};

// Opens the payload that a message of `session` names. nullopt if it cannot be opened. If the
// result has a hash, this process has computed that hash from the bytes.
class SegmentOpener {
 public:
  virtual ~SegmentOpener() = default;
  virtual std::optional<Payload> Open(std::uint64_t session, const SegmentRef& ref) = 0;
};

// The properties of a message's receiver that affect its encoding.
struct EncodeFor {
  std::uint32_t version = kProtocolVersion;
  // Asked for every payload that is not inline. Null: no payload is in shared memory.
  SegmentNamer* namer = nullptr;
  // Payloads up to kMaxInlinePayloadBytes are inline, too, as long as the control frame has at
  // most this size, because it will be compressed. 0: it will not be.
  std::size_t compressed_limit = 0;
};

// Collects messages and their payloads into one batch. Reusable: Finish, then Begin again.
class Encoder {
 public:
  Encoder();
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void Begin(std::uint64_t session, const EncodeFor& receiver = {});
  // Shares payloads that are not inline, without copying. Cuts texts and names that are too long.
  void Add(const Request& request);
  void Add(const Hello& hello);
  void Add(const Ping& ping);
  void Add(const Bye& bye);
  void Add(const Reply& reply);
  void Add(const Done& done);
  void Add(const Notice& notice);
  void Add(const Welcome& welcome);
  void Add(const Pong& pong);
  void Add(const Goodbye& goodbye);
  void Add(const RequestError& error);
  void Add(const ClientSegments& segments);
  void Add(const Listening& listening);
  void Add(const BrokerSegments& segments);

  bool empty() const;
  bool full() const;  // the batch should be closed: one of the kBatch... limits is reached
  // The control frame; valid until the next Begin.
  std::span<const std::byte> Finish();
  // The payload frames, in order.
  std::vector<Payload> TakeFrames();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Upper bounds of how much a message adds to the control frame, and of its payload frames.
std::size_t ControlBytesBound(const RequestBody& body);
std::size_t ControlBytesBound(const ReplyBody& body);
std::size_t PayloadFramesBound(const RequestBody& body);
std::size_t PayloadFramesBound(const ReplyBody& body);
// kTooLarge if the bounds do not allow a client to read this answer; nullopt: it can be sent.
std::optional<RequestError> ProblemOfSending(const ReplyBody& body);

// kVersion, naming both versions, if these bytes begin with a head or a control frame of another
// protocol version.
std::optional<RequestError> VersionProblem(std::span<const std::byte> bytes);

// Every field is checked, so the result is well formed and has canonical keys whatever the input. A
// client compares payloads that came as bytes with their hashes and leaves out those that differ
// (FoundTuple::damaged). A broker compares them only with `check_payloads`; a request with a wrong
// one becomes Malformed with kDamaged and, for a Complete, its lease. Payloads in shared memory are
// not compared: their makers could change them afterwards. A single bad request becomes Malformed
// (with kBusy if a segment cannot be opened), but all its segments are opened as for a good one. A
// bad frame fails as a whole with kBadRequest, kTooLarge, or kVersion if it is of another protocol
// version (the text names both). What follows more than kMaxMalformed malformed messages is left
// out.
std::variant<ToBroker, RequestError> DecodeToBroker(std::span<const std::byte> control,
                                                    std::span<const Payload> frames,
                                                    std::uint64_t control_frame_bytes,
                                                    SegmentOpener* opener = nullptr,
                                                    bool check_payloads = false);
std::variant<ToClient, RequestError> DecodeToClient(std::span<const std::byte> control,
                                                    std::span<const Payload> frames,
                                                    SegmentOpener* opener = nullptr);

}  // namespace tuplespace
