// PeerLink: the connection to one holder, and the PeerReader that decides.
//
// One thread owns it.
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
  // Begins to connect. Throws std::invalid_argument for a place that must not be used,
  // zmq::error_t.
  PeerLink(zmq::context_t& context, const CourierOptions& options, const Place& place);

  PeerReader& reader() { return reader_; }
  // As PeerListener::Work. When the reader has failed the link is to be dropped.
  bool Work(std::int64_t now_us);
  // It has ended, and nothing was under way.
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
