// FrontRoom: memory in front of a payload's bytes into which the beginning of the message that
// carries the payload can be written. The message is then contiguous, as ZeroMQ requires, without
// copying the payload.
//
// Thread safe: ZeroMQ's threads release the room.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "tuplespace/payload.h"

namespace tuplespace {

class FrontRoom {
 public:
  // A payload of the `size` bytes at `begin + room_bytes`. `memory` keeps these bytes and the room
  // [begin, begin + room_bytes) alive. REQUIRES: once a message with the payload is sent, no one
  // else reads or writes the room.
  static Payload PayloadBehind(std::shared_ptr<const void> memory, std::byte* begin,
                               std::size_t room_bytes, std::size_t size);
  // The room in front of this payload, which lives as long as the payload; null if it has none.
  static FrontRoom* Of(const Payload& payload);

  // The last `bytes` bytes of the room, until Release. Null: the room is smaller, or another
  // message in flight uses it.
  std::byte* Take(std::size_t bytes);
  void Release() { taken_.store(false, std::memory_order_release); }

 private:
  FrontRoom(std::shared_ptr<const void> memory, std::byte* begin, std::size_t bytes)
      : memory_(std::move(memory)), end_(begin + bytes), bytes_(bytes) {}

  // Of() recognises a room by this deleter's type. With a member for the room, each Payload, and so
  // each record of a space, would be larger.
  struct Delete {
    void operator()(FrontRoom* room) const { delete room; }
  };

  const std::shared_ptr<const void> memory_;
  std::byte* const end_;
  const std::size_t bytes_;
  std::atomic<bool> taken_{false};
};

}  // namespace tuplespace
