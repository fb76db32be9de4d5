// A real broker in this process, and a client of it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <zmq.hpp>

#include "tuplespace/broker.h"
#include "tuplespace/client.h"

namespace acan {

class SpaceTest : public ::testing::Test {
 protected:
  SpaceTest() {
    tuplespace::BrokerOptions options;
    options.listen = {"inproc://space"};
    options.context = &context_;
    broker_ = std::make_unique<tuplespace::Broker>(std::move(options));
    thread_ = std::thread([this] { broker_->Run(); });
    client_ = std::make_unique<tuplespace::Client>(tuplespace::ClientOptions{
        .endpoint = "inproc://space", .name = "test", .id = {}, .context = &context_});
  }
  ~SpaceTest() override {
    client_.reset();
    broker_->Stop();
    thread_.join();
    broker_.reset();
  }

  // Sends requests that must not fail, without waiting for the answers.
  std::function<void(tuplespace::RequestBody)> Submit() {
    return [this](tuplespace::RequestBody body) {
      client_->Submit(std::move(body), [](tuplespace::ReplyBody&& reply) {
        EXPECT_EQ(std::get_if<tuplespace::RequestError>(&reply), nullptr);
      });
    };
  }

  zmq::context_t context_;
  std::unique_ptr<tuplespace::Broker> broker_;
  std::thread thread_;
  std::unique_ptr<tuplespace::Client> client_;
};

}  // namespace acan
