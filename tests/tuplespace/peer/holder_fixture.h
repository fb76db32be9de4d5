// A holder without sockets, and what its tests say to it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "peer_holder.h"

namespace tuplespace {

inline constexpr std::uint64_t kHolderSession = 12;
inline constexpr std::int64_t kBrokerUs = 5'000'000'000;  // ahead of the holder's clock
inline constexpr std::uint64_t kPiece = kPieceBytes;
inline const Key kTile{"tile", 1};

class PeerHolderTest : public ::testing::Test {
 protected:
  PeerHolderTest() { Begin({}); }
  void Begin(PeerHolderLimits limits) {
    holder_.emplace(secret_, limits);
    holder_->SessionBegan(kHolderSession, kBrokerUs, now_us_);
  }
  std::string TicketFor(const Key& key, const std::string& reader = "reader",
                        const std::string& public_key = "") const {
    return MakeTicket(secret_, {kHolderSession, reader, public_key, key.bytes()},
                      kBrokerUs + 60'000'000);
  }
  FetchFrame FetchOf(std::uint64_t number, const Key& key = kTile) const {
    return {number, TicketFor(key), 4 * kPieceBytes, "reader", key};
  }
  template <typename Frame>
  bool Say(const Frame& frame, const std::string& peer = "p", const std::string& public_key = "") {
    return holder_->Receive(peer, public_key, EncodePeer(frame), now_us_);
  }
  void Provide(const Key& key, std::uint64_t bytes) {
    holder_->Provide(key, Payload::Copy(std::string(bytes, 'x')), now_us_);
  }
  // Returns what was sent: the offset of each piece, or a negative number for the reason of a
  // refusal.
  std::vector<std::int64_t> Sent(const std::string& peer = "p") {
    std::vector<std::int64_t> sent;
    while (auto out = holder_->TakeOutput()) {
      if (out->peer != peer) continue;
      std::vector<std::byte> message = out->head;
      message.insert(message.end(), out->body.begin(), out->body.end());
      const auto frame = DecodeToReader(message);
      if (!frame) {
        ADD_FAILURE() << "what is sent cannot be read";
      } else if (const auto* piece = std::get_if<PieceFrame>(&*frame)) {
        sent.push_back(static_cast<std::int64_t>(piece->offset));
      } else {
        sent.push_back(-static_cast<std::int64_t>(std::get<RefusalFrame>(*frame).why));
      }
    }
    return sent;
  }
  // The peers that are sent something, in this order.
  std::string Served() {
    std::string served;
    while (const auto out = holder_->TakeOutput()) served += out->peer;
    return served;
  }
  static std::int64_t Refused(FetchRefusal why) { return -static_cast<std::int64_t>(why); }

  const std::string secret_ = MakeTicketSecret();
  std::int64_t now_us_ = 1'000;
  std::optional<PeerHolder> holder_;
};

using Offsets = std::vector<std::int64_t>;

}  // namespace tuplespace
