// BrokerCore: what depends on the keys of clients: how many may join, and what happens when the
// list of keys changes.
#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string>

#include "broker_core.h"

namespace tuplespace {

bool BrokerCore::TooManyOf(const AllowedPeer& key) const {
  std::uint64_t count = 0;
  for (const auto& [id, peer] : peers_.all()) {
    if (peer.key && peer.key->public_key == key.public_key) ++count;
  }
  return count >= options_.clients_per_key;
}

std::optional<RequestError> BrokerCore::CheckRoomFor(const AccessList::Entry* who) const {
  if (peers_.all().size() >= options_.limits.clients) {
    return RequestError{ErrorCode::kBusy,
                        fmt::format("the limit clients = {} is reached", options_.limits.clients)};
  }
  if (who != nullptr && TooManyOf(who->peer)) {
    return RequestError{
        ErrorCode::kBusy,
        fmt::format(
            "{} clients with the key \"{}\" have joined, the most allowed (clients_per_key)",
            options_.clients_per_key, who->peer.name)};
  }
  return std::nullopt;
}

void BrokerCore::SendAwayOthers(const AccessList& list, std::int64_t now_us) {
  for (const ClientId& client : Clients()) {
    const Peer& peer = peers_.Find(client)->second;
    const AccessList::Entry* who = peer.key ? list.Find(peer.key->public_key) : nullptr;
    const bool same = who != nullptr && who->peer.name == peer.key->name &&
                      who->peer.role == peer.key->role && who->peer.limit == peer.key->limit;
    if (same) continue;
    const std::string why = peer.key && list.IsEnded(peer.key->public_key)
                                ? list.WhyNot(peer.key->public_key)
                                : "this key was revoked, or its entry on the list has changed";
    peers_.SendStray(client, peer.session, RequestError{ErrorCode::kForbidden, why});
    LogAndLose(client, why, now_us);
  }
  EndJudges(list, now_us);
}

// Otherwise handlers would go on with the tasks of a key that was revoked because of its tasks.
void BrokerCore::EndJudges(const AccessList& list, std::int64_t now_us) {
  for (auto at = judges_.begin(); at != judges_.end();) {
    const AccessList::Entry* who = list.Find(at->second);
    if (who != nullptr && who->peer.name == at->first) {
      at = std::next(at);
      continue;
    }
    Step(KeyEnded{at->first}, now_us);
    at = judges_.erase(at);
  }
}

}  // namespace tuplespace
