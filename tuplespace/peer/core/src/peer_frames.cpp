#include "peer_frames.h"

#include <cassert>
#include <cstring>
#include <string_view>
#include <utility>

namespace tuplespace {

namespace {

constexpr char kMagic[] = {'A', 'T', 'S', 'D'};
constexpr std::size_t kHeadBytes = 16;
constexpr std::size_t kFetchHeadBytes = 64;
constexpr std::size_t kMaxReaderBytes = 64;

enum class FrameKind : std::uint8_t { kFetch = 1, kMore, kStop, kPiece, kRefusal };

class FrameWriter {
 public:
  FrameWriter(FrameKind kind, std::uint64_t transfer, std::size_t bytes) {
    bytes_.reserve(bytes);
    Add(std::string_view(kMagic, sizeof(kMagic)));
    Add(static_cast<std::uint8_t>(kind));
    Add(std::string_view("\0\0\0", 3));
    Add(transfer);
  }
  void Add(std::string_view bytes) {
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    bytes_.insert(bytes_.end(), begin, begin + bytes.size());
  }
  template <typename Number>
  void Add(Number number) {
    for (std::size_t i = 0; i < sizeof(number); ++i) {
      bytes_.push_back(static_cast<std::byte>(std::uint64_t{number} >> (8 * i) & 0xff));
    }
  }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// REQUIRES: the message has these bytes.
template <typename Number>
Number NumberAt(std::span<const std::byte> message, std::size_t at) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number |= std::to_integer<std::uint64_t>(message[at + i]) << (8 * i);
  }
  return static_cast<Number>(number);
}

std::string TextAt(std::span<const std::byte> message, std::size_t at, std::size_t bytes) {
  return {reinterpret_cast<const char*>(message.data()) + at, bytes};
}

std::optional<FrameKind> KindOf(std::span<const std::byte> message) {
  if (message.size() < kHeadBytes) return std::nullopt;
  if (std::memcmp(message.data(), kMagic, sizeof(kMagic)) != 0) return std::nullopt;
  if (message[5] != std::byte{0} || NumberAt<std::uint16_t>(message, 6) != 0) return std::nullopt;
  return static_cast<FrameKind>(message[4]);
}

std::optional<ToHolder> DecodeFetch(std::span<const std::byte> message) {
  if (message.size() < kFetchHeadBytes) return std::nullopt;
  const auto reader_bytes = NumberAt<std::uint16_t>(message, 60);
  const auto key_bytes = NumberAt<std::uint16_t>(message, 62);
  const std::size_t bytes = kFetchHeadBytes + reader_bytes + key_bytes;
  if (message.size() != bytes || reader_bytes == 0 || reader_bytes > kMaxReaderBytes) {
    return std::nullopt;
  }
  auto key = Key::FromBytes(TextAt(message, kFetchHeadBytes + reader_bytes, key_bytes));
  if (!key) return std::nullopt;
  FetchFrame fetch;
  fetch.transfer = NumberAt<std::uint64_t>(message, 8);
  fetch.ticket = TextAt(message, kHeadBytes, kTicketBytes);
  fetch.window_bytes = NumberAt<std::uint32_t>(message, 56);
  fetch.reader = TextAt(message, kFetchHeadBytes, reader_bytes);
  fetch.key = *std::move(key);
  return fetch;
}

std::optional<ToReader> DecodePiece(std::span<const std::byte> message) {
  if (message.size() <= kPieceHeadBytes || message.size() > kMaxToReaderBytes) return std::nullopt;
  PieceFrame piece;
  piece.transfer = NumberAt<std::uint64_t>(message, 8);
  piece.total_bytes = NumberAt<std::uint64_t>(message, 16);
  piece.offset = NumberAt<std::uint64_t>(message, 24);
  piece.hash.low = NumberAt<std::uint64_t>(message, 32);
  piece.hash.high = NumberAt<std::uint64_t>(message, 40);
  piece.bytes = message.subspan(kPieceHeadBytes);
  if (piece.offset > piece.total_bytes || piece.bytes.size() > piece.total_bytes - piece.offset) {
    return std::nullopt;
  }
  return piece;
}

}  // namespace

std::vector<std::byte> EncodePeer(const FetchFrame& fetch) {
  assert(fetch.ticket.size() == kTicketBytes && fetch.reader.size() <= kMaxReaderBytes);
  const std::string& key = fetch.key.bytes();
  FrameWriter out(FrameKind::kFetch, fetch.transfer,
                  kFetchHeadBytes + fetch.reader.size() + key.size());
  out.Add(std::string_view(fetch.ticket));
  out.Add(fetch.window_bytes);
  out.Add(static_cast<std::uint16_t>(fetch.reader.size()));
  out.Add(static_cast<std::uint16_t>(key.size()));
  out.Add(std::string_view(fetch.reader));
  out.Add(std::string_view(key));
  return out.Take();
}

std::vector<std::byte> EncodePeer(const MoreFrame& more) {
  FrameWriter out(FrameKind::kMore, more.transfer, kHeadBytes + sizeof(more.received_bytes));
  out.Add(more.received_bytes);
  return out.Take();
}

std::vector<std::byte> EncodePeer(const StopFrame& stop) {
  return FrameWriter(FrameKind::kStop, stop.transfer, kHeadBytes).Take();
}

std::vector<std::byte> EncodePeer(const RefusalFrame& refusal) {
  FrameWriter out(FrameKind::kRefusal, refusal.transfer, kHeadBytes + 1);
  out.Add(static_cast<std::uint8_t>(refusal.why));
  return out.Take();
}

std::vector<std::byte> EncodePeerHead(const PieceFrame& piece) {
  FrameWriter out(FrameKind::kPiece, piece.transfer, kPieceHeadBytes);
  out.Add(piece.total_bytes);
  out.Add(piece.offset);
  out.Add(piece.hash.low);
  out.Add(piece.hash.high);
  return out.Take();
}

std::optional<ToHolder> DecodeToHolder(std::span<const std::byte> message) {
  const std::optional<FrameKind> kind = KindOf(message);
  if (!kind) return std::nullopt;
  if (*kind == FrameKind::kFetch) return DecodeFetch(message);
  const auto transfer = NumberAt<std::uint64_t>(message, 8);
  if (*kind == FrameKind::kMore && message.size() == kHeadBytes + 8) {
    return MoreFrame{transfer, NumberAt<std::uint64_t>(message, kHeadBytes)};
  }
  if (*kind == FrameKind::kStop && message.size() == kHeadBytes) return StopFrame{transfer};
  return std::nullopt;
}

std::optional<ToReader> DecodeToReader(std::span<const std::byte> message) {
  const std::optional<FrameKind> kind = KindOf(message);
  if (!kind) return std::nullopt;
  if (*kind == FrameKind::kPiece) return DecodePiece(message);
  if (*kind != FrameKind::kRefusal || message.size() != kHeadBytes + 1) return std::nullopt;
  const auto why = NumberAt<std::uint8_t>(message, kHeadBytes);
  if (why < static_cast<std::uint8_t>(FetchRefusal::kTicket) ||
      why > static_cast<std::uint8_t>(FetchRefusal::kBusy)) {
    return std::nullopt;
  }
  return RefusalFrame{NumberAt<std::uint64_t>(message, 8), static_cast<FetchRefusal>(why)};
}

}  // namespace tuplespace
