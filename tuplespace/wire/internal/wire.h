// The wire form of messages: one control frame (a FlatBuffer, schema/wire.fbs) and payload frames.
// Pure: bytes in, values out. How they stand in messages of a socket: packing.h. PROTOCOL.md
// describes the format.
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

// Payloads up to this size travel inside the control frame: a frame of its own would cost more than
// copying them.
inline constexpr std::size_t kInlinePayloadBytes = 512;
// And up to this size, if the control frame will be compressed: task descriptions repeat
// themselves.
inline constexpr std::size_t kMostInlinePayloadBytes = 16 * 1024;
inline constexpr std::size_t kMaxPayloadFrames = 131'072;  // in one message
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxEndpointBytes = 128;          // of a Listening or a Place
inline constexpr std::size_t kMaxPublicKeyBytes = 64;          // likewise
inline constexpr std::size_t kMaxTicketBytes = 64;             // of a Place
inline constexpr std::size_t kMaxTextBytes = 16'384;           // of causes and error texts
inline constexpr std::size_t kMaxControlBytes = 1ull << 30;    // FlatBuffers end at 2 GiB
inline constexpr std::size_t kBatchControlBytes = 256 * 1024;  // a batch is closed beyond this
inline constexpr std::size_t kBatchFrames = 1024;              // or beyond this
// Or beyond these bytes of payload frames: a large payload that has a message of its own is sent
// without a copy (FrontRoom), which then saves more than the message costs.
inline constexpr std::size_t kBatchFrameBytes = 128 * 1024;

// A payload in shared memory as it stands in a message.
struct SegmentRef {
  std::uint64_t id = 0;  // the sender's
  std::uint64_t bytes = 0;
  std::int32_t fd = -1;                  // of the sender
  std::optional<PayloadHash> hash = {};  // the payload's, as the message says
};

// Says how the receiver can find a payload in shared memory; nullopt: its bytes have to travel.
class SegmentNamer {
 public:
  virtual ~SegmentNamer() = default;
  virtual std::optional<SegmentRef> Name(const Payload& payload) = 0;
};

// Finds the payload that a message of `session` names; nullopt if it cannot be opened. A payload
// that comes with a hash has bytes of which this process took that hash itself.
class SegmentOpener {
 public:
  virtual ~SegmentOpener() = default;
  virtual std::optional<Payload> Open(std::uint64_t session, const SegmentRef& ref) = 0;
};

// Whom a message is encoded for.
struct EncodeFor {
  std::uint32_t version = kProtocolVersion;
  // Is asked about every payload that is not inline. Null: none is in shared memory.
  SegmentNamer* namer = nullptr;
  // Payloads up to kMostInlinePayloadBytes are inline, too, while the control frame stays within so
  // many bytes: it will be compressed. 0: it will not.
  std::size_t compressed_limit = 0;
};

// Gathers messages into one with its payloads. Reusable: Finish, then Begin again.
class Encoder {
 public:
  Encoder();
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void Begin(std::uint64_t session, const EncodeFor& receiver = {});
  // Payloads that are not inline are shared, not copied. Texts and names that are too long are cut.
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
  bool full() const;  // the batch should be closed: one of kBatch... is reached
  // The control frame; valid until the next Begin.
  std::span<const std::byte> Finish();
  // The payload frames, in order.
  std::vector<Payload> TakeFrames();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Upper bounds of what a message adds to the control frame, and of the payload frames it needs.
std::size_t ControlBytesBound(const RequestBody& body);
std::size_t ControlBytesBound(const ReplyBody& body);
std::size_t PayloadFramesBound(const RequestBody& body);

// kVersion, with both numbers, if these bytes begin with a head or a control frame of another
// protocol version.
std::optional<RequestError> VersionProblem(std::span<const std::byte> bytes);

// Every field is checked: what comes out is well formed, with canonical keys, whatever came in.
// Payloads whose bytes came to a client are compared with their hashes and left out if they differ
// (FoundTuple::damaged); those that came to a broker only with `check_payloads`: then the request
// becomes Malformed with kDamaged. What is in shared memory did not travel and is not compared. One
// bad request becomes Malformed (with kBusy if a segment cannot be opened), with all its segments
// opened as those of a good one; a bad frame fails as a whole, with kBadRequest, kTooLarge, or
// kVersion if it is of another protocol version (the text names both).
std::variant<ToBroker, RequestError> DecodeToBroker(std::span<const std::byte> control,
                                                    std::span<const Payload> frames,
                                                    std::uint64_t control_frame_bytes,
                                                    SegmentOpener* opener = nullptr,
                                                    bool check_payloads = false);
std::variant<ToClient, RequestError> DecodeToClient(std::span<const std::byte> control,
                                                    std::span<const Payload> frames,
                                                    SegmentOpener* opener = nullptr);

}  // namespace tuplespace
