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

// XXH3-128 of a payload's bytes: finds what went wrong by accident, in memory or on the way. It is
// no cryptographic hash: who wants two payloads with one hash can make them.
struct PayloadHash {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const PayloadHash&, const PayloadHash&) = default;
  std::string ToString() const;  // 32 hexadecimal digits
};
PayloadHash HashOf(std::span<const std::byte> bytes);

// The same, of bytes that come in parts: each is hashed while it is still in a cache.
class PayloadHasher {
 public:
  PayloadHasher();

  void Add(std::span<const std::byte> bytes);
  PayloadHash Hash() const;  // of all that was added so far
  // A part that caches hold easily, beside what it is made of.
  static constexpr std::size_t kPartBytes = 64 << 10;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// Memory that other processes of this host can map. Made by SharedPool, and by whoever receives a
// payload that lies in one; `home` is that object's identity.
struct SharedRegion {
  const void* home = nullptr;
  std::uint64_t id = 0;  // unique in `home`, never used again
  int fd = -1;           // of this process
  std::byte* data = nullptr;
  std::uint64_t capacity_bytes = 0;
};

class Payload {
 public:
  Payload() = default;
  // `owner` keeps [data, data + size) alive and unchanged until the last copy is gone; it may be
  // released on any thread (ZeroMQ sends from a thread of its own).
  // Bytes that begin a `region` can be passed to other processes without a copy; `owner` keeps it,
  // too.
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
  // From here on it is worth while to send a payload through a socket without a copy.
  static constexpr std::size_t kLargeBytes = 16 << 10;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  const SharedRegion* region() const { return region_; }  // null: memory of this process alone

  // What its producer said that HashOf(bytes()) is, if it said so; whether it is true is for the
  // consumer to find out.
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
