// SessionTickets: which tickets the holder of payloads accepts: those of its present session with
// the broker, until they expire by the broker's clock. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ticket.h"

namespace tuplespace {

class SessionTickets {
 public:
  explicit SessionTickets(std::string secret) : secret_(std::move(secret)) {}

  std::uint64_t session() const { return session_; }  // 0: none
  // `broker_us` is the broker's clock at `now_us`.
  void Begin(std::uint64_t session, std::int64_t broker_us, std::int64_t now_us) {
    session_ = session;
    broker_ahead_us_ = broker_us - now_us;
  }
  void End() { session_ = 0; }

  // Whether `reader`, whose connection has this public key, may have the payload of `key`, the
  // bytes of a tuple's key. Without a session every ticket is forged.
  TicketVerdict Check(std::string_view ticket, std::string_view reader, std::string_view public_key,
                      std::string_view key, std::int64_t now_us) const {
    if (session_ == 0) return TicketVerdict::kForged;
    return CheckTicket(secret_, ticket, {session_, reader, public_key, key},
                       now_us + broker_ahead_us_);
  }

 private:
  const std::string secret_;
  std::uint64_t session_ = 0;
  std::int64_t broker_ahead_us_ = 0;
};

}  // namespace tuplespace
