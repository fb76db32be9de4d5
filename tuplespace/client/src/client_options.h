// What a client may be told, and what it chooses by itself.
#pragma once

#include "tuplespace/client.h"

namespace tuplespace {

// With an id, if they had none. Throws std::invalid_argument for options that make no sense.
ClientOptions CheckedOptions(ClientOptions options);

}  // namespace tuplespace
