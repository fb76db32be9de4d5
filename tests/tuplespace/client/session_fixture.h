// A client's session that a test drives step by step, and the messages that it sends.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "client_session.h"
#include "session_messages.h"
#include "wire.h"

namespace tuplespace {

class SessionTest : public ::testing::Test {
 protected:
  std::uint64_t TakeHello() {
    const ClientSession::Output output = session_.TakeOutput(now_us_);
    EXPECT_EQ(output.session, 0u);
    EXPECT_EQ(output.messages.size(), 1u);
    return std::get<Hello>(output.messages.at(0)).nonce;
  }
  void WelcomeIt(std::uint64_t session = 100) {
    session_.Receive(
        From(0, Welcome{TakeHello(), session, kSilenceUs, 64u << 20, std::uint64_t{1} << 30}),
        now_us_);
    EXPECT_TRUE(session_.joined());
    session_.TakeEvents();
  }
  void Join() {
    session_.Tick(now_us_);
    session_.TakeEvents();
    session_.LinkUp(now_us_);
    WelcomeIt();
  }
  // The ids of the requests in the session's next output.
  std::vector<RequestId> SentIds() {
    std::vector<RequestId> ids;
    for (const auto& message : session_.TakeOutput(now_us_).messages) {
      if (const auto* request = std::get_if<const Request*>(&message))
        ids.push_back((*request)->id);
    }
    return ids;
  }
  std::vector<Request> SentRequests() {
    std::vector<Request> requests;
    for (const auto& message : session_.TakeOutput(now_us_).messages) {
      if (const auto* request = std::get_if<const Request*>(&message))
        requests.push_back(**request);
    }
    return requests;
  }
  template <typename Event>
  int CountEvents() {
    int count = 0;
    for (const SessionEvent& event : session_.TakeEvents()) {
      count += std::holds_alternative<Event>(event);
    }
    return count;
  }

  std::int64_t now_us_ = 1'000'000;
  ClientSession session_{SessionOptions{}};
};

}  // namespace tuplespace
