#include "connections.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/tcp.h>  // glibc's tcp_info lacks newer fields
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "seconds_text.h"

namespace tuplespace {

namespace {

constexpr std::int64_t kLookEveryUs = 250'000;
constexpr std::int64_t kDropSoonUs = 100'000;
constexpr std::ptrdiff_t kNetworkBytes = 8;   // of an IPv6 address, which a host usually has alone
constexpr std::uint64_t kOverheadBytes = 64;  // maximum overhead of ZMTP and CURVE for a message
// More than a handshake and a first message, which asks to join.
constexpr std::uint64_t kFirstBytes = 64 << 10;
constexpr std::uint64_t kHeartbeatBytesPerSecond = 1024;  // several times their real rate

// The remote address; nullopt if there is none (any more).
std::optional<sockaddr_storage> OtherEndOf(int descriptor) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return std::nullopt;
  }
  return storage;
}

// nullopt if the address is not one of a tcp connection.
std::optional<sockaddr_in6> TcpAddress(const sockaddr_storage& storage) {
  sockaddr_in6 peer{};
  if (storage.ss_family == AF_INET6) {
    std::memcpy(&peer, &storage, sizeof(peer));
    return peer;
  }
  if (storage.ss_family != AF_INET) return std::nullopt;
  sockaddr_in v4{};
  std::memcpy(&v4, &storage, sizeof(v4));
  peer.sin6_family = AF_INET6;
  peer.sin6_port = v4.sin_port;
  peer.sin6_addr.s6_addr[10] = peer.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(&peer.sin6_addr.s6_addr[12], &v4.sin_addr, sizeof(v4.sin_addr));
  return peer;
}

std::optional<sockaddr_in6> PeerOf(int descriptor) {
  const auto other_end = OtherEndOf(descriptor);
  return other_end ? TcpAddress(*other_end) : std::nullopt;
}

bool Same(const sockaddr_in6& one, const sockaddr_in6& other) {
  return one.sin6_port == other.sin6_port &&
         std::memcmp(&one.sin6_addr, &other.sin6_addr, sizeof(one.sin6_addr)) == 0;
}

std::string AddressOf(const sockaddr_in6& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr)) {
    inet_ntop(AF_INET, &peer.sin6_addr.s6_addr[12], text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, &peer.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

// The addresses that the host of `peer` may have, too: its IPv6 network, or all of loopback.
std::string NetworkOf(sockaddr_in6 peer) {
  auto& bytes = peer.sin6_addr.s6_addr;
  if (!IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr)) {
    std::fill(std::begin(bytes) + kNetworkBytes, std::end(bytes), std::uint8_t{0});
  } else if (bytes[12] == IN_LOOPBACKNET) {
    std::fill(std::begin(bytes) + 13, std::end(bytes), std::uint8_t{0});
  }
  return AddressOf(peer);
}

// The number of bytes that the kernel has received; nullopt if it is unknown (before Linux 4.1).
std::optional<std::uint64_t> ReceivedBytes(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)) {
    return std::nullopt;
  }
  return info.tcpi_bytes_received;
}

}  // namespace

Connections::Connections(ConnectionLimits limits, std::int64_t silence_us, std::int64_t first_us)
    : limits_(limits), silence_us_(silence_us), first_us_(first_us) {}

void Connections::Accepted(int descriptor, std::int64_t now_us) {
  Ended(descriptor);  // if this number was in use, that connection is gone
  // Asks only once, as the number may refer to another connection a moment later.
  const auto other_end = OtherEndOf(descriptor);
  if (!other_end) {  // it ended before it could be inspected
    gone_.insert(descriptor);
    return;
  }
  const auto peer = TcpAddress(*other_end);
  Connection& connection = connections_[descriptor];
  connection.peer = peer;
  connection.accepted_at_us = connection.heard_at_us = now_us;
  if (!peer) return;
  const std::string address = AddressOf(*peer);
  silent_.Add(descriptor, address, NetworkOf(*peer), now_us);
  const std::uint64_t from_there = ++count_[address];
  look_at_us_ = std::min(look_at_us_, now_us + kLookEveryUs);
  if (from_there > limits_.connections_per_address) {
    MakeRoom(descriptor, silent_.ToEndOfAddress(descriptor, now_us),
             fmt::format("the limit connections_per_address = {} is reached",
                         limits_.connections_per_address),
             now_us);
  } else if (connections_.size() > limits_.connections) {
    MakeRoom(descriptor, silent_.ToEnd(descriptor, now_us),
             fmt::format("the limit connections = {} is reached", limits_.connections), now_us);
  }
}

void Connections::MakeRoom(int newcomer, std::optional<int> silent, const std::string& why,
                           std::int64_t now_us) {
  if (!silent) return Refuse(newcomer, connections_.at(newcomer), why, now_us);
  silent_.Remove(*silent);  // also if it has ended and its event is still to come
  Refuse(*silent, connections_.at(*silent), why + ", and nothing has come over it yet", now_us);
}

bool Connections::Ended(int descriptor) {
  if (gone_.erase(descriptor) > 0) {
    ++failed_;
    return false;
  }
  const auto it = connections_.find(descriptor);
  if (it == connections_.end()) return true;
  const bool spoke = it->second.spoke;
  if (!spoke && !it->second.refused && it->second.peer) ++failed_;
  Forget(it);
  return spoke;
}

void Connections::Forget(std::unordered_map<int, Connection>::iterator it) {
  silent_.Remove(it->first);
  const Connection connection = std::move(it->second);
  connections_.erase(it);
  if (connection.peer) {
    const auto count = count_.find(AddressOf(*connection.peer));
    if (--count->second == 0) count_.erase(count);
  }
  const bool elsewhere =
      std::any_of(connections_.begin(), connections_.end(),
                  [&](const auto& other) { return other.second.client == connection.client; });
  if (!connection.client.empty() && !elsewhere) ended_clients_.push_back(connection.client);
}

void Connections::Heard(int descriptor, const std::string& client, std::size_t bytes, bool counts) {
  const auto it = connections_.find(descriptor);
  if (it == connections_.end()) return;
  it->second.heard = true;
  if (counts && !std::exchange(it->second.spoke, true)) silent_.Remove(descriptor);
  it->second.taken_since += bytes + kOverheadBytes;
  if (it->second.client != client) it->second.client = client;
  if (!ended_clients_.empty()) std::erase(ended_clients_, client);
}

void Connections::HeardBeside(int descriptor, const std::string& client) {
  const auto it = connections_.find(descriptor);
  if (it == connections_.end() || !it->second.spoke || it->second.client != client) return;
  it->second.heard = true;
}

bool Connections::IsEnded(const std::string& client) const {
  return std::find(ended_clients_.begin(), ended_clients_.end(), client) != ended_clients_.end();
}

std::unordered_set<std::string> Connections::ConnectedClients() const {
  std::unordered_set<std::string> clients;
  for (const auto& [descriptor, connection] : connections_) {
    if (!connection.client.empty()) clients.insert(connection.client);
  }
  return clients;
}

std::vector<std::string> Connections::TakeEndedClients() {
  return std::exchange(ended_clients_, {});
}

void Connections::DropSoon(int descriptor, std::int64_t now_us) {
  const auto it = connections_.find(descriptor);
  if (it == connections_.end() || !it->second.peer) return;
  it->second.drop_at_us = std::min(it->second.drop_at_us, now_us + kDropSoonUs);
  look_at_us_ = std::min(look_at_us_, it->second.drop_at_us);
}

void Connections::Tick(std::int64_t now_us) {
  if (now_us < look_at_us_) return;
  look_at_us_ = INT64_MAX;
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto here = it++;
    if (!here->second.peer) continue;
    const auto peer = PeerOf(here->first);
    // It ended silently, or its number belongs to another one whose event is still to come.
    if (!peer || !Same(*peer, *here->second.peer)) {
      Ended(here->first);
      continue;
    }
    if (!here->second.refused) Look(here->first, here->second, now_us);
    look_at_us_ = std::min(look_at_us_, here->second.drop_at_us);
  }
  LookAtAllBacklogs(now_us);
  if (!connections_.empty()) look_at_us_ = std::min(look_at_us_, now_us + kLookEveryUs);
}

void Connections::Look(int descriptor, Connection& connection, std::int64_t now_us) {
  if (now_us >= connection.drop_at_us) {
    return Refuse(descriptor, connection, "it was told so", now_us);
  }
  if (!connection.spoke && now_us - connection.accepted_at_us >= first_us_) {
    return Refuse(descriptor, connection,
                  fmt::format("nothing useful came over it for {}",
                              SecondsText(now_us - connection.accepted_at_us)),
                  now_us);
  }
  const std::uint64_t bytes = ReceivedBytes(descriptor).value_or(connection.whole_bytes);
  if (connection.heard) {
    connection.heard = false;
    connection.whole_bytes = bytes;
    connection.heard_at_us = now_us;
  }
  if (!LookAtBacklog(descriptor, connection, bytes, now_us)) return;
  const std::uint64_t unfinished_bytes = bytes - connection.whole_bytes;
  // ZeroMQ keeps an unfinished multipart message, which is not counted as unread if it has read
  // everything else.
  connection.backlog_bytes = std::max(connection.backlog_bytes, unfinished_bytes);
  if (unfinished_bytes > limits_.unfinished_bytes) {
    return Refuse(descriptor, connection,
                  fmt::format("it sent {} bytes without the end of a message, over the limit "
                              "unfinished_bytes = {}",
                              unfinished_bytes, limits_.unfinished_bytes),
                  now_us);
  }
  // ZeroMQ's heartbeats continue for ever. A large message over a slow link exceeds them.
  const std::int64_t silent_us = now_us - connection.heard_at_us;
  if (silent_us < silence_us_) return;
  const auto seconds = static_cast<std::uint64_t>(silent_us / 1'000'000) + 1;
  if (unfinished_bytes > seconds * kHeartbeatBytesPerSecond) return;
  Refuse(descriptor, connection,
         fmt::format("no message came over it for {}", SecondsText(silent_us)), now_us);
}

bool Connections::LookAtBacklog(int descriptor, Connection& connection, std::uint64_t bytes,
                                std::int64_t now_us) {
  // If ZeroMQ ran out of input since the last check, everything received before that check was
  // read.
  if (std::exchange(connection.drains, drains_) != drains_) {
    connection.known_bytes = connection.seen_bytes;
    connection.taken_bytes = 0;
  }
  connection.taken_bytes += std::exchange(connection.taken_since, 0);
  connection.seen_bytes = bytes;
  const std::uint64_t read_bytes = connection.known_bytes + connection.taken_bytes;
  connection.backlog_bytes = bytes - std::min(bytes, read_bytes);
  if (connection.backlog_bytes <= limits_.unread_bytes) return true;
  Refuse(descriptor, connection,
         fmt::format("{} bytes of it wait to be read, over the limit unread_bytes = {}",
                     connection.backlog_bytes, limits_.unread_bytes),
         now_us);
  return false;
}

void Connections::LookAtAllBacklogs(std::int64_t now_us) {
  std::uint64_t bytes = 0;
  for (const auto& [descriptor, connection] : connections_) {
    if (connection.peer && !connection.refused) bytes += connection.backlog_bytes;
  }
  if (bytes > limits_.unread_bytes_of_all) EndLargest(bytes, now_us);
}

void Connections::EndLargest(std::uint64_t bytes_of_all, std::int64_t now_us) {
  std::vector<std::pair<int, Connection*>> open;
  for (auto& [descriptor, connection] : connections_) {
    if (connection.peer && !connection.refused) open.emplace_back(descriptor, &connection);
  }
  // A connection with many bytes and no first message may be that of somebody without a key.
  const auto rank = [](const std::pair<int, Connection*>& one) {
    const std::uint64_t bytes = one.second->backlog_bytes;
    return std::pair(!one.second->spoke && bytes > kFirstBytes, bytes);
  };
  std::sort(open.begin(), open.end(),
            [&](const auto& one, const auto& other) { return rank(one) > rank(other); });
  for (const auto& [descriptor, connection] : open) {
    if (bytes_of_all <= limits_.unread_bytes_of_all) return;
    const std::uint64_t bytes = connection->backlog_bytes;
    Refuse(descriptor, *connection,
           fmt::format("{} bytes of all connections wait to be read, over the limit "
                       "unread_bytes_of_all = {}, and {} of them came over this one",
                       bytes_of_all, limits_.unread_bytes_of_all, bytes),
           now_us);
    bytes_of_all -= bytes;
  }
}

bool Connections::ShutDown(const Connection& connection, std::int64_t now_us) {
  const auto peer = PeerOf(spare_.get());
  if (!peer || !Same(*peer, *connection.peer)) return false;
  // Closes with a reset, so that a peer in the middle of a message learns of it at once, and the
  // kernel does not keep a closed window alive for minutes. A peer that was told the reason
  // receives that first.
  const linger reset{1, 0};
  if (now_us < connection.drop_at_us) {
    setsockopt(spare_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  shutdown(spare_.get(), SHUT_RDWR);  // ZeroMQ sees the end and closes its descriptor
  return true;
}

void Connections::Refuse(int descriptor, Connection& connection, const std::string& why,
                         std::int64_t now_us) {
  if (!spare_.Duplicate(descriptor)) return;
  const bool refuses = ShutDown(connection, now_us);
  spare_.Release();
  if (!refuses) return;
  connection.refused = true;
  silent_.Remove(descriptor);
  connection.drop_at_us = INT64_MAX;
  ++refused_;
  const std::string address = AddressOf(*connection.peer);
  if (pause_.IsOver(address, now_us)) {
    log_.push_back(fmt::format("a connection from {} port {} is ended: {} ({} ended so far)",
                               address, ntohs(connection.peer->sin6_port), why, refused_));
  }
}

std::int64_t Connections::NextDeadlineUs() const {
  return look_at_us_;
}

std::vector<std::string> Connections::TakeLog() {
  return std::exchange(log_, {});
}

}  // namespace tuplespace
