// The default place where the broker, handlers and managers of one user meet.
#pragma once

#include <string>

#include "setting.h"

namespace acan::cli {

// "ipc://FOLDER/space", in a folder that no other user can access: "acan" in $XDG_RUNTIME_DIR;
// without that variable "acan" in /run/user/UID, where it usually points, otherwise /tmp/acan-UID.
// Clients also create the folder if it does not exist, so that no other user can create it
// meanwhile. Throws Error if it is not a folder of this user with mode 0700, or if other users may
// change its parent; the message names `flag` as the alternative.
std::string DefaultEndpoint(const std::string& flag);

// Requires "ipc" or "tcp" and valid text after "://". Throws Error (usage), which names `origin`.
void CheckEndpoint(const std::string& endpoint, const std::string& origin);

// The checked value of --connect, one endpoint or several (tuplespace::ClientOptions); or the
// default.
std::string EndpointToConnect(const Setting& connect);

// The folder of DefaultEndpoint, for tests. `runtime`: the variable, empty if it is not set; `root`
// is put before /run/user and /tmp.
std::string MeetingFolder(const std::string& runtime, const std::string& root,
                          const std::string& flag);

inline constexpr const char* kDefaultPlace = "a socket in $XDG_RUNTIME_DIR/acan";

}  // namespace acan::cli
