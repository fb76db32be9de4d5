// The form of a message on a socket: its control frame and its payloads follow one header, and all
// of it is cut into parts, each of which is one ZeroMQ message. There are no multipart messages,
// because libzmq 4.3.4 ends the process if a connection ends in the middle of one while its socket
// is being closed. No part is large, so that a bounded number of parts in ZeroMQ's queues has a
// small bound in bytes, too.
//
//     the packed message                                         offset
//       head: root, "ATSP", control_bytes, payloads,
//             number, bytes                                      0
//       control frame                                            32
//       size of each payload (u64)                               the next multiple of 8
//       payload 0, payload 1, ...                                each at a multiple of 64
//
// the first part is the beginning of the packed message; each further part is
//       0, "ATSC", number, offset (24 bytes), the bytes from that offset on
//
// All numbers are little endian. `root` is that of the control frame, but counted from the
// beginning of the head, so that a program of another version can read the version. PROTOCOL.md
// describes it.
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
    (1 << 20) + (64 << 10);                            // size of a sent part: a usual tile fits
inline constexpr std::size_t kMaxPartBytes = 2 << 20;  // maximum size of a received part
// An upper bound of what CURVE adds to a part.
inline constexpr std::size_t kEncryptionBytes = 256;

// How far a message has been sent. Pass the same object to each attempt.
struct SendProgress {
  std::uint64_t number = 0;  // the message's, different for all messages of a sender; 0: not begun
  std::uint64_t bytes = 0;   // sent so far, of the packed message
};

// Cuts one message into parts. REQUIRES: its control frame and payloads outlive it; progress.number
// != 0. If the message is one part with one large payload, `spare_bytes` zeros follow the control
// frame.
class Packer {
 public:
  Packer(std::span<const std::byte> control, std::span<const Payload> payloads,
         SendProgress& progress, std::size_t spare_bytes = 0);

  bool done() const { return progress_.bytes == bytes_; }
  // The size of the next part. REQUIRES: !done().
  std::size_t PartBytes() const;
  // Writes the next part, without advancing. REQUIRES: `part` has PartBytes().
  void CopyPart(std::span<std::byte> part);
  void Advance();
  // If the message is one part with one large payload: the number of bytes before the payload.
  // Otherwise 0.
  std::size_t front_bytes() const { return front_bytes_; }
  // Writes these bytes. REQUIRES: `front` has front_bytes(), which is not 0; no part was copied
  // before.
  void CopyFront(std::span<std::byte> front) { CopyBody(0, front); }

 private:
  // A range of the packed message that starts at `begin`. Gaps between pieces are zero.
  struct Piece {
    std::uint64_t begin = 0;
    std::span<const std::byte> bytes;
  };
  Piece PieceAt(std::size_t index) const;
  std::size_t BodyBytes() const;
  void CopyBody(std::uint64_t from, std::span<std::byte> out);

  std::span<const std::byte> control_;
  std::uint64_t control_bytes_ = 0;  // including the zeros that follow it
  std::span<const Payload> payloads_;
  SendProgress& progress_;
  std::byte head_[kPackedHeadBytes];
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint64_t> begins_;  // of the payloads
  std::uint64_t bytes_ = 0;
  std::size_t front_bytes_ = 0;
  std::size_t piece_ = 0;  // index of the first piece that may still be needed
};

struct PackingLimits {
  std::uint64_t control_bytes = UINT32_MAX;
  std::uint64_t payload_bytes = UINT64_MAX;  // of a single payload
  std::uint64_t message_bytes = UINT64_MAX;  // with all its payloads
};

// The offsets in a message that came in one part.
struct UnpackedWhole {
  std::size_t control_begin = 0, control_bytes = 0;
  struct Range {
    std::size_t begin = 0, bytes = 0;
  };
  std::vector<Range> payloads;
};

// A message that came in several parts.
struct Assembled {
  std::vector<std::byte> control;
  std::vector<Payload> payloads;  // each owns its memory, at a multiple of 64
};

// Reassembles one sender's messages from their parts. Whatever arrives, it uses no more memory than
// the bytes received plus the size of the payload in progress.
class Assembly {
 public:
  explicit Assembly(PackingLimits limits) : limits_(limits) {}

  struct More {};  // the part is kept, or belongs to a message whose beginning is missing
  // RequestError: the part is malformed, or its message is too large; the rest of that message is
  // dropped.
  using Result = std::variant<More, UnpackedWhole, Assembled, RequestError>;
  Result Add(std::span<const std::byte> part);
  bool empty() const { return bytes_ == 0; }
  std::uint64_t received_bytes() const { return received_; }  // of the message that is open

 private:
  Result Begin(std::span<const std::byte> part);
  Result Continue(std::span<const std::byte> part);
  // Consumes the bytes that follow those received so far.
  Result Take(std::span<const std::byte> bytes);
  std::optional<RequestError> ReadSizes();
  bool OpenPayloads();
  void Reset();

  PackingLimits limits_;
  std::uint64_t number_ = 0;
  std::uint64_t bytes_ = 0;  // of the message in progress; 0: there is none
  std::uint64_t received_ = 0;
  std::uint32_t control_bytes_ = 0, payload_count_ = 0;
  std::vector<std::byte> front_;  // up to the first payload
  std::vector<UnpackedWhole::Range> ranges_;
  std::vector<Payload> payloads_;  // those received at least in part
  std::byte* at_ = nullptr;        // where the last one continues
};

}  // namespace tuplespace
