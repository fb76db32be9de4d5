// Payload: immutable, reference-counted bytes. Copying a Payload copies a pointer, never the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

struct XXH3_state_s;

namespace tuplespace {

// The XXH3-128 hash of a payload's bytes. It detects accidental damage in memory or in transit. It
// is not cryptographic: anyone can make two payloads with the same hash.
struct PayloadHash {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const PayloadHash&, const PayloadHash&) = default;
  std::string ToString() const;  // 32 hexadecimal digits
};
PayloadHash HashOf(std::span<const std::byte> bytes);

// Computes the same hash for bytes that come in parts, so that each part is hashed while it is in a
// cache.
class PayloadHasher {
 public:
  PayloadHasher();

  void Add(std::span<const std::byte> bytes);
  PayloadHash Hash() const;  // of all that was added so far
  // The size of a part that fits easily into caches, together with the data it is computed from.
  static constexpr std::size_t kPartBytes = 64 << 10;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// Memory that other processes of this host can map. SharedPool makes it; so does a process that
// receives a payload in such memory. `home` identifies the object that made it.
struct SharedRegion {
  const void* home = nullptr;
  std::uint64_t id = 0;  // unique in `home` and never reused
  int fd = -1;           // of this process
  std::byte* data = nullptr;
  std::uint64_t capacity_bytes = 0;
};

class Payload {
 public:
  Payload() = default;
  // `owner` keeps [data, data + size) alive and unchanged until the last copy is gone. Any thread
  // may release it (ZeroMQ sends from a thread of its own). Bytes at the beginning of a `region`
  // can be passed to other processes without a copy; `owner` keeps the region alive, too.
  Payload(std::shared_ptr<const void> owner, const void* data, std::size_t size,
          const SharedRegion* region = nullptr)
      : owner_(std::move(owner)),
        data_(static_cast<const std::byte*>(data)),
        size_(size),
        region_(region) {}

  static Payload Copy(const void* data, std::size_t size) {
    if (size >= kLargeBytes) return CopyBehindRoom(data, size);
    auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
    if (size != 0) std::memcpy(bytes.get(), data, size);
    const std::byte* begin = bytes.get();
    return Payload(std::move(bytes), begin, size);
  }
  static Payload Copy(std::string_view text) { return Copy(text.data(), text.size()); }
  // The size from which it pays to send a payload through a socket without a copy.
  static constexpr std::size_t kLargeBytes = 16 << 10;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  const SharedRegion* region() const { return region_; }  // null: memory of this process only

  // HashOf(bytes()) as stated by the producer, if it stated it. The consumer must check it.
  const std::optional<PayloadHash>& hash() const { return hash_; }
  Payload WithHash(std::optional<PayloadHash> hash) && {
    hash_ = hash;
    return std::move(*this);
  }

 private:
  static Payload CopyBehindRoom(const void* data, std::size_t size);

  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::optional<PayloadHash> hash_;
  const SharedRegion* region_ = nullptr;
};

}  // namespace tuplespace
