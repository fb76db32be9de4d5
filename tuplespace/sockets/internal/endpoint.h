// Endpoints: which addresses a broker may bind and a client may connect to.
#pragma once

#include <string>

namespace tuplespace {

// The address in the form that ZeroMQ takes for a broker. Throws std::invalid_argument, with the
// reason, for anything but ipc://PATH, inproc://NAME and tcp://LOOPBACK:PORT (PORT may be *). With
// keys it accepts only ipc://PATH and tcp://HOST:PORT.
std::string ListenAddress(const std::string& endpoint, bool has_keys);

// As ListenAddress, for a client, which may connect to any tcp://HOST:PORT.
std::string ConnectAddress(const std::string& endpoint, bool has_keys);

// As ListenAddress, for the place of a payload, which another client told the broker:
// tcp://ADDRESS:PORT with a numeric address, which must be loopback if there are no keys.
// `own_address` is the local address of the reader's connection to the broker; empty: unknown. If
// that is an address of a network, the place must be one, too: otherwise the holder could make the
// reader connect to services that only the reader's own host can reach.
std::string PlaceAddress(const std::string& endpoint, bool has_keys,
                         const std::string& own_address);

// Whether it is written as tcp://[...]. IPv6 is enabled only then, because it changes how ZeroMQ
// names other addresses.
bool IsIpv6(const std::string& endpoint);

// The path of an ipc:// endpoint; otherwise empty.
std::string IpcPath(const std::string& endpoint);

// Removes the socket that a dead broker left at this path. Throws std::runtime_error if a live one
// answers there or if the path is not a socket.
void ClearIpcPath(const std::string& path);

}  // namespace tuplespace
