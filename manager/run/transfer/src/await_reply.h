// AwaitReply: waits for the answer to a request for as long as its bytes take to arrive.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "tuplespace/client.h"

namespace acan {

// Polls `client` until `body` is answered. Calls `check` before, whenever something has come, and
// at least once a second; it may throw to stop. A blocking call of the client would either not
// keep a lead meanwhile, or give up on a large answer that takes longer than its `wait`. Throws
// SpaceError.
template <class Reply>
Reply AwaitReply(tuplespace::Client& client, tuplespace::RequestBody&& body,
                 const std::function<void()>& check) {
  constexpr std::chrono::seconds kTurn(1);
  std::optional<tuplespace::ReplyBody> answer;
  const tuplespace::RequestId id = client.Submit(
      std::move(body), [&](tuplespace::ReplyBody&& reply) { answer = std::move(reply); });
  // The handler must not outlive `answer`.
  struct Forget {
    tuplespace::Client& client;
    const tuplespace::RequestId id;
    ~Forget() { client.Abandon(id); }
  } const forget{client, id};
  check();
  while (!answer) {
    client.Poll(kTurn);
    check();
  }
  if (const auto* error = std::get_if<tuplespace::RequestError>(&*answer)) {
    throw tuplespace::SpaceError(error->code, error->text);
  }
  if (auto* reply = std::get_if<Reply>(&*answer)) return std::move(*reply);
  throw tuplespace::SpaceError(tuplespace::ErrorCode::kBadRequest,
                               "the broker's answer does not fit the request");
}

}  // namespace acan
