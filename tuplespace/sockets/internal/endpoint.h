// Endpoints: which addresses a broker may bind and a client may connect to.
#pragma once

#include <string>

namespace tuplespace {

// The form that ZeroMQ takes for a broker's address. Throws std::invalid_argument, with the reason,
// for anything but ipc://PATH, inproc://NAME and tcp://LOOPBACK:PORT (PORT may be *). With keys it
// is anything but ipc://PATH and tcp://HOST:PORT.
std::string ListenAddress(const std::string& endpoint, bool has_keys);

// As above for a client, which may connect to any tcp://HOST:PORT.
std::string ConnectAddress(const std::string& endpoint, bool has_keys);

// As above for the place of a payload, which another client told the broker: tcp://ADDRESS:PORT, a
// number and no name, and on loopback where there are no keys.
std::string PlaceAddress(const std::string& endpoint, bool has_keys);

// Written as tcp://[...]: only then is IPv6 asked for, as it would change how ZeroMQ names the
// others.
bool IsIpv6(const std::string& endpoint);

// The path of an ipc:// endpoint, else empty.
std::string IpcPath(const std::string& endpoint);

// Makes way for a broker at this path: removes the socket that a dead broker left. Throws
// std::runtime_error if a live one answers there or if the path is something else than a socket.
void ClearIpcPath(const std::string& path);

}  // namespace tuplespace
