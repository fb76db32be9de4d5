#include "sender.h"

#include <span>
#include <utility>
#include <variant>

namespace tuplespace {

void Sender::SendAll() {
  SendSegments();
  for (BrokerCore::Delivery& delivery : core_.TakeOutput()) Deliver(delivery);
}

bool Sender::IsGone(zmq::socket_t& router, const ClientId& client) {
  encoder_.Begin(0);
  // A client that listens takes the clock from any Pong, and this one may come before it has used
  // the clock of its Welcome.
  encoder_.Add(Pong{clock_.NowUs()});
  SendProgress progress;
  return Send(router, &client, encoder_.Finish(), {}, progress) == SendResult::kUnroutable;
}

void Sender::SendSegments() {
  for (const SegmentTable::Delivery& delivery : segments_.TakeOutput()) {
    encoder_.Begin(delivery.session);
    encoder_.Add(delivery.message);
    SendEncoded(delivery.client, delivery.session, false);
  }
}

void Sender::Deliver(BrokerCore::Delivery& delivery) {
  EncodeFor client{.namer = segments_.To(delivery.client)};
  // Messages through shared memory do not cross a link.
  const bool compressed = delivery.decompresses && client.namer == nullptr;
  if (compressed) client.compressed_limit = kBatchControlBytes;
  const auto begin = [&] { encoder_.Begin(delivery.envelope.session, client); };
  begin();
  for (BrokerMessage& one : delivery.envelope.messages) {
    if (auto* welcome = std::get_if<Welcome>(&one)) {
      welcome->decompresses = true;  // Intake decompresses
      const auto offer = offers_.find(delivery.client);
      if (offer != offers_.end()) Share(delivery.client, offer->second, *welcome);
    }
    if (encoder_.full()) {
      SendEncoded(delivery.client, delivery.envelope.session, compressed);
      begin();
    }
    std::visit([&](const auto& body) { encoder_.Add(body); }, one);
  }
  if (!encoder_.empty()) SendEncoded(delivery.client, delivery.envelope.session, compressed);
}

void Sender::Share(const ClientId& client, const std::optional<Sharing>& offer, Welcome& welcome) {
  welcome.sharing = segments_.Joined(client, welcome.session, welcome.nonce, offer);
  if (welcome.sharing && !welcome.sharing->sees.empty()) {
    channels_.Joined(client, welcome.session, *offer, *welcome.sharing);
  }
}

void Sender::SendEncoded(const ClientId& client, std::uint64_t session, bool compressed) {
  if (connections_.IsEnded(client)) return;  // another client may have its id by now
  std::span<const std::byte> control = encoder_.Finish();
  if (compressed) control = compressor_.Compress(control);
  const Peer* const peer = core_.PeerOf(client);
  Outbox::Group group;
  if (peer != nullptr && peer->key) group = {peer->key->name, peer->unread_bytes_of_key};
  const auto lost =
      outbox_.Send(client, peer != nullptr ? session : 0, control, encoder_.TakeFrames(), group);
  if (lost) lose_(client, *lost);
}

}  // namespace tuplespace
