// Connections: the limits of a listener's tcp connections, before and after authentication: how
// many there are, in total and from one address, how long they may be silent, and how much of an
// unfinished message they may send. At a limit on their number, one over which no message has come
// yet makes room (SilentConnections). ZeroMQ accepts connections by itself and limits only the size
// of a frame. So this class inspects the connections from outside, through their descriptors, and
// shuts down those that exceed a limit.
//
// A descriptor belongs to ZeroMQ, which may close it or reuse it for another connection at any
// moment. So every action uses a duplicate of it whose two ends were checked first.
//
// Not thread safe; for one thread.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "log_pause.h"
#include "silent_connections.h"
#include "spare_descriptor.h"
#include "tuplespace/connection_limits.h"

namespace tuplespace {

class Connections {
 public:
  // `silence_us`: a connection without a whole message for this long is closed. `first_us`: so is
  // one without a message that counts for this long after it was accepted.
  Connections(ConnectionLimits limits, std::int64_t silence_us, std::int64_t first_us = INT64_MAX);

  void Accepted(int descriptor, std::int64_t now_us);  // the limits apply only to tcp
  bool Ended(int descriptor);                          // false: no message that counts ever came
  // Whether it was accepted and is not known to have ended.
  bool Has(int descriptor) const { return connections_.count(descriptor) > 0; }
  // A whole message of `bytes` bytes has come over it. `client` is empty if the sender is not
  // certain. `counts`: it is one that only an honest peer would send first; see `first_us`.
  void Heard(int descriptor, const std::string& client, std::size_t bytes, bool counts = true);
  // Everything that ZeroMQ has received was read.
  void Drained() { ++drains_; }
  // A message of the client that was heard over this connection has come over another channel.
  void HeardBeside(int descriptor, const std::string& client);
  // Closes it, but first gives recently sent bytes time to arrive.
  void DropSoon(int descriptor, std::int64_t now_us);

  void Tick(std::int64_t now_us);
  // The next Tick checks all connections, although their next check is not due.
  void LookAtOnce() { look_at_us_ = INT64_MIN; }
  std::int64_t NextDeadlineUs() const;
  std::vector<std::string> TakeLog();
  // Clients that were heard over a connection that has ended, and over no other.
  bool HasEndedClients() const { return !ended_clients_.empty(); }
  bool IsEnded(const std::string& client) const;
  // Clients that were heard over a connection that is not known to have ended.
  std::unordered_set<std::string> ConnectedClients() const;
  std::vector<std::string> TakeEndedClients();
  std::uint64_t refused() const { return refused_; }  // exceeded a limit, or were told to end
  // Ended for another reason before a message came.
  std::uint64_t failed() const { return failed_; }

 private:
  struct Connection {
    std::optional<sockaddr_in6> peer;  // IPv4 as a mapped address; nullopt: not tcp
    bool heard = false;                // since the last check
    bool spoke = false;                // ever, with a message that counts
    std::string client;
    bool refused = false;
    std::uint64_t whole_bytes = 0;  // received by the kernel at the last whole message
    // Of the bytes that the kernel received, the first `known_bytes` and then `taken_bytes` were
    // read.
    std::uint64_t known_bytes = 0;
    std::uint64_t taken_bytes = 0;
    std::uint64_t seen_bytes = 0;  // received by the kernel at the last check
    std::uint64_t taken_since = 0;
    std::uint64_t drains = 0;         // drains_ at the last check
    std::uint64_t backlog_bytes = 0;  // received and not read, at the last check
    std::int64_t accepted_at_us = 0;
    std::int64_t heard_at_us = 0;
    std::int64_t drop_at_us = INT64_MAX;
  };

  void Look(int descriptor, Connection& connection, std::int64_t now_us);
  // Ends the connections with the largest backlogs while all backlogs together are too large.
  void LookAtAllBacklogs(std::int64_t now_us);
  void EndLargest(std::uint64_t bytes_of_all, std::int64_t now_us);
  // Whether its unread bytes are within the limit.
  bool LookAtBacklog(int descriptor, Connection& connection, std::uint64_t bytes,
                     std::int64_t now_us);
  void Refuse(int descriptor, Connection& connection, const std::string& why, std::int64_t now_us);
  // A limit on the number is reached. Ends the connection `silent` if there is one, otherwise
  // `newcomer`.
  void MakeRoom(int newcomer, std::optional<int> silent, const std::string& why,
                std::int64_t now_us);
  // Ends the connection whose duplicate spare_ is; false: that is another one.
  bool ShutDown(const Connection& connection, std::int64_t now_us);
  void Forget(std::unordered_map<int, Connection>::iterator it);

  SpareDescriptor spare_;
  ConnectionLimits limits_;
  std::int64_t silence_us_;
  std::int64_t first_us_;
  std::unordered_map<int, Connection> connections_;       // by descriptor
  std::unordered_map<std::string, std::uint64_t> count_;  // by address
  SilentConnections silent_;
  std::unordered_set<int> gone_;  // accepted, but gone before they could be inspected
  std::vector<std::string> ended_clients_;
  std::int64_t look_at_us_ = INT64_MAX;
  std::uint64_t drains_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t failed_ = 0;
  LogPause pause_{kLinesAboutStrangers};
  std::vector<std::string> log_;
};

}  // namespace tuplespace
