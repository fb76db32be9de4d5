// FrontRoom: memory in front of a payload's bytes, where the beginning of the message that carries
// the payload can be written. Such a message is contiguous, as ZeroMQ wants it, without a copy of
// the payload.
//
// Thread safe: ZeroMQ's threads give the room back.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "tuplespace/payload.h"

namespace tuplespace {

class FrontRoom {
 public:
  // A payload of the `size` bytes at `begin + room_bytes`. `memory` keeps all of them and the room,
  // [begin, begin + room_bytes), which nobody else reads or writes any more once a message that
  // carries the payload is sent.
  static Payload PayloadBehind(std::shared_ptr<const void> memory, std::byte* begin,
                               std::size_t room_bytes, std::size_t size);
  // The room in front of this payload; null if it has none. It lives as long as the payload.
  static FrontRoom* Of(const Payload& payload);

  // The last `bytes` bytes of the room, until Release. Null: the room is smaller, or another
  // message in flight has it.
  std::byte* Take(std::size_t bytes);
  void Release() { taken_.store(false, std::memory_order_release); }

 private:
  FrontRoom(std::shared_ptr<const void> memory, std::byte* begin, std::size_t bytes)
      : memory_(std::move(memory)), end_(begin + bytes), bytes_(bytes) {}

  // Its type is how Of() knows a room among the owners of payloads: with a member for the room each
  // Payload, and so each record of a space, would be larger.
  struct Delete {
    void operator()(FrontRoom* room) const { delete room; }
  };

  const std::shared_ptr<const void> memory_;
  std::byte* const end_;
  const std::size_t bytes_;
  std::atomic<bool> taken_{false};
};

}  // namespace tuplespace
