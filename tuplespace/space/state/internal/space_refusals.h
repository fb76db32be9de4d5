// The errors with which a space refuses a request. All of these functions are cold. So the compiler
// keeps the code that describes an error apart from the code of requests that are accepted, which
// then needs fewer lines of the processor's cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tuplespace/messages.h"

namespace tuplespace::internal {

[[gnu::cold]] RequestError Bad(std::string text);
[[gnu::cold]] RequestError Busy(std::string text);
// A value of a request exceeds this limit.
[[gnu::cold]] RequestError TooLarge(std::string_view what, std::uint64_t value,
                                    std::string_view limit, std::uint64_t most);
// The space has `there` already. kTooLarge if `more` exceeds the limit even alone, as it can never
// succeed; otherwise kBusy.
[[gnu::cold]] RequestError NoRoom(std::string_view limit, std::uint64_t more, std::uint64_t there,
                                  std::uint64_t most);

}  // namespace tuplespace::internal
