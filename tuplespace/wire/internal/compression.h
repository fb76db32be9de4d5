// Compresses control frames that cross hosts with Zstandard, as keys and task descriptions are
// repetitive. PROTOCOL.md, "Compressed control frames", describes the form:
//
//     0x7fffffff, "ATSZ", one Zstandard frame that names its content's size
//
// Both classes keep Zstandard's state between calls. Not thread safe; each is owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "tuplespace/messages.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace tuplespace {

// Shorter frames are not compressed, as little can be gained.
inline constexpr std::size_t kMinCompressedBytes = 256;
// Longer frames are not compressed, so that a receiver needs at most this much memory for one.
inline constexpr std::size_t kMaxCompressedBytes = 1 << 20;
// Nor are frames that would shrink by more than this factor: a sender that floods a receiver must
// work for what it sends.
inline constexpr std::size_t kMaxCompression = 16;

class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // `control` in compressed form, valid until the next call; or `control` itself, if compression
  // would not shorten it or the limits above forbid it.
  std::span<const std::byte> Compress(std::span<const std::byte> control);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;  // null until the first long frame
  std::vector<std::byte> compressed_;
};

class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // The control frame that `control` contains, valid until the next call; `control` itself if it is
  // not compressed. kBadRequest: the compressed bytes are damaged or exceed the limits above.
  // kTooLarge: the frame has more than `control_frame_bytes`.
  std::variant<std::span<const std::byte>, RequestError> Open(std::span<const std::byte> control,
                                                              std::uint64_t control_frame_bytes);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;  // null until the first compressed frame
  std::vector<std::byte> control_;
};

}  // namespace tuplespace
