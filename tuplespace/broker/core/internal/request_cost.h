// The cost of serving a request, and of keeping it until then.
#pragma once

#include <cstdint>

#include "tuplespace/messages.h"

namespace tuplespace {

// An estimate of the work of serving it, apart from work that the space bounds itself.
std::uint64_t CostOf(const RequestBody& body);
// An estimate of this process's memory for keeping it. Payloads in a segment of the client count as
// 0.
std::uint64_t BytesOf(const RequestBody& body);
bool HasTuples(const RequestBody& body);

}  // namespace tuplespace
