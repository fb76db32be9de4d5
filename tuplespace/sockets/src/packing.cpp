#include "packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "wire.h"

namespace tuplespace {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kSizesAlign = 8;
constexpr std::uint64_t kPayloadAlign = 64;
constexpr char kWholeMark[4] = {'A', 'T', 'S', 'P'};
constexpr char kPartMark[4] = {'A', 'T', 'S', 'C'};

// The head of a packed message and of each further part.
struct Head {
  std::uint32_t root = 0;
  char mark[4];
  std::uint32_t control_bytes = 0;
  std::uint32_t payloads = 0;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(Head) == kPackedHeadBytes);

struct PartHead {
  std::uint32_t zero = 0;
  char mark[4];
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
};
static_assert(sizeof(PartHead) == kPartHeadBytes);

std::uint64_t AlignUp(std::uint64_t offset, std::uint64_t align) {
  return (offset + align - 1) / align * align;
}

std::uint64_t SizesBegin(std::uint64_t control_bytes) {
  return AlignUp(kPackedHeadBytes + control_bytes, kSizesAlign);
}

// The offset after the payloads' sizes, where the first payload may begin.
std::uint64_t FrontBytes(std::uint64_t control_bytes, std::uint64_t payloads) {
  if (payloads == 0) return kPackedHeadBytes + control_bytes;
  return SizesBegin(control_bytes) + payloads * sizeof(std::uint64_t);
}

// Whether the message is one part that ends with its only payload, which is large.
bool IsOneLargePayload(std::uint64_t control_bytes, std::span<const Payload> payloads) {
  constexpr std::uint64_t kMaxFrontBytes = 4096;  // far below the limits of receivers
  return payloads.size() == 1 && payloads[0].size() >= Payload::kLargeBytes &&
         FrontBytes(control_bytes, 1) + kPayloadAlign <= kMaxFrontBytes &&
         payloads[0].size() <= kPartBytes - kMaxFrontBytes;
}

RequestError Damaged(std::string text) {
  return {ErrorCode::kBadRequest, std::move(text)};
}

// Uninitialised memory, whose pages are touched only when its bytes arrive; null if there is none.
std::shared_ptr<std::byte> Allocate(std::uint64_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - kPayloadAlign) return nullptr;
  void* memory =
      std::aligned_alloc(kPayloadAlign, AlignUp(std::max<std::uint64_t>(bytes, 1), kPayloadAlign));
  if (memory == nullptr) return nullptr;
  return {static_cast<std::byte*>(memory), [](std::byte* at) { std::free(at); }};
}

// The ranges of the payloads, or what is wrong with their sizes.
std::variant<std::vector<UnpackedWhole::Range>, RequestError> ReadRanges(
    std::span<const std::byte> sizes, std::uint64_t front_bytes, std::uint64_t bytes,
    const PackingLimits& limits) {
  std::vector<UnpackedWhole::Range> ranges(sizes.size() / sizeof(std::uint64_t));
  std::uint64_t end = front_bytes;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, sizes.data() + i * sizeof(size), sizeof(size));
    if (size > limits.payload_bytes) {
      return RequestError{ErrorCode::kTooLarge, fmt::format("a payload has {} bytes, at most {}",
                                                            size, limits.payload_bytes)};
    }
    const std::uint64_t begin = AlignUp(end, kPayloadAlign);
    if (begin < end || begin > bytes || size > bytes - begin) {  // the sum may have wrapped around
      return Damaged(fmt::format("payload {} of {} bytes ends behind its message of {} bytes", i,
                                 size, bytes));
    }
    ranges[i] = {begin, size};
    end = begin + size;
  }
  if (end != bytes) {
    return Damaged(fmt::format("the message has {} bytes, its payloads end at {}", bytes, end));
  }
  return ranges;
}

}  // namespace

// ---- sending -----------------------------------------------------------------------------

Packer::Packer(std::span<const std::byte> control, std::span<const Payload> payloads,
               SendProgress& progress, std::size_t spare_bytes)
    : control_(control), control_bytes_(control.size()), payloads_(payloads), progress_(progress) {
  const bool one_large = IsOneLargePayload(control.size() + spare_bytes, payloads);
  if (one_large) control_bytes_ += spare_bytes;
  bytes_ = FrontBytes(control_bytes_, payloads.size());
  sizes_.reserve(payloads.size());
  begins_.reserve(payloads.size());
  for (const Payload& payload : payloads) {
    sizes_.push_back(payload.size());
    begins_.push_back(AlignUp(bytes_, kPayloadAlign));
    bytes_ = begins_.back() + payload.size();
  }
  if (one_large) front_bytes_ = begins_[0];
  Head head;
  std::memcpy(head.mark, kWholeMark, sizeof(head.mark));
  if (control.size() >= sizeof(head.root)) {
    std::memcpy(&head.root, control.data(), sizeof(head.root));
    head.root += kPackedHeadBytes;
  }
  head.control_bytes = static_cast<std::uint32_t>(control_bytes_);
  head.payloads = static_cast<std::uint32_t>(payloads.size());
  head.number = progress_.number;
  head.bytes = bytes_;
  std::memcpy(head_, &head, sizeof(head));
}

std::size_t Packer::BodyBytes() const {
  const std::size_t room = progress_.bytes == 0 ? kPartBytes : kPartBytes - kPartHeadBytes;
  return std::min<std::uint64_t>(room, bytes_ - progress_.bytes);
}

std::size_t Packer::PartBytes() const {
  return BodyBytes() + (progress_.bytes == 0 ? 0 : kPartHeadBytes);
}

void Packer::CopyPart(std::span<std::byte> part) {
  assert(part.size() == PartBytes());
  if (progress_.bytes != 0) {
    PartHead head;
    std::memcpy(head.mark, kPartMark, sizeof(head.mark));
    head.number = progress_.number;
    head.offset = progress_.bytes;
    std::memcpy(part.data(), &head, sizeof(head));
    part = part.subspan(sizeof(head));
  }
  CopyBody(progress_.bytes, part);
}

void Packer::Advance() {
  progress_.bytes += BodyBytes();
}

Packer::Piece Packer::PieceAt(std::size_t index) const {
  if (index == 0) return {0, head_};
  if (index == 1) return {kPackedHeadBytes, control_};
  if (index == 2) return {SizesBegin(control_bytes_), std::as_bytes(std::span(sizes_))};
  return {begins_[index - 3], payloads_[index - 3].bytes()};
}

void Packer::CopyBody(std::uint64_t from, std::span<std::byte> out) {
  const std::size_t count = 3 + payloads_.size();
  std::uint64_t at = from;
  const std::uint64_t end = from + out.size();
  while (at < end) {
    const Piece piece = PieceAt(piece_);
    const std::uint64_t piece_end = piece.begin + piece.bytes.size();
    if (at < piece.begin) {
      const std::uint64_t until = std::min(end, piece.begin);
      std::memset(out.data() + (at - from), 0, until - at);
      at = until;
    } else if (at < piece_end) {
      const std::uint64_t until = std::min(end, piece_end);
      std::memcpy(out.data() + (at - from), piece.bytes.data() + (at - piece.begin), until - at);
      at = until;
    } else {
      ++piece_;
      assert(piece_ < count);
    }
  }
  static_cast<void>(count);
}

// ---- receiving ---------------------------------------------------------------------------

void Assembly::Reset() {
  *this = Assembly(limits_);
}

Assembly::Result Assembly::Add(std::span<const std::byte> part) {
  if (part.size() >= kPartHeadBytes &&
      std::memcmp(part.data() + offsetof(PartHead, mark), kPartMark, sizeof(kPartMark)) == 0) {
    return Continue(part);
  }
  // The open message will never be complete, because its connection has ended.
  if (!empty()) Reset();
  return Begin(part);
}

Assembly::Result Assembly::Begin(std::span<const std::byte> part) {
  Head head;
  if (part.size() < sizeof(head)) {
    return Damaged(fmt::format("a message of {} bytes came, the head alone has {}", part.size(),
                               sizeof(head)));
  }
  std::memcpy(&head, part.data(), sizeof(head));
  if (std::memcmp(head.mark, kWholeMark, sizeof(kWholeMark)) != 0) {
    return Damaged("the message does not begin with a head of this protocol");
  }
  if (head.control_bytes > limits_.control_bytes) {
    return RequestError{ErrorCode::kTooLarge,
                        fmt::format("the control frame has {} bytes, at most {}",
                                    head.control_bytes, limits_.control_bytes)};
  }
  if (head.payloads > kMaxPayloadFrames) {
    return RequestError{ErrorCode::kTooLarge, fmt::format("{} payload frames, at most {}",
                                                          head.payloads, kMaxPayloadFrames)};
  }
  if (head.bytes > limits_.message_bytes) {
    return RequestError{
        ErrorCode::kTooLarge,
        fmt::format("a message with its payloads has {} bytes, at most {}: send less at "
                    "once",
                    head.bytes, limits_.message_bytes)};
  }
  const std::uint64_t front_bytes = FrontBytes(head.control_bytes, head.payloads);
  if (head.bytes < front_bytes || head.bytes < part.size()) {
    return Damaged(fmt::format("the head names {} bytes, which is not what came", head.bytes));
  }
  if (head.bytes == part.size()) {
    UnpackedWhole whole;
    whole.control_begin = kPackedHeadBytes;
    whole.control_bytes = head.control_bytes;
    const std::size_t sizes_bytes = head.payloads * sizeof(std::uint64_t);
    auto ranges = ReadRanges(part.subspan(front_bytes - sizes_bytes, sizes_bytes), front_bytes,
                             head.bytes, limits_);
    if (auto* error = std::get_if<RequestError>(&ranges)) return std::move(*error);
    whole.payloads = std::get<0>(std::move(ranges));
    return whole;
  }
  number_ = head.number;
  bytes_ = head.bytes;
  control_bytes_ = head.control_bytes;
  payload_count_ = head.payloads;
  return Take(part);
}

Assembly::Result Assembly::Continue(std::span<const std::byte> part) {
  PartHead head;
  std::memcpy(&head, part.data(), sizeof(head));
  if (empty()) return More{};
  if (head.number != number_ || head.offset != received_) {
    // Parts in between were lost with a connection.
    Reset();
    return More{};
  }
  const std::span<const std::byte> bytes = part.subspan(sizeof(head));
  if (bytes.empty() || bytes.size() > bytes_ - received_) {
    const std::uint64_t all = bytes_;
    Reset();
    return Damaged(
        fmt::format("a part of {} bytes does not belong at offset {} of a message of "
                    "{} bytes",
                    bytes.size(), head.offset, all));
  }
  return Take(bytes);
}

Assembly::Result Assembly::Take(std::span<const std::byte> bytes) {
  const std::uint64_t front_bytes = FrontBytes(control_bytes_, payload_count_);
  while (!bytes.empty()) {
    std::size_t taken = 0;
    if (received_ < front_bytes) {
      taken = std::min<std::uint64_t>(bytes.size(), front_bytes - received_);
      front_.insert(front_.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(taken));
      if (front_.size() == front_bytes) {
        if (auto error = ReadSizes()) {
          Reset();
          return *std::move(error);
        }
      }
    } else {
      const UnpackedWhole::Range& range = ranges_[payloads_.size() - 1];
      if (received_ < range.begin) {
        taken = std::min<std::uint64_t>(bytes.size(), range.begin - received_);
      } else {
        taken = std::min<std::uint64_t>(bytes.size(), range.begin + range.bytes - received_);
        std::memcpy(at_, bytes.data(), taken);
        at_ += taken;
      }
    }
    received_ += taken;
    bytes = bytes.subspan(taken);
    if (received_ >= front_bytes && !OpenPayloads()) {
      const std::uint64_t wanted = ranges_[payloads_.size()].bytes;
      Reset();
      return RequestError{ErrorCode::kTooLarge,
                          fmt::format("there is no memory for a payload of {} bytes", wanted)};
    }
  }
  if (received_ < bytes_) return More{};
  Assembled whole;
  whole.control = std::move(front_);
  whole.control.resize(kPackedHeadBytes + control_bytes_);
  whole.control.erase(whole.control.begin(), whole.control.begin() + kPackedHeadBytes);
  whole.payloads = std::move(payloads_);
  Reset();
  return whole;
}

std::optional<RequestError> Assembly::ReadSizes() {
  const std::size_t sizes_bytes = payload_count_ * sizeof(std::uint64_t);
  auto ranges = ReadRanges(std::span(front_).last(sizes_bytes), front_.size(), bytes_, limits_);
  if (auto* error = std::get_if<RequestError>(&ranges)) return std::move(*error);
  ranges_ = std::get<0>(std::move(ranges));
  return std::nullopt;
}

// Allocates memory for the next payload when the last one is complete. False: there is no memory.
bool Assembly::OpenPayloads() {
  while (payloads_.size() < ranges_.size()) {
    if (!payloads_.empty()) {
      const UnpackedWhole::Range& last = ranges_[payloads_.size() - 1];
      if (received_ < last.begin + last.bytes) return true;
    }
    const std::size_t size = ranges_[payloads_.size()].bytes;
    std::shared_ptr<std::byte> memory = Allocate(size);
    if (memory == nullptr) return false;
    at_ = memory.get();
    payloads_.emplace_back(std::move(memory), at_, size);
  }
  return true;
}

}  // namespace tuplespace
