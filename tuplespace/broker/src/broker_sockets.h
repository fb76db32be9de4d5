// BrokerSockets: the sockets of a broker, bound and watched: what may be received, which
// connections came and went, and waiting for either.
//
// One thread owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "authenticator.h"
#include "listeners.h"
#include "sockets.h"
#include "tuplespace/broker.h"

namespace tuplespace {

class BrokerSockets {
 public:
  // Binds. Throws as Broker does.
  BrokerSockets(const BrokerOptions& options, PackingLimits limits);

  zmq::socket_t& router() { return router_; }
  Authenticator* authenticator() { return authenticator_.get(); }  // null: there are no keys
  const std::vector<std::string>& endpoints() const { return listeners_->endpoints(); }
  // As of Listeners.
  std::vector<std::string> BindLost(std::int64_t now_us) { return listeners_->BindLost(now_us); }
  std::int64_t NextLookUs() const { return listeners_->NextLookUs(); }
  void Close();  // sends what is left; nothing else may be called then

  ReceiveResult Receive(ReceivedMultipart& message);
  // What this client has begun to send is dropped.
  void ForgetUnfinished(const ClientId& client) { receiver_.Forget(client); }
  // As of Receiver.
  std::vector<std::string> TakeDropped() { return receiver_.TakeDropped(); }
  // There may be something to receive.
  bool has_input() const { return has_input_; }
  void ExpectInput() { has_input_ = true; }

  bool has_news() const { return has_news_; }  // of connections
  Monitor::Seen TakeNews();

  // Waits until something comes or `wake_fd` is readable; says whether that is so.
  bool Poll(std::int64_t deadline_us, int wake_fd);
  std::int64_t polled_at_us() const { return polled_at_us_; }

 private:
  void Configure(const BrokerOptions& options);

  std::unique_ptr<zmq::context_t> own_context_;
  zmq::context_t& context_;
  std::unique_ptr<Authenticator> authenticator_;  // before the sockets that ask it
  zmq::socket_t router_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<Listeners> listeners_;
  Receiver receiver_;
  bool has_input_ = true;
  bool has_news_ = true;
  std::int64_t polled_at_us_ = 0;
};

}  // namespace tuplespace
