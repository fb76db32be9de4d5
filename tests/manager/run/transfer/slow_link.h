// A broker, a client near it, and one behind a slow link.
#pragma once

#include <memory>
#include <thread>

#include "cutting_relay.h"
#include "tuplespace/broker.h"
#include "tuplespace/client.h"

namespace acan {

class SlowLink {
 public:
  explicit SlowLink(std::uint64_t bytes_per_second)
      : broker_(Options()), thread_([this] { broker_.Run(); }) {
    near_ = ClientAt(broker_.endpoints().front());
    relay_ = std::make_unique<tuplespace::CuttingRelay>(broker_.endpoints().front());
    relay_->LimitTo(bytes_per_second);
    far_ = ClientAt(relay_->endpoint());
  }
  ~SlowLink() {
    far_.reset();
    near_.reset();
    broker_.Stop();
    thread_.join();
  }
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;

  tuplespace::Client& near() { return *near_; }
  tuplespace::Client& far() { return *far_; }
  std::uint64_t passed() const { return relay_->passed(); }  // bytes over the slow link

 private:
  static tuplespace::BrokerOptions Options() {
    tuplespace::BrokerOptions options;
    options.listen = {"tcp://127.0.0.1:*"};
    return options;
  }
  static std::unique_ptr<tuplespace::Client> ClientAt(const std::string& endpoint) {
    tuplespace::ClientOptions options;
    options.endpoint = endpoint;
    options.shared_memory = false;  // it would bypass the link
    return std::make_unique<tuplespace::Client>(options);
  }

  tuplespace::Broker broker_;
  std::thread thread_;
  std::unique_ptr<tuplespace::Client> near_;
  std::unique_ptr<tuplespace::CuttingRelay> relay_;
  std::unique_ptr<tuplespace::Client> far_;
};

}  // namespace acan
