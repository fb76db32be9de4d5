#include "front_room.h"

#include <cstring>

namespace tuplespace {

namespace {
// What the head and the control frame of a message with one payload usually need.
constexpr std::size_t kRoomOfCopyBytes = 1024;
}  // namespace

Payload FrontRoom::PayloadBehind(std::shared_ptr<const void> memory, std::byte* begin,
                                 std::size_t room_bytes, std::size_t size) {
  std::shared_ptr<FrontRoom> room(new FrontRoom(std::move(memory), begin, room_bytes), Delete{});
  const std::byte* const data = room->end_;
  return Payload(std::move(room), data, size);
}

FrontRoom* FrontRoom::Of(const Payload& payload) {
  if (std::get_deleter<Delete>(payload.owner()) == nullptr) return nullptr;
  // PayloadBehind made the room, so it is not const. But a Payload with this owner may also have
  // been made from other bytes of it.
  auto* const room = static_cast<FrontRoom*>(const_cast<void*>(payload.owner().get()));
  return payload.data() == room->end_ ? room : nullptr;
}

std::byte* FrontRoom::Take(std::size_t bytes) {
  if (bytes > bytes_ || taken_.exchange(true, std::memory_order_acquire)) return nullptr;
  return end_ - bytes;
}

Payload Payload::CopyBehindRoom(const void* data, std::size_t size) {
  const auto memory = std::make_shared_for_overwrite<std::byte[]>(kRoomOfCopyBytes + size);
  std::byte* const begin = memory.get();
  std::memcpy(begin + kRoomOfCopyBytes, data, size);
  return FrontRoom::PayloadBehind(memory, begin, kRoomOfCopyBytes, size);
}

}  // namespace tuplespace
