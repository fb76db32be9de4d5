// BrokerCore: direct transfers: which clients listen, and the places of payloads for clients that
// may read them.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "broker_core.h"
#include "ticket.h"

namespace tuplespace {

void BrokerCore::OnListening(const ClientId& client, Peer& peer, Listening&& listening,
                             std::int64_t now_us) {
  if (!listening.endpoint.starts_with("tcp://") || listening.secret.size() != kTicketSecretBytes) {
    return OnMalformed(client,
                       {0, fmt::format("a Listening needs a tcp endpoint, and a secret of {} bytes",
                                       kTicketSecretBytes)},
                       now_us);
  }
  // A reader keeps a connection to each place that it learns of.
  if (peer.listening) {
    return OnMalformed(client, {0, "a second Listening in one session"}, now_us);
  }
  // Readers connect with keys if the broker has keys, and without otherwise.
  if (peer.key.has_value() == listening.public_key.empty()) return;
  peer.listening = std::make_unique<const Listening>(std::move(listening));
  Step(ClientListens{client}, now_us);
}

void BrokerCore::FillPlaces(const ClientId& reader, const Peer& peer, ReplyBody& body,
                            std::int64_t now_us) {
  if (auto* found = std::get_if<Found>(&body)) {
    for (FoundTuple& tuple : found->tuples) FillPlace(reader, peer, tuple, now_us);
  } else if (auto* grants = std::get_if<Grants>(&body)) {
    for (Grant& grant : grants->grants) {
      for (FoundTuple& input : grant.inputs) FillPlace(reader, peer, input, now_us);
    }
  }
}

void BrokerCore::FillPlace(const ClientId& reader, const Peer& peer, FoundTuple& found,
                           std::int64_t now_us) {
  if (!found.place) return;
  found.place = nullptr;
  const auto holder = peers_.Find(found.put_by);
  if (holder == peers_.end() || !holder->second.listening) return;  // the client reads it once more
  const Listening& listening = *holder->second.listening;
  const TicketClaims claims{holder->second.session, reader,
                            peer.key ? std::string_view(peer.key->public_key) : "",
                            found.key.bytes()};
  found.place = std::make_shared<const Place>(
      Place{listening.endpoint, listening.public_key,
            MakeTicket(listening.secret, claims, now_us + options_.ticket_us)});
}

}  // namespace tuplespace
