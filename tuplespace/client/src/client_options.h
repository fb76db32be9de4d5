// Checks a client's options and completes them.
#pragma once

#include "tuplespace/client.h"

namespace tuplespace {

// A new id that no other client has.
ClientId GeneratedId(const ClientOptions& options);

// Adds an id if there is none. Throws std::invalid_argument for inconsistent options.
ClientOptions CheckedOptions(ClientOptions options);

}  // namespace tuplespace
