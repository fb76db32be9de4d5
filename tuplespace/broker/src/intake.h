// Intake: receives a broker's messages from its socket and from channels, checks who sent them and
// whether the sender is allowed, and passes them to the core.
//
// For one thread.
#pragma once

#include <cstdint>

#include "access_control.h"
#include "broker_core.h"
#include "broker_sockets.h"
#include "channel_table.h"
#include "compression.h"
#include "connections.h"
#include "running_clock.h"
#include "segment_table.h"
#include "sender.h"

namespace tuplespace {

class Intake {
 public:
  Intake(const BrokerOptions& options, std::uint64_t control_frame_bytes, RunningClock& clock,
         AccessControl& access, BrokerSockets& sockets, Connections& connections,
         SegmentTable& segments, ChannelTable& channels, BrokerCore& core, Sender& sender)
      : check_payloads_(options.check_payloads),
        limits_(options.connections),
        control_frame_bytes_(control_frame_bytes),
        clock_(clock),
        access_(access),
        sockets_(sockets),
        connections_(connections),
        segments_(segments),
        channels_(channels),
        core_(core),
        sender_(sender) {}

  int ReceiveTurn();  // returns the number of messages
  // Handles everything that has come through the client's channel so far.
  void ReceiveLast(const ClientId& client);

 private:
  const AccessList::Entry* Authorized(const ReceivedMultipart& from, std::int64_t now_us);
  void OnPart();
  void BoundUnfinished();
  void OnUnreadable(const ClientId& client, const RequestError& error, std::int64_t now_us);
  void OnMessage();
  void OnChannelMessage(const ReceivedMultipart& nearby);
  void Understand(const ReceivedMultipart& from, const AccessList::Entry* who, std::int64_t now_us);
  void NoteSharing(const ReceivedMultipart& from, ToBroker& envelope);

  const bool check_payloads_;
  const ConnectionLimits limits_;
  const std::uint64_t control_frame_bytes_;
  RunningClock& clock_;
  AccessControl& access_;
  BrokerSockets& sockets_;
  Connections& connections_;
  SegmentTable& segments_;
  ChannelTable& channels_;
  BrokerCore& core_;
  Sender& sender_;
  ReceivedMultipart message_;
  Decompressor decompressor_;
};

}  // namespace tuplespace
