// Messages for the tests of sessions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "broker_core.h"
#include "client_session.h"
#include "plain_tuple.h"
#include "wire.h"

namespace tuplespace {

inline constexpr std::int64_t kSilenceUs = 10'000'000;

inline Put OnePut(std::int64_t n) {
  return Put{{PlainTuple({"n", n}, "x")}};
}

inline Get GetAny(const std::string& first) {
  Get get;
  get.pattern.fields = {FieldPattern::Exact(first)};
  get.pattern.open = true;
  return get;
}

template <typename Message>
ToClient From(std::uint64_t session, Message message) {
  ToClient envelope;
  envelope.session = session;
  envelope.messages.emplace_back(std::move(message));
  return envelope;
}

inline RequestError HelloRequired() {
  return {ErrorCode::kHelloRequired, "join again"};
}
inline RequestError Busy() {
  return {ErrorCode::kBusy, "limits.tuples"};
}

inline ToBroker To(std::uint64_t session, ClientMessage message) {
  ToBroker envelope;
  envelope.session = session;
  envelope.messages.push_back(std::move(message));
  return envelope;
}

inline std::uint64_t JoinCore(BrokerCore& core, const ClientId& client, std::int64_t now_us,
                              std::uint64_t nonce = 1) {
  core.Receive(client, To(0, Hello{nonce, "n"}), now_us);
  for (const auto& delivery : core.TakeOutput()) {
    if (delivery.client != client) continue;
    for (const BrokerMessage& message : delivery.envelope.messages) {
      if (const auto* welcome = std::get_if<Welcome>(&message)) return welcome->session;
    }
  }
  return 0;
}

}  // namespace tuplespace
