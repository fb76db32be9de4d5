// PeerListener: the socket at which a client serves payloads that stay with it, the limits of its
// connections, and the PeerHolder that makes the decisions.
//
// For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "authenticator.h"
#include "connections.h"
#include "courier.h"
#include "peer_holder.h"
#include "sockets.h"

namespace tuplespace {

class PeerListener {
 public:
  // Binds. Throws as Courier does. REQUIRES: the context outlives this and has no other
  // authenticator.
  PeerListener(zmq::context_t& context, const CourierOptions& options);
  ~PeerListener();

  const Listening& listening() const { return listening_; }
  PeerHolder& holder() { return holder_; }
  // Receives at most a turn's worth of messages and sends what may be sent. True: it did something,
  // so there may be more.
  bool Work(std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  void AddTo(std::vector<zmq_pollitem_t>& items);
  // Stops to listen and ends all connections. From then on only listening() and holder() may be
  // called.
  void Close() noexcept;

 private:
  bool ReceiveOne(std::int64_t now_us);
  bool SendAll(std::int64_t now_us);
  void Drop(const std::string& peer, std::int64_t now_us);
  void WatchConnections(std::int64_t now_us);
  // Notes the connection from which this peer is heard. False: it has ended.
  bool NoteConnection(const std::string& peer, int descriptor, std::int64_t now_us);
  void EndPeersOf(int descriptor);

  const bool has_keys_;
  std::unique_ptr<Authenticator> authenticator_;  // before the socket that uses it; null: no keys
  zmq::socket_t router_;
  std::unique_ptr<Monitor> monitor_;
  Connections connections_;
  Listening listening_;
  PeerHolder holder_;
  std::unordered_map<std::string, int> descriptor_of_;  // of the peers that are connected
};

}  // namespace tuplespace
