// ClientSession: the begin and the end of its connections.
#include <fmt/format.h>

#include <algorithm>

#include "client_session.h"

namespace tuplespace {

namespace {

// A connection that lasted this long was good: after it the next attempt is made at once.
constexpr std::int64_t kStableUs = 1'000'000;
// Refusals of the key that are further apart do not show that it is refused all the time.
constexpr std::int64_t kRefusalsApartUs = 30'000'000;

}  // namespace

void ClientSession::LinkUp(std::int64_t now_us) {
  if (state_ == State::kFailed || state_ == State::kLeft) return;
  link_.relink_at_us = kForeverUs;
  joining_.reached = joining_.established = false;
  if (joining_.nonce == options_.first_nonce) delays_.alone_since_us = now_us;  // the first attempt
  BeginHello(now_us);
}

void ClientSession::BeginHello(std::int64_t now_us) {
  state_ = State::kJoining;
  ++joining_.nonce;
  joining_.hello_due = true;
  link_.ping_due_at_us = link_.ping_sent_at_us = kForeverUs;
  joining_.retry_at_us = kForeverUs;
  joining_.deadline_us = now_us + std::min(joining_.timeout_us, MostHelloTimeoutUs());
}

std::int64_t ClientSession::MostHelloTimeoutUs() const {
  return joining_.reached ? options_.max_reached_timeout_us : options_.max_hello_timeout_us;
}

// The time for a Welcome begins again with each step of the connection: otherwise a client would
// never join over a link on which the steps together take longer.
void ClientSession::LinkReached(std::int64_t now_us) {
  joining_.reached = true;
  const bool waits = state_ == State::kJoining && joining_.deadline_us != kForeverUs;
  if (waits) joining_.deadline_us = now_us + joining_.timeout_us;
}

void ClientSession::LinkEstablished(std::int64_t now_us) {
  LinkReached(now_us);
  joining_.established = true;
  joining_.refused_since_us = kForeverUs;
}

void ClientSession::LinkDown(const std::string& why, std::int64_t now_us) {
  if (state_ != State::kJoining && state_ != State::kJoined) return;
  if (state_ == State::kJoined) {
    if (now_us - link_.joined_at_us >= kStableUs) link_.relink_delay_us = 0;
    events_.emplace_back(ConnectionChanged{false, why});
    delays_.alone_since_us = now_us;
  }
  state_ = State::kNoLink;
  joining_.hello_due = false;
  link_.ping_due_at_us = kForeverUs;
  joining_.deadline_us = joining_.retry_at_us = kForeverUs;
  link_.relink_at_us = now_us + link_.relink_delay_us;
  link_.relink_delay_us = std::clamp(2 * link_.relink_delay_us, options_.min_relink_delay_us,
                                     options_.max_relink_delay_us);
}

void ClientSession::LinkRefused(const std::string& why, bool expired, std::int64_t now_us) {
  if (state_ == State::kFailed || state_ == State::kLeft) return;
  if (expired) return Fail({ErrorCode::kForbidden, why});
  if (joining_.refused_since_us == kForeverUs ||
      now_us - joining_.refused_at_us > kRefusalsApartUs) {
    joining_.refused_since_us = now_us;
  }
  joining_.refused_at_us = now_us;
  const bool was_joined = welcome_.session != 0;
  const std::int64_t refused_us = now_us - joining_.refused_since_us;
  if (was_joined || refused_us < options_.refusal_patience_us) return LinkDown(why, now_us);
  const std::string lately =
      refused_us == 0 ? "" : fmt::format("; this has gone on for {} s", refused_us / 1'000'000);
  Fail({ErrorCode::kForbidden, why + lately});
}

}  // namespace tuplespace
