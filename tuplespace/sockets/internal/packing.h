// The form of a message on a socket: its control frame and its payloads behind one header, cut
// into parts that each are one ZeroMQ message. No ZeroMQ message is ever a multipart one: libzmq
// 4.3.4 ends the process when a connection ends in the middle of one while its socket is closed.
// And no part is large: so what waits in a queue of ZeroMQ's has a small bound in bytes, too.
//
//     the packed message                                         offset
//       head: root, "ATSP", control_bytes, payloads,
//             number, bytes                                      0
//       control frame                                            32
//       size of each payload (u64)                               the next multiple of 8
//       payload 0, payload 1, ...                                each at a multiple of 64
//
//     the first part is its beginning; each further one is
//       0, "ATSC", number, offset (24 bytes), the bytes from that offset on
//
// All numbers are little endian. `root` is that of the control frame, counted from the beginning of
// the head: so a program of another version can read the version of it. PROTOCOL.md describes it.
//
// Pure: bytes in, bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "tuplespace/messages.h"
#include "tuplespace/payload.h"

namespace tuplespace {

inline constexpr std::size_t kPackedHeadBytes = 32;
inline constexpr std::size_t kPartHeadBytes = 24;
inline constexpr std::size_t kPartBytes =
    (1 << 20) + (64 << 10);                             // of a part that is sent: a usual tile fits
inline constexpr std::size_t kMostPartBytes = 2 << 20;  // of one that is received
// What CURVE adds to a part is less.
inline constexpr std::size_t kEncryptionBytes = 256;

// How far a message has been sent. The same one is passed to each attempt.
struct SendProgress {
  std::uint64_t number =
      0;                    // of the message, different for all that one sender sends; 0: not begun
  std::uint64_t bytes = 0;  // of the packed message
};

// Cuts one message into parts. What it is made of must outlive it. If the message is one part with
// one large payload, `spare_bytes` zeros follow the control frame. REQUIRES: progress.number != 0.
class Packer {
 public:
  Packer(std::span<const std::byte> control, std::span<const Payload> payloads,
         SendProgress& progress, std::size_t spare_bytes = 0);

  bool done() const { return progress_.bytes == bytes_; }
  // Of the next part. REQUIRES: !done().
  std::size_t PartBytes() const;
  // Writes the next part; progress is made by Advance. REQUIRES: `part` has PartBytes().
  void CopyPart(std::span<std::byte> part);
  void Advance();
  // Of a message that is one part with one large payload: how many bytes are in front of the
  // payload. Else 0.
  std::size_t front_bytes() const { return front_bytes_; }
  // Writes them. REQUIRES: `front` has front_bytes(), not 0; no part was copied before.
  void CopyFront(std::span<std::byte> front) { CopyBody(0, front); }

 private:
  // What stands at `begin`; what comes before the next piece is zero.
  struct Piece {
    std::uint64_t begin = 0;
    std::span<const std::byte> bytes;
  };
  Piece PieceAt(std::size_t index) const;
  std::size_t BodyBytes() const;
  void CopyBody(std::uint64_t from, std::span<std::byte> out);

  std::span<const std::byte> control_;
  std::uint64_t control_bytes_ = 0;  // with zeros behind it, if there are any
  std::span<const Payload> payloads_;
  SendProgress& progress_;
  std::byte head_[kPackedHeadBytes];
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint64_t> begins_;  // of the payloads
  std::uint64_t bytes_ = 0;
  std::size_t front_bytes_ = 0;
  std::size_t piece_ = 0;  // the first that may still be needed
};

struct PackingLimits {
  std::uint64_t control_bytes = UINT32_MAX;
  std::uint64_t payload_bytes = UINT64_MAX;  // of one
  std::uint64_t message_bytes = UINT64_MAX;  // with all its payloads
};

// Where things are in a message that came in one part.
struct UnpackedWhole {
  std::size_t control_begin = 0, control_bytes = 0;
  struct Range {
    std::size_t begin = 0, bytes = 0;
  };
  std::vector<Range> payloads;
};

// A message that came in several.
struct Assembled {
  std::vector<std::byte> control;
  std::vector<Payload> payloads;  // each owns its memory, at a multiple of 64
};

// Puts the parts of one sender's messages together again. Whatever comes, it takes no more memory
// than has come, and once the size of the payload at work.
class Assembly {
 public:
  explicit Assembly(PackingLimits limits) : limits_(limits) {}

  struct More {};  // the part is kept, or belongs to a message whose beginning never came
  // A RequestError: the part is malformed, or its message too large; what it belongs to is dropped.
  using Result = std::variant<More, UnpackedWhole, Assembled, RequestError>;
  Result Add(std::span<const std::byte> part);
  bool empty() const { return bytes_ == 0; }
  std::uint64_t received_bytes() const { return received_; }  // of the message that is open

 private:
  Result Begin(std::span<const std::byte> part);
  Result Continue(std::span<const std::byte> part);
  // Takes in what follows the bytes that came so far.
  Result Take(std::span<const std::byte> bytes);
  std::optional<RequestError> ReadSizes();
  bool OpenPayloads();
  void Reset();

  PackingLimits limits_;
  std::uint64_t number_ = 0;
  std::uint64_t bytes_ = 0;  // of the message that is open; 0: none is
  std::uint64_t received_ = 0;
  std::uint32_t control_bytes_ = 0, payload_count_ = 0;
  std::vector<std::byte> front_;  // up to the first payload
  std::vector<UnpackedWhole::Range> ranges_;
  std::vector<Payload> payloads_;  // those that were begun
  std::byte* at_ = nullptr;        // where the last one of them goes on
};

}  // namespace tuplespace
