// BrokerCore: what depends on the keys of clients: how many may join, and what happens when the
// list of keys changes.
#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string>

#include "broker_core.h"

namespace tuplespace {

namespace {

// Whether the key that `now` describes (null: it is not on the list) allows what it did.
bool MeansTheSame(const AllowedPeer& before, const AccessList::Entry* now) {
  return now != nullptr && now->peer.name == before.name && now->peer.role == before.role &&
         now->peer.limit == before.limit;
}

}  // namespace

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
    if (peer.key && MeansTheSame(*peer.key, list.Find(peer.key->public_key))) continue;
    const std::string why = peer.key && list.IsEnded(peer.key->public_key)
                                ? list.WhyNot(peer.key->public_key)
                                : "this key was revoked, or its entry on the list has changed";
    peers_.SendStray(client, peer.session, RequestError{ErrorCode::kForbidden, why});
    LogAndLose(client, why, now_us);
  }
  EndJudges(list, now_us);
}

// Otherwise handlers would go on with the tasks of a key that was revoked because of its tasks, or
// that may not remove them any more because its role or limit has changed.
void BrokerCore::EndJudges(const AccessList& list, std::int64_t now_us) {
  for (auto at = judges_.begin(); at != judges_.end();) {
    if (MeansTheSame(at->second, list.Find(at->second.public_key))) {
      at = std::next(at);
      continue;
    }
    Step(KeyEnded{at->first}, now_us);
    at = judges_.erase(at);
  }
}

}  // namespace tuplespace
