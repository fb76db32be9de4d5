#include "descriptor_shares.h"

#include <sys/resource.h>

#include <algorithm>

namespace tuplespace {

namespace {

constexpr std::uint64_t kFilesOfChannel = 2;
constexpr std::uint64_t kFilesOfConnection = 2;
constexpr std::uint64_t kSegmentsShare = 3;  // one part of so many
constexpr std::uint64_t kChannelsShare = 8;

std::uint64_t Besides(std::uint64_t limit, std::uint64_t taken) {
  return limit - std::min(limit, taken);
}

}  // namespace

std::uint64_t DescriptorLimit() {
  rlimit files{};
  const bool limited = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  return limited ? files.rlim_cur : UINT64_MAX;
}

BrokerDescriptors ShareBrokerDescriptors(std::uint64_t limit, std::uint64_t segments,
                                         std::uint64_t channels) {
  const std::uint64_t rest = Besides(limit, kOwnDescriptors);
  BrokerDescriptors shares;
  shares.segments = std::min(segments, rest / kSegmentsShare);
  shares.channels = std::min(channels, rest / kChannelsShare / kFilesOfChannel);
  shares.connections =
      (rest - shares.segments - kFilesOfChannel * shares.channels) / kFilesOfConnection;
  return shares;
}

std::uint64_t PeerConnections(std::uint64_t limit, std::uint64_t wanted) {
  constexpr std::uint64_t kWays = 2;
  const std::uint64_t possible = Besides(limit - limit / 2, kOwnDescriptors) / kWays;
  return std::clamp<std::uint64_t>(possible, 1, wanted);
}

}  // namespace tuplespace
