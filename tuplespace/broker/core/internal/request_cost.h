// What it costs a broker to serve a request, and to keep it until then.
#pragma once

#include <cstdint>

#include "tuplespace/messages.h"

namespace tuplespace {

// About what serving it takes, beside what the space bounds by itself.
std::uint64_t CostOf(const RequestBody& body);
// About what keeping it takes of this process's memory: of payloads that lie in a segment of the
// client nothing.
std::uint64_t BytesOf(const RequestBody& body);
bool HasTuples(const RequestBody& body);

}  // namespace tuplespace
