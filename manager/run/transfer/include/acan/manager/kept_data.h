// KeptData: data of passes that stays with the manager, from which handlers fetch it, so that over
// links it crosses neither the broker nor the broker's link.
//
// Owned by the client's thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tuplespace/client.h"

namespace acan {

class KeptData {
 public:
  static constexpr std::uint64_t kMinBytes = 64 << 10;  // below it, a grant is as fast

  // The client must outlive it.
  explicit KeptData(tuplespace::Client& client) : client_(client) {}

  // Puts `tuples`. Large payloads stay here if handlers can fetch them from here. `on_reply` gets
  // the reply, as for any Put.
  void Put(std::vector<tuplespace::Tuple> tuples, tuplespace::Client::ReplyHandler on_reply);
  // Supplies payloads that the space wants for readers that cannot fetch them; drops released ones.
  void On(const tuplespace::Notice& notice);
  std::size_t size() const { return kept_.size(); }

 private:
  void OnReply(const std::vector<tuplespace::Key>& keys, const tuplespace::ReplyBody& reply);
  void Drop(const tuplespace::Key& key);

  tuplespace::Client& client_;
  std::unordered_map<tuplespace::Key, tuplespace::Payload> kept_;
};

}  // namespace acan
