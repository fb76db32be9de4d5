// Helpers for tests with frames that must be refused.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <variant>

#include "flatbuffers/flatbuffers.h"
#include "wire.h"

namespace tuplespace {

inline RequestError RefusedWhole(const std::variant<ToBroker, RequestError>& decoded) {
  EXPECT_TRUE(std::holds_alternative<RequestError>(decoded));
  return std::holds_alternative<RequestError>(decoded) ? std::get<RequestError>(decoded)
                                                       : RequestError{};
}

inline flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> BytesIn(
    flatbuffers::FlatBufferBuilder& builder, std::string_view bytes) {
  return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace tuplespace
