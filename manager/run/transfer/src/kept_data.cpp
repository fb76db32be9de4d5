#include "acan/manager/kept_data.h"

#include <utility>

namespace acan {

using tuplespace::Key;
using tuplespace::Notice;
using tuplespace::PutStatus;

void KeptData::Put(std::vector<tuplespace::Tuple> tuples,
                   tuplespace::Client::ReplyHandler on_reply) {
  std::vector<Key> keys;
  if (client_.listens()) {
    for (tuplespace::Tuple& tuple : tuples) {
      keys.push_back(tuple.key);
      if (tuple.payload.size() < kMinBytes) continue;
      tuple.resident_bytes = tuple.payload.size();
      client_.Offer(tuple.key, tuple.payload);
      kept_[tuple.key] = std::exchange(tuple.payload, {});
    }
  }
  client_.Submit(tuplespace::Put{std::move(tuples)},
                 [this, keys = std::move(keys),
                  on_reply = std::move(on_reply)](tuplespace::ReplyBody&& reply) {
                   OnReply(keys, reply);
                   on_reply(std::move(reply));
                 });
}

// Drops payloads that the space has from elsewhere or does not accept.
void KeptData::OnReply(const std::vector<Key>& keys, const tuplespace::ReplyBody& reply) {
  const auto* put = std::get_if<tuplespace::PutReply>(&reply);
  if (put == nullptr) return;
  for (std::size_t i = 0; i < keys.size() && i < put->status.size(); ++i) {
    if (put->status[i] != PutStatus::kStored) Drop(keys[i]);
  }
}

void KeptData::On(const Notice& notice) {
  if (notice.kind == Notice::Kind::kReleased) return Drop(notice.key);
  const auto kept = kept_.find(notice.key);
  if (notice.kind != Notice::Kind::kWanted || kept == kept_.end()) return;
  tuplespace::Supply supply;
  supply.tuples.push_back({.key = notice.key, .payload = kept->second, .task = {}});
  // After the answer the space has the payload, or no longer needs it.
  client_.Submit(std::move(supply),
                 [this, key = notice.key](tuplespace::ReplyBody&&) { Drop(key); });
}

void KeptData::Drop(const Key& key) {
  if (kept_.erase(key) > 0) client_.Withdraw(key);
}

}  // namespace acan
