// OwnClients: the sessions of two more clients that a BrokerHost connects directly to its broker:
// the observer, which reads the space, and the liar. Owned by a BrokerHost; used only on the
// world's thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <variant>

#include "envelope.h"

namespace acan::simulation {

class OwnClients {
 public:
  static constexpr const char* kObserver = "observer";
  static constexpr const char* kLiar = "liar";
  static bool Has(const tuplespace::ClientId& client) {
    return client == kObserver || client == kLiar;
  }

  // A new broker starts, which knows none of their sessions.
  void OnBroker() { sessions_.clear(); }
  // Takes the broker's answer to the Hello of one of them.
  void OnAnswer(const tuplespace::ClientId& client, const tuplespace::ToClient& envelope) {
    for (const tuplespace::BrokerMessage& message : envelope.messages) {
      const auto* welcome = std::get_if<tuplespace::Welcome>(&message);
      if (welcome != nullptr) sessions_[client] = welcome->session;
    }
  }
  // 0: it has no session.
  std::uint64_t SessionOf(const tuplespace::ClientId& client) { return sessions_[client]; }
  // Returns a request with a new id.
  tuplespace::Request RequestOf(tuplespace::RequestBody body) {
    return {next_request_++, std::move(body)};
  }

 private:
  std::map<tuplespace::ClientId, std::uint64_t> sessions_;
  tuplespace::RequestId next_request_ = 1;
};

}  // namespace acan::simulation
