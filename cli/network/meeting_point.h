// Where broker, handlers and managers of one user meet when nobody says where.
#pragma once

#include <string>

#include "setting.h"

namespace acan::cli {

// "ipc://FOLDER/space", in a folder that no other user can look into: "acan" in $XDG_RUNTIME_DIR;
// without that variable "acan" in /run/user/UID, where it usually points, or else /tmp/acan-UID.
// The folder is made if it is not there, by clients as well: nobody else can make it meanwhile.
// Throws Error if it is not a folder of this user with mode 0700, or its parent is one that others
// may change; `flag` is named as the way out.
std::string DefaultEndpoint(const std::string& flag);

// "ipc" or "tcp" and what follows "://". Throws Error (usage) that names `origin`.
void CheckEndpoint(const std::string& endpoint, const std::string& origin);

// The value of --connect, one endpoint or several (tuplespace::ClientOptions), checked; or the
// default.
std::string EndpointToConnect(const Setting& connect);

// Its parts, for tests. `runtime`: the variable, empty if it is not set; `root` is put before
// /run/user and /tmp.
std::string MeetingFolder(const std::string& runtime, const std::string& root,
                          const std::string& flag);

inline constexpr const char* kDefaultPlace = "a socket in $XDG_RUNTIME_DIR/acan";

}  // namespace acan::cli
