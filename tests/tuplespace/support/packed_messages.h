// Packs and unpacks the contents of ZeroMQ messages, for tests that use plain sockets.
#pragma once

#include <span>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "packing.h"

namespace tuplespace {

inline std::vector<std::string> PartsOf(std::span<const std::byte> control,
                                        const std::vector<Payload>& payloads) {
  static std::uint64_t number = 0;
  SendProgress progress{++number, 0};
  Packer packer(control, payloads, progress);
  std::vector<std::string> parts;
  while (!packer.done()) {
    parts.emplace_back(packer.PartBytes(), '\0');
    packer.CopyPart(std::as_writable_bytes(std::span(parts.back())));
    packer.Advance();
  }
  return parts;
}

// Returns a message of one part.
inline std::string Packed(std::span<const std::byte> control,
                          const std::vector<Payload>& payloads = {}) {
  return PartsOf(control, payloads).at(0);
}

// Returns the control frame in a message of one part; empty if it is not one.
inline std::span<const std::byte> ControlIn(const zmq::message_t& message) {
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(message.data()),
                                         message.size());
  const Assembly::Result result = Assembly({}).Add(bytes);
  const auto* whole = std::get_if<UnpackedWhole>(&result);
  if (whole == nullptr) return {};
  return bytes.subspan(whole->control_begin, whole->control_bytes);
}

}  // namespace tuplespace
