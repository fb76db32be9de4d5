#include "peer_listener.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "descriptor_shares.h"
#include "endpoint.h"
#include "frames.h"

namespace tuplespace {

namespace {

constexpr int kListenerTurnMessages = 64;
constexpr std::int64_t kSilenceUs = 120'000'000;  // of an idle connection; readers reconnect
constexpr int kPeerBacklog = 128;
// Of a connection. ZeroMQ may still count up to half of them when they have already left. A reader
// of this library has fewer than 50 in flight: pieces, and the shorter ends of payloads.
constexpr int kQueuedMessages = 256;

std::string Announced(const std::string& bound, const std::string& address) {
  const std::size_t colon = bound.rfind(':');
  const std::string host = bound.substr(6, colon - 6);  // after tcp://
  const bool any = host == "0.0.0.0" || host == "[::]";
  return any && !address.empty() ? "tcp://" + address + bound.substr(colon) : bound;
}

// ZeroMQ retries without a pause when it runs out of descriptors.
ConnectionLimits Possible(ConnectionLimits limits) {
  limits.connections = PeerConnections(DescriptorLimit(), limits.connections);
  return limits;
}

// Frees what counts the bytes as queued when ZeroMQ frees the bytes.
zmq::message_t MessageOf(PeerHolder::Outgoing&& out) {
  struct Kept {
    std::unique_ptr<std::byte[]> bytes;
    std::shared_ptr<const void> queued;
  };
  const std::size_t size = out.head.size() + out.body.size();
  auto kept = std::make_unique<Kept>();
  kept->bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  std::memcpy(kept->bytes.get(), out.head.data(), out.head.size());
  if (!out.body.empty()) {
    std::memcpy(kept->bytes.get() + out.head.size(), out.body.data(), out.body.size());
  }
  kept->queued = std::move(out.queued);
  const auto free = [](void*, void* hint) { delete static_cast<Kept*>(hint); };
  zmq::message_t message(kept->bytes.get(), size, free, kept.get());
  static_cast<void>(kept.release());
  return message;
}

}  // namespace

PeerListener::PeerListener(zmq::context_t& context, const CourierOptions& options)
    : has_keys_(options.keys.has_value()),
      authenticator_(has_keys_ ? std::make_unique<Authenticator>(context) : nullptr),
      router_(MakeRouter(context)),
      connections_(Possible(kPeerConnections), kSilenceUs, options.first_fetch_us),
      holder_(listening_.secret = MakeTicketSecret(), options.holder_limits) {
  SetCommonOptions(router_);
  if (has_keys_) {
    // A pair for this process only: no other socket has the client's own secret key, and a process
    // that had one pair has nothing of the next.
    const KeyPair pair = MakeKeyPair();
    listening_.public_key = pair.public_key;
    Authenticator::Guard(router_, pair);
  }
  router_.set(zmq::sockopt::maxmsgsize,
              static_cast<std::int64_t>(kMaxToHolderBytes + kEncryptionBytes));
  router_.set(zmq::sockopt::handshake_ivl, static_cast<int>(kPeerConnections.handshake_us / 1000));
  router_.set(zmq::sockopt::backlog, kPeerBacklog);
  router_.set(zmq::sockopt::sndhwm, kQueuedMessages);
  router_.set(zmq::sockopt::router_mandatory, true);
  monitor_ = std::make_unique<Monitor>(context, router_);
  const std::string address = ListenAddress(options.listen, has_keys_);
  router_.set(zmq::sockopt::ipv6, IsIpv6(address));
  try {
    router_.bind(address);
  } catch (const zmq::error_t& error) {
    throw std::runtime_error(fmt::format("cannot listen at {}: {}", address, error.what()));
  }
  listening_.endpoint = Announced(router_.get(zmq::sockopt::last_endpoint), options.address);
}

PeerListener::~PeerListener() = default;

bool PeerListener::Work(std::int64_t now_us) {
  if (authenticator_) authenticator_->LetAllIn(now_us);
  WatchConnections(now_us);
  int received = 0;
  while (received < kListenerTurnMessages && ReceiveOne(now_us)) ++received;
  if (received < kListenerTurnMessages) connections_.Drained();
  holder_.Tick(now_us);
  for (const std::string& peer : holder_.TakeStalledPeers()) Drop(peer, now_us);
  return SendAll(now_us) || received > 0;
}

void PeerListener::WatchConnections(std::int64_t now_us) {
  for (const Monitor::Change& change : monitor_->Drain().changes) {
    // Peers of an earlier connection with this number are gone in either case.
    EndPeersOf(change.descriptor);
    if (change.accepted) {
      connections_.Accepted(change.descriptor, now_us);
    } else {
      connections_.Ended(change.descriptor);
    }
  }
  connections_.Tick(now_us);
  connections_.TakeEndedClients();
  connections_.TakeLog();
}

// A peer with a full window is sent nothing, so no failing send would reveal that it has gone.
void PeerListener::EndPeersOf(int descriptor) {
  std::erase_if(descriptor_of_, [&](const auto& entry) {
    if (entry.second != descriptor) return false;
    holder_.PeerGone(entry.first);
    return true;
  });
}

bool PeerListener::NoteConnection(const std::string& peer, int descriptor, std::int64_t now_us) {
  const auto known = descriptor_of_.find(peer);
  if (known != descriptor_of_.end() && known->second == descriptor) return true;
  // The number may have belonged to another connection. ZeroMQ reports a connection before it
  // delivers a message of it, so any end that is reported after this concerns this connection. But
  // messages of a connection that has ended may still come.
  WatchConnections(now_us);
  if (!connections_.Has(descriptor)) return false;
  descriptor_of_[peer] = descriptor;
  return true;
}

bool PeerListener::ReceiveOne(std::int64_t now_us) {
  zmq::message_t id, message;
  if (!ReceiveFrame(router_, id, ZMQ_DONTWAIT)) return false;
  const std::string peer = id.to_string();
  bool more = id.more();
  if (more) {
    ReceiveFrame(router_, message, 0);
    more = message.more();
  }
  const int descriptor = zmq_msg_get(message.handle(), ZMQ_SRCFD);
  const char* const user = zmq_msg_gets(message.handle(), "User-Id");
  const std::string public_key = user == nullptr ? "" : user;
  const bool several = more;
  for (zmq::message_t rest; more; more = rest.more()) ReceiveFrame(router_, rest, 0);
  if (!NoteConnection(peer, descriptor, now_us)) return true;
  const std::span<const std::byte> bytes{message.data<const std::byte>(), message.size()};
  const bool good = !several && (!has_keys_ || !public_key.empty()) &&
                    holder_.Receive(peer, public_key, bytes, now_us);
  // Every key gets here, so only a fetch with a good ticket counts.
  connections_.Heard(descriptor, "", message.size(), holder_.HadTicket(peer));
  if (!good) connections_.DropSoon(descriptor, now_us);
  return true;
}

void PeerListener::Drop(const std::string& peer, std::int64_t now_us) {
  const auto at = descriptor_of_.find(peer);
  if (at != descriptor_of_.end()) connections_.DropSoon(at->second, now_us);
}

bool PeerListener::SendAll(std::int64_t now_us) {
  bool sent = false;
  while (std::optional<PeerHolder::Outgoing> out = holder_.TakeOutput()) {
    const std::string peer = out->peer;
    zmq::message_t id(peer.data(), peer.size());
    zmq::message_t body = MessageOf(std::move(*out));
    // If the queue is full, the connection ends: a reader that takes what it asked for does not
    // fill it.
    const bool there =
        SendFrame(router_, id, /*more=*/true) == 0 && SendFrame(router_, body, /*more=*/false) == 0;
    if (!there) {
      Drop(peer, now_us);
      holder_.PeerGone(peer);
    }
    sent = true;
  }
  return sent;
}

std::int64_t PeerListener::NextDeadlineUs() const {
  return std::min(holder_.NextDeadlineUs(), connections_.NextDeadlineUs());
}

void PeerListener::AddTo(std::vector<zmq_pollitem_t>& items) {
  items.push_back({router_.handle(), 0, ZMQ_POLLIN, 0});
  items.push_back({monitor_->handle(), 0, ZMQ_POLLIN, 0});
  if (authenticator_) items.push_back({authenticator_->handle(), 0, ZMQ_POLLIN, 0});
}

void PeerListener::Close() noexcept {
  monitor_.reset();  // before the socket that it watches
  router_.close();
}

}  // namespace tuplespace
