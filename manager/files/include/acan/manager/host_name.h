// The name of this machine, for messages and records.
#pragma once

#include <string>

namespace acan {

// "host7", or "localhost" if the system does not tell.
std::string HostName();

}  // namespace acan
