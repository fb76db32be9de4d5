// PeerLink: the connection to one holder, with the PeerReader that makes the decisions.
//
// For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "courier.h"
#include "peer_reader.h"
#include "sockets.h"

namespace tuplespace {

class PeerLink {
 public:
  // Begins to connect. Throws std::invalid_argument for a place that must not be used, and
  // zmq::error_t.
  PeerLink(zmq::context_t& context, const CourierOptions& options, const Place& place);

  PeerReader& reader() { return reader_; }
  // As PeerListener::Work. If the reader has failed, drop the link.
  bool Work(std::int64_t now_us);
  // The connection has ended while no fetch was in progress.
  bool ended() const { return ended_; }
  void AddTo(std::vector<zmq_pollitem_t>& items);

 private:
  bool SendAll();

  zmq::socket_t dealer_;
  std::unique_ptr<Monitor> monitor_;
  PeerReader reader_;
  bool ended_ = false;
};

}  // namespace tuplespace
