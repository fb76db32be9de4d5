// Connections: what a listener allows its tcp connections before it knows, and whatever it knows
// of, who they are: how many there are, in all and from one address, how long they may say nothing,
// and how much of a message may come without its end. ZeroMQ accepts connections by itself and has
// no such limits but the size of one frame; so they are looked at from outside, through their
// descriptors, and shut down where they pass a limit.
//
// A descriptor is ZeroMQ's and may be closed, or name another connection, at any moment. So nothing
// is done to one but through a duplicate whose two ends were asked for first.
//
// Not thread safe: one thread owns it.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "log_pause.h"
#include "tuplespace/connection_limits.h"

namespace tuplespace {

class Connections {
 public:
  // `silence_us`: a connection over which no whole message came for so long is of no use.
  Connections(ConnectionLimits limits, std::int64_t silence_us);

  void Accepted(int descriptor, std::int64_t now_us);  // limits are for tcp
  bool Ended(int descriptor);                          // false: no message ever came over it
  // It was accepted, and is not known to have ended.
  bool Has(int descriptor) const { return connections_.count(descriptor) > 0; }
  // A whole message of so many bytes has come over it; of `client`, if that is certain, else of "".
  void Heard(int descriptor, const std::string& client, std::size_t bytes);
  // All that ZeroMQ has received was looked at.
  void Drained() { ++drains_; }
  // One has come beside it, of the client that was heard over it.
  void HeardBeside(int descriptor, const std::string& client);
  // It is to end, but what was sent to it shortly before should arrive.
  void DropSoon(int descriptor, std::int64_t now_us);

  void Tick(std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  std::vector<std::string> TakeLog();
  // Clients that were heard over a connection that has ended since, and over no other.
  bool HasEndedClients() const { return !ended_clients_.empty(); }
  bool IsEnded(const std::string& client) const;
  std::vector<std::string> TakeEndedClients();
  std::uint64_t refused() const { return refused_; }  // by a limit, or told to end
  std::uint64_t failed() const { return failed_; }    // ended otherwise before a message came

 private:
  struct Connection {
    std::optional<sockaddr_in6> peer;  // IPv4 as a mapped address; nullopt: not over tcp
    bool heard = false;                // since the last look
    bool spoke = false;                // ever
    std::string client;
    bool refused = false;
    std::uint64_t whole_bytes = 0;  // received by the kernel when last heard
    // Up to `known_bytes` all that the kernel received was looked at, and `taken_bytes` after it.
    std::uint64_t known_bytes = 0;
    std::uint64_t taken_bytes = 0;
    std::uint64_t seen_bytes = 0;  // received by the kernel at the last look
    std::uint64_t taken_since = 0;
    std::uint64_t drains = 0;         // as drains_ then
    std::uint64_t backlog_bytes = 0;  // received and not looked at, at the last look
    std::int64_t heard_at_us = 0;
    std::int64_t drop_at_us = INT64_MAX;
  };

  void Look(int descriptor, Connection& connection, std::int64_t now_us);
  // Ends the connection with the largest backlog if all backlogs together are too large.
  void LookAtAllBacklogs(std::int64_t now_us);
  // Whether it was within what may wait.
  bool LookAtBacklog(int descriptor, Connection& connection, std::uint64_t bytes,
                     std::int64_t now_us);
  void Refuse(int descriptor, Connection& connection, const std::string& why, std::int64_t now_us);
  void Forget(std::unordered_map<int, Connection>::iterator it);

  ConnectionLimits limits_;
  std::int64_t silence_us_;
  std::unordered_map<int, Connection> connections_;       // by descriptor
  std::unordered_map<std::string, std::uint64_t> count_;  // by address
  std::unordered_set<int> gone_;  // accepted and gone so soon that nothing is known of them
  std::vector<std::string> ended_clients_;
  std::int64_t look_at_us_ = INT64_MAX;
  std::uint64_t drains_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t failed_ = 0;
  LogPause pause_;
  std::vector<std::string> log_;
};

}  // namespace tuplespace
