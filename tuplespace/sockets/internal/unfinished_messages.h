// UnfinishedMessages: the messages that the peers of a socket have begun to send, each in several
// parts. It bounds the bytes that the messages of one user take together.
//
// Pure, and not thread safe: one thread owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "packing.h"

namespace tuplespace {

class UnfinishedMessages {
 public:
  // `bytes_of_user` limits the bytes received for the unfinished messages of one user.
  explicit UnfinishedMessages(PackingLimits limits, std::uint64_t bytes_of_user = UINT64_MAX)
      : limits_(limits), bytes_of_user_(bytes_of_user) {}

  // Adds a part that `peer` has sent. If the messages of its user are too large together, the
  // largest one is dropped with what follows of it. `user` may be empty: then there is no limit.
  Assembly::Result Add(const std::string& peer, const std::string& user,
                       std::span<const std::byte> part);
  // Changes the limit. Drops messages of the users who exceed it now, the largest ones first.
  void SetBytesOfUser(std::uint64_t bytes);
  // Drops the message that the peer has begun to send, if any, with what follows of it.
  void Forget(const std::string& peer);
  // The peers whose message was dropped because of the limit since the last call.
  std::vector<std::string> TakeDropped() { return std::exchange(dropped_, {}); }

 private:
  struct Message {
    Assembly assembly;
    std::string user;
    std::uint64_t bytes = 0;  // received
  };
  using Messages = std::unordered_map<std::string, Message>;

  void SetBytes(Message& message, std::uint64_t bytes);
  bool IsOver(const std::string& user) const;
  void DropLargest(const std::string& user);

  const PackingLimits limits_;
  std::uint64_t bytes_of_user_;
  Messages messages_;                                     // by peer
  std::unordered_map<std::string, std::uint64_t> bytes_;  // by user
  std::vector<std::string> dropped_;
};

}  // namespace tuplespace
