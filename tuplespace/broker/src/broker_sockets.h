// BrokerSockets: binds and watches the sockets of a broker: receives messages, reports connections
// that begin and end, and waits for both.
//
// For one thread.
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
  // As in Listeners.
  std::vector<std::string> BindLost(std::int64_t now_us) { return listeners_->BindLost(now_us); }
  std::int64_t NextLookUs() const { return listeners_->NextLookUs(); }
  void Close();  // sends what is left; REQUIRES: no calls afterwards

  ReceiveResult Receive(ReceivedMultipart& message);
  // Drops the unfinished message of this client.
  void ForgetUnfinished(const ClientId& client) { receiver_.Forget(client); }
  // As in Receiver; of a key.
  void SetUnfinishedBytesOfKey(std::uint64_t bytes) { receiver_.SetUnfinishedBytesOfUser(bytes); }
  std::vector<std::string> TakeDropped() { return receiver_.TakeDropped(); }
  // Whether there may be something to receive.
  bool has_input() const { return has_input_; }
  void ExpectInput() { has_input_ = true; }

  bool has_news() const { return has_news_; }  // about connections
  Monitor::Seen TakeNews();

  // Waits until something comes or `wake_fd` is readable. Returns whether `wake_fd` is readable.
  bool Poll(std::int64_t deadline_us, int wake_fd);
  std::int64_t polled_at_us() const { return polled_at_us_; }

 private:
  void Configure(const BrokerOptions& options);

  std::unique_ptr<zmq::context_t> own_context_;
  zmq::context_t& context_;
  std::unique_ptr<Authenticator> authenticator_;  // before the sockets that use it
  zmq::socket_t router_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<Listeners> listeners_;
  Receiver receiver_;
  bool has_input_ = true;
  bool has_news_ = true;
  std::int64_t polled_at_us_ = 0;
};

}  // namespace tuplespace
