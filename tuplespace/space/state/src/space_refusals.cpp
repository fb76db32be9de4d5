#include "space_refusals.h"

#include <utility>

namespace tuplespace::internal {

RequestError Bad(std::string text) {
  return {ErrorCode::kBadRequest, std::move(text)};
}

RequestError Busy(std::string text) {
  return {ErrorCode::kBusy, std::move(text)};
}

RequestError TooLarge(std::string_view what, std::uint64_t value, std::string_view limit,
                      std::uint64_t most) {
  return {ErrorCode::kTooLarge, std::string(what) + " " + std::to_string(value) + ", at most " +
                                    std::to_string(most) + " (limits." + std::string(limit) + ")"};
}

RequestError NoRoom(std::string_view limit, std::uint64_t more, std::uint64_t there,
                    std::uint64_t most) {
  return {more <= most ? ErrorCode::kBusy : ErrorCode::kTooLarge,
          std::string(limit) + ": " + std::to_string(more) + " more with " + std::to_string(there) +
              " there, at most " + std::to_string(most)};
}

}  // namespace tuplespace::internal
