// A fixture with a broker and a handler that has a turn only when the test gives it one.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "acan/handler/handler.h"
#include "broker_fixture.h"

namespace acan {

class HandlerBesideBroker : public testing::Test {
 protected:
  // Starts the broker, the handler "handler", which keeps its log in log_, and a client that may do
  // everything. REQUIRES: `options` has a device.
  void Start(HandlerOptions options, tuplespace::BrokerOptions broker = {}) {
    broker.listen = {endpoint_};
    broker.context = &context_;
    broker_ = std::make_unique<tuplespace::BrokerThread>(std::move(broker));
    options.endpoint = endpoint_;
    options.name = "handler";
    options.context = &context_;
    options.log = [this](const std::string& line) { log_.push_back(line); };
    handler_ = std::make_unique<Handler>(std::move(options));
    tuplespace::ClientOptions client = tuplespace::ClientAt(endpoint_);
    client.context = &context_;
    client_ = std::make_unique<tuplespace::Client>(client);
  }
  // What the handler's device refers to may be a member of the derived fixture.
  void TearDown() override {
    client_.reset();
    handler_.reset();
    broker_.reset();
  }
  // Gives the handler turns until `done`; false if that takes too long.
  bool TurnUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + tuplespace::kGenerous;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      handler_->Turn(std::chrono::milliseconds(1));
    }
    return true;
  }

  const std::string endpoint_ = "inproc://handler";
  zmq::context_t context_{1};
  std::vector<std::string> log_;
  std::unique_ptr<tuplespace::BrokerThread> broker_;
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<tuplespace::Client> client_;
};

}  // namespace acan
