#include "compression.h"

#include <fmt/format.h>
#include <zstd.h>

#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace tuplespace {

namespace {

constexpr int kLevel = 1;  // level 6 saves 2 % more and takes twice as long
// A FlatBuffer begins with the offset of its root, which cannot have this value. So no program
// mistakes a compressed frame for one of another version.
constexpr std::uint32_t kNoRoot = 0x7fffffff;
constexpr char kMark[4] = {'A', 'T', 'S', 'Z'};
constexpr std::size_t kHeadBytes = sizeof(kNoRoot) + sizeof(kMark);

RequestError Damaged(std::string text) {
  return {ErrorCode::kBadRequest, std::move(text)};
}

}  // namespace

// ---- sending -----------------------------------------------------------------------------

void Compressor::Free::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

Compressor::Compressor() = default;
Compressor::~Compressor() = default;

std::span<const std::byte> Compressor::Compress(std::span<const std::byte> control) {
  if (control.size() < kMinCompressedBytes || control.size() > kMaxCompressedBytes) {
    return control;
  }
  if (context_ == nullptr) context_.reset(ZSTD_createCCtx());
  if (context_ == nullptr) throw std::bad_alloc();
  // If the result would not be shorter, it does not fit, and Zstandard reports an error.
  if (compressed_.size() < control.size()) compressed_.resize(control.size());
  const std::size_t bytes =
      ZSTD_compressCCtx(context_.get(), compressed_.data() + kHeadBytes,
                        control.size() - kHeadBytes - 1, control.data(), control.size(), kLevel);
  if (ZSTD_isError(bytes) || control.size() > kMaxCompression * (kHeadBytes + bytes)) {
    return control;
  }
  std::memcpy(compressed_.data(), &kNoRoot, sizeof(kNoRoot));
  std::memcpy(compressed_.data() + sizeof(kNoRoot), kMark, sizeof(kMark));
  return std::span(compressed_).first(kHeadBytes + bytes);
}

// ---- receiving ---------------------------------------------------------------------------

void Decompressor::Free::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

Decompressor::Decompressor() = default;
Decompressor::~Decompressor() = default;

std::variant<std::span<const std::byte>, RequestError> Decompressor::Open(
    std::span<const std::byte> control, std::uint64_t control_frame_bytes) {
  if (control.size() < kHeadBytes ||
      std::memcmp(control.data() + sizeof(kNoRoot), kMark, sizeof(kMark)) != 0) {
    return control;
  }
  std::span<const std::byte> compressed = control.subspan(kHeadBytes);
  const unsigned long long bytes = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (bytes == ZSTD_CONTENTSIZE_UNKNOWN || bytes == ZSTD_CONTENTSIZE_ERROR) {
    return Damaged("a compressed control frame does not say what size it has");
  }
  if (bytes > control_frame_bytes) {
    return RequestError{
        ErrorCode::kTooLarge,
        fmt::format("the control frame has {} bytes, at most {}", bytes, control_frame_bytes)};
  }
  if (bytes > kMaxCompressedBytes || bytes > kMaxCompression * control.size()) {
    return Damaged(fmt::format(
        "a control frame of {} bytes came compressed to {}; at most {} bytes may come so, and {} "
        "times those that came",
        bytes, control.size(), kMaxCompressedBytes, kMaxCompression));
  }
  // Zeros may follow the frame (packing.h).
  const std::size_t frame = ZSTD_findFrameCompressedSize(compressed.data(), compressed.size());
  if (!ZSTD_isError(frame)) compressed = compressed.first(frame);
  if (context_ == nullptr) context_.reset(ZSTD_createDCtx());
  if (context_ == nullptr) throw std::bad_alloc();
  control_.resize(bytes);
  const std::size_t got = ZSTD_decompressDCtx(context_.get(), control_.data(), control_.size(),
                                              compressed.data(), compressed.size());
  if (ZSTD_isError(got) || got != bytes) {
    return Damaged(fmt::format(
        "a compressed control frame of {} bytes is damaged{}", control.size(),
        ZSTD_isError(got) ? std::string(": ") + ZSTD_getErrorName(got) : std::string()));
  }
  return std::span<const std::byte>(control_);
}

}  // namespace tuplespace
