// KeptData: data of passes that stays with the manager, from which handlers fetch it: over links it
// then crosses neither the broker's link nor the broker.
//
// One thread owns it, the client's.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tuplespace/client.h"

namespace acan {

class KeptData {
 public:
  static constexpr std::uint64_t kLeastBytes = 64 << 10;  // less is as soon sent with a grant

  // The client must outlive it.
  explicit KeptData(tuplespace::Client& client) : client_(client) {}

  // Puts `tuples`: large payloads stay here if handlers can fetch them from here. What comes of
  // that goes to `on_reply`, as of any Put.
  void Put(std::vector<tuplespace::Tuple> tuples, tuplespace::Client::ReplyHandler on_reply);
  // What the space wants is supplied, for who cannot fetch it; what it has released goes.
  void On(const tuplespace::Notice& notice);
  std::size_t size() const { return kept_.size(); }

 private:
  void OnReply(const std::vector<tuplespace::Key>& keys, const tuplespace::ReplyBody& reply);
  void Drop(const tuplespace::Key& key);

  tuplespace::Client& client_;
  std::unordered_map<tuplespace::Key, tuplespace::Payload> kept_;
};

}  // namespace acan
