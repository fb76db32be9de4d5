// The name of this machine, for messages and records.
#pragma once

#include <string>

namespace acan {

// "host7", or "localhost" if the system does not report a name.
std::string HostName();

}  // namespace acan
