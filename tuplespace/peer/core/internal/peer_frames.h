// The messages between the reader of a payload and the client that holds it. Each is a single-part
// ZeroMQ message (packing.h says why). All numbers are little endian.
//
//     every message           offset    fetch                     offset
//       "ATSD"                   0        ticket (40 bytes)          16
//       kind           u8        4        window_bytes     u32       56
//       0              u8 x 3    5        bytes of reader  u16       60
//       transfer       u64       8        bytes of key     u16       62
//                                         reader, key                64
//     more                                piece
//       received_bytes u64      16          total_bytes    u64       16
//     stop: nothing                         offset         u64       24
//     refusal                               hash low, high u64 x 2   32
//       why            u8       16          the bytes                48
//
// The reader sends fetch, more and stop; the holder piece and refusal. PROTOCOL.md describes them.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ticket.h"
#include "tuplespace/messages.h"

namespace tuplespace {

// What a holder of this library sends in one message. Over a link of 1 Mbit/s it takes 2 s, so a
// reader there is not silent for longer than it waits.
inline constexpr std::size_t kPieceBytes = 256 << 10;
// What may be in one message; a piece that is not the last of its payload has at least the least.
inline constexpr std::size_t kMinPieceBytes = 64 << 10;
inline constexpr std::size_t kMaxPieceBytes = 1 << 20;
inline constexpr std::size_t kPieceHeadBytes = 48;
inline constexpr std::size_t kMaxToHolderBytes = 12 << 10;  // keys have 16 fields at most
inline constexpr std::size_t kMaxToReaderBytes = kPieceHeadBytes + kMaxPieceBytes;

// The reader numbers its transfers; no two of one connection are the same.
struct FetchFrame {
  std::uint64_t transfer = 0;
  std::string ticket;
  std::uint32_t window_bytes = 0;  // may be sent before the reader confirms any bytes
  ClientId reader;
  Key key;
};
struct MoreFrame {  // this many bytes have been received; the window starts there
  std::uint64_t transfer = 0;
  std::uint64_t received_bytes = 0;
};
struct StopFrame {  // the reader needs no more of it
  std::uint64_t transfer = 0;
};
using ToHolder = std::variant<FetchFrame, MoreFrame, StopFrame>;

// Pieces of one transfer come in order. They differ only in offset and bytes.
struct PieceFrame {
  std::uint64_t transfer = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t offset = 0;
  PayloadHash hash;  // of the whole payload, computed by its holder
  std::span<const std::byte> bytes;
};
enum class FetchRefusal : std::uint8_t {
  kTicket = 1,  // it is invalid for this holder's session, this key or this reader
  kExpired,
  kGone,  // the payload is not here
  kBusy,  // a limit is reached
};
struct RefusalFrame {
  std::uint64_t transfer = 0;
  FetchRefusal why = FetchRefusal::kTicket;
};
using ToReader = std::variant<PieceFrame, RefusalFrame>;

// REQUIRES: a ticket of kTicketBytes.
std::vector<std::byte> EncodePeer(const FetchFrame& fetch);
std::vector<std::byte> EncodePeer(const MoreFrame& more);
std::vector<std::byte> EncodePeer(const StopFrame& stop);
std::vector<std::byte> EncodePeer(const RefusalFrame& refusal);
// The head of a piece. The bytes of the payload follow it.
std::vector<std::byte> EncodePeerHead(const PieceFrame& piece);

// nullopt: malformed. The result is well formed whatever the input: a canonical key, a reader of 1
// to 64 bytes, a piece within the payload, of 1 to kMaxPieceBytes bytes.
std::optional<ToHolder> DecodeToHolder(std::span<const std::byte> message);
// The bytes of a piece refer to `message`.
std::optional<ToReader> DecodeToReader(std::span<const std::byte> message);

}  // namespace tuplespace
