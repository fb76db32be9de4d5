#include "broker_sockets.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "endpoint.h"

namespace tuplespace {

namespace {

constexpr int kBacklog = 1024;  // connections that may wait to be accepted: many start at once
// Of at most kPartBytes each, for each client, inside ZeroMQ. No limit of a key counts them, so
// they are few; the rest waits in the Outbox.
constexpr int kQueuedParts = 8;
constexpr int kLingerMs = 200;  // for the last answers and the Goodbye

std::vector<std::string> AddressesOf(const BrokerOptions& options) {
  std::vector<std::string> addresses;
  if (options.listen.empty()) {
    throw std::invalid_argument("a broker needs an address to listen at");
  }
  for (const std::string& endpoint : options.listen) {
    addresses.push_back(ListenAddress(endpoint, options.access.has_value()));
  }
  return addresses;
}

}  // namespace

BrokerSockets::BrokerSockets(const BrokerOptions& options, PackingLimits limits)
    : own_context_(options.context == nullptr ? std::make_unique<zmq::context_t>(1) : nullptr),
      context_(own_context_ ? *own_context_ : *options.context),
      authenticator_(options.access ? std::make_unique<Authenticator>(context_) : nullptr),
      router_(MakeRouter(context_)),
      receiver_(limits, options.connections.unfinished_bytes_of_key) {
  const std::vector<std::string> addresses = AddressesOf(options);
  Configure(options);
  monitor_ = std::make_unique<Monitor>(context_, router_);
  listeners_ = std::make_unique<Listeners>(router_, *monitor_);
  try {
    for (const std::string& address : addresses) listeners_->Bind(address);
  } catch (...) {
    Close();
    throw;
  }
}

void BrokerSockets::Configure(const BrokerOptions& options) {
  SetCommonOptions(router_);
  if (options.access) Authenticator::Guard(router_, options.access->keys);
  router_.set(zmq::sockopt::handshake_ivl,
              static_cast<int>(
                  std::clamp<std::int64_t>(options.connections.handshake_us / 1000, 1, INT32_MAX)));
  router_.set(zmq::sockopt::backlog, kBacklog);
  router_.set(zmq::sockopt::router_mandatory, true);
  // With keys, a new connection must not take over the id of an existing one, which may belong to
  // another client.
  router_.set(zmq::sockopt::router_handover, !options.access);
  router_.set(zmq::sockopt::sndhwm, kQueuedParts);
}

void BrokerSockets::Close() {
  listeners_->Close();
  listeners_.reset();
  monitor_.reset();
  router_.set(zmq::sockopt::linger, kLingerMs);
  router_.close();
}

ReceiveResult BrokerSockets::Receive(ReceivedMultipart& message) {
  const ReceiveResult result = receiver_.Receive(router_, /*router=*/true, message);
  has_input_ = result != ReceiveResult::kNothing;
  return result;
}

Monitor::Seen BrokerSockets::TakeNews() {
  if (!std::exchange(has_news_, false)) return {};
  return monitor_->Drain();
}

bool BrokerSockets::Poll(std::int64_t deadline_us, int wake_fd) {
  zmq_pollitem_t items[] = {
      {router_.handle(), 0, ZMQ_POLLIN, 0},
      {monitor_->handle(), 0, ZMQ_POLLIN, 0},
      {nullptr, wake_fd, ZMQ_POLLIN, 0},
      {authenticator_ ? authenticator_->handle() : nullptr, -1, ZMQ_POLLIN, 0}};
  PollUntil({items, authenticator_ ? std::size(items) : std::size(items) - 1}, deadline_us);
  polled_at_us_ = MonotonicUs();
  if (items[0].revents != 0) has_input_ = true;
  if (items[1].revents != 0) has_news_ = true;
  return items[2].revents != 0;
}

}  // namespace tuplespace
