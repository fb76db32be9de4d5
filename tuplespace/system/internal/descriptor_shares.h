// How a process divides the files that it may open among what it opens for others.
#pragma once

#include <cstdint>

namespace tuplespace {

// The limit on open files of this process; UINT64_MAX: there is none.
std::uint64_t DescriptorLimit();

// At most a third of a broker's files are segments. Each channel and each connection counts as two
// files: a channel has a file and a pipe, and a client that shares memory has a socket and the
// folder of its process's files.
struct BrokerDescriptors {
  std::uint64_t segments = 0;
  std::uint64_t channels = 0;
  std::uint64_t connections = 0;
};
// The limit of the process, and how many segments and channels are wanted.
BrokerDescriptors ShareBrokerDescriptors(std::uint64_t limit, std::uint64_t segments,
                                         std::uint64_t channels);

// How many connections of others a client can accept, besides a pool of half of its files and as
// many connections that it makes itself. At least one.
std::uint64_t PeerConnections(std::uint64_t limit, std::uint64_t wanted);

// What the process opens for itself: its standard files, log, signals, sockets and threads' events,
// and what is open only for a moment.
inline constexpr std::uint64_t kOwnDescriptors = 32;

}  // namespace tuplespace
