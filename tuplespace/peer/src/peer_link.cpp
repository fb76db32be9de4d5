#include "peer_link.h"

#include <span>
#include <stdexcept>

#include "endpoint.h"
#include "frames.h"

namespace tuplespace {

namespace {
constexpr int kLinkTurnMessages = 64;
}

PeerLink::PeerLink(zmq::context_t& context, const CourierOptions& options, const Place& place)
    : dealer_(context, zmq::socket_type::dealer), reader_(options.reader_limits) {
  const std::string address =
      PlaceAddress(place.endpoint, options.keys.has_value(), options.address);
  SetCommonOptions(dealer_);
  if (options.keys) {
    if (const auto problem = KeyProblem(place.public_key)) {
      throw std::invalid_argument("the public key of a place " + *problem);
    }
    dealer_.set(zmq::sockopt::curve_serverkey, place.public_key);
    dealer_.set(zmq::sockopt::curve_publickey, options.keys->public_key);
    dealer_.set(zmq::sockopt::curve_secretkey, options.keys->secret_key);
  }
  dealer_.set(zmq::sockopt::ipv6, IsIpv6(address));
  monitor_ = std::make_unique<Monitor>(context, dealer_);
  dealer_.connect(address);
}

bool PeerLink::Work(std::int64_t now_us) {
  int received = 0;
  zmq::message_t message;
  while (received < kLinkTurnMessages && ReceiveFrame(dealer_, message, ZMQ_DONTWAIT)) {
    ++received;
    const bool several = message.more();
    if (several) {
      while (message.more()) ReceiveFrame(dealer_, message, 0);
      reader_.Fail("it sent a multipart message");
      continue;
    }
    reader_.Receive({message.data<const std::byte>(), message.size()}, now_us);
  }
  const Monitor::Seen seen = monitor_->Drain();
  if (!seen.local_address.empty()) reader_.Connected(now_us);
  if (seen.disconnected > 0 || seen.closed > 0) {
    if (!reader_.idle()) reader_.Fail("the connection ended, or nobody listens there");
    ended_ = true;
  }
  reader_.Tick(now_us);
  return SendAll() || received > 0;
}

bool PeerLink::SendAll() {
  bool sent = false;
  for (const std::vector<std::byte>& frame : reader_.TakeOutput()) {
    zmq::message_t message(frame.data(), frame.size());
    if (SendFrame(dealer_, message, /*more=*/false) != 0) {
      reader_.Fail("nothing can be sent to it");
      return true;
    }
    sent = true;
  }
  return sent;
}

void PeerLink::AddTo(std::vector<zmq_pollitem_t>& items) {
  items.push_back({dealer_.handle(), 0, ZMQ_POLLIN, 0});
  items.push_back({monitor_->handle(), 0, ZMQ_POLLIN, 0});
}

}  // namespace tuplespace
