// Sender: encodes and sends the messages of a broker's core and its shared memory.
//
// For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "broker_core.h"
#include "channel_table.h"
#include "compression.h"
#include "connections.h"
#include "outbox.h"
#include "running_clock.h"
#include "segment_table.h"
#include "sockets.h"
#include "wire.h"

namespace tuplespace {

class Sender {
 public:
  // `lose` is called, during a sending, for a client that does not accept messages any more.
  using Lose = std::function<void(const ClientId& client, const std::string& why)>;
  Sender(RunningClock& clock, BrokerCore& core, const Connections& connections,
         SegmentTable& segments, ChannelTable& channels, Outbox& outbox, Lose lose)
      : clock_(clock),
        core_(core),
        connections_(connections),
        segments_(segments),
        channels_(channels),
        outbox_(outbox),
        lose_(std::move(lose)) {}

  // The Hello of `client` has this offer of shared memory, which its Welcome answers.
  void NoteOffer(const ClientId& client, std::optional<Sharing>&& offer) {
    offers_[client] = std::move(offer);
  }
  void ForgetOffers() { offers_.clear(); }
  void SendAll();  // once; losing a client may produce answers for others
  // Whether the client's connection has ended, so that sending fails.
  bool IsGone(zmq::socket_t& router, const ClientId& client);

 private:
  void SendSegments();
  void Deliver(BrokerCore::Delivery& delivery);
  void Share(const ClientId& client, const std::optional<Sharing>& offer, Welcome& welcome);
  void SendEncoded(const ClientId& client, std::uint64_t session, bool compressed);

  RunningClock& clock_;
  BrokerCore& core_;
  const Connections& connections_;
  SegmentTable& segments_;
  ChannelTable& channels_;
  Outbox& outbox_;
  Lose lose_;
  Encoder encoder_;
  Compressor compressor_;
  std::unordered_map<ClientId, std::optional<Sharing>> offers_;  // of Hellos without an answer yet
};

}  // namespace tuplespace
