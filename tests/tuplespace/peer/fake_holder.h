// A client that holds payloads and listens, made of plain sockets: it can lie, fall silent and die.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "direct_fixture.h"
#include "packed_messages.h"
#include "peer_frames.h"
#include "sockets.h"
#include "wire.h"

namespace tuplespace {

// The keys of one end of a connection. Where optional, nullopt: without keys.
struct DealerKeys {
  KeyPair own;
  std::string server;
};

inline zmq::socket_t MakeDealer(zmq::context_t& context, const std::string& endpoint,
                                const std::optional<DealerKeys>& keys, const std::string& id = "") {
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::rcvtimeo, 60'000);
  if (!id.empty()) dealer.set(zmq::sockopt::routing_id, id);
  if (keys) {
    dealer.set(zmq::sockopt::curve_serverkey, keys->server);
    dealer.set(zmq::sockopt::curve_publickey, keys->own.public_key);
    dealer.set(zmq::sockopt::curve_secretkey, keys->own.secret_key);
  }
  dealer.connect(endpoint);
  return dealer;
}

class FakeHolder {
 public:
  // Joins, and tells the broker where it listens.
  FakeHolder(const std::string& broker, const std::string& id,
             const std::optional<DealerKeys>& keys, const Listening& listening)
      : dealer_(MakeDealer(context_, broker, keys, id)) {
    Send(Hello{1, "fake holder"});
    while (session_ == 0) Turn(/*wait=*/true);
    Send(listening);
  }
  // Sends a request and returns its reply.
  ReplyBody Ask(RequestBody body) {
    const RequestId id = ++last_id_;
    asked_ = body;
    reply_.reset();
    Send(Request{id, std::move(body)});
    while (!reply_) Turn(/*wait=*/true);
    return *std::exchange(reply_, {});
  }
  // Handles the messages that have arrived. Supplies wanted payloads if `supply` is set.
  void Turn(bool wait = false) {
    zmq::message_t message;
    const auto flags = wait ? zmq::recv_flags::none : zmq::recv_flags::dontwait;
    while (dealer_.recv(message, flags)) {
      const auto decoded = DecodeToClient(ControlIn(message), {});
      for (const BrokerMessage& one : std::get<ToClient>(decoded).messages) Handle(one);
      if (wait) return;
    }
  }
  std::optional<Payload> supply;  // the payload to supply

 private:
  void Handle(const BrokerMessage& message) {
    if (const auto* welcome = std::get_if<Welcome>(&message)) session_ = welcome->session;
    if (const auto* reply = std::get_if<Reply>(&message)) reply_ = reply->body;
    if (std::holds_alternative<Done>(message)) reply_ = DoneReply(asked_);
    const auto* notice = std::get_if<Notice>(&message);
    if (notice == nullptr || notice->kind != Notice::Kind::kWanted || !supply) return;
    Supply body;
    body.tuples.push_back({.key = notice->key, .payload = *supply, .task = {}});
    asked_ = body;
    Send(Request{++last_id_, std::move(body)});
  }
  template <typename Message>
  void Send(const Message& message) {
    Encoder encoder;
    encoder.Begin(session_);
    encoder.Add(message);
    const auto control = encoder.Finish();
    for (const std::string& part : PartsOf(control, encoder.TakeFrames())) {
      dealer_.send(zmq::buffer(part), zmq::send_flags::none);
    }
  }

  zmq::context_t context_;
  zmq::socket_t dealer_;
  std::uint64_t session_ = 0;
  RequestId last_id_ = 0;
  RequestBody asked_;
  std::optional<ReplyBody> reply_;
};

// The socket at which a fake holder listens.
class FakeListener {
 public:
  explicit FakeListener(bool keys) : router_(context_, zmq::socket_type::router) {
    router_.set(zmq::sockopt::linger, 0);
    if (keys) {
      router_.set(zmq::sockopt::curve_server, true);
      router_.set(zmq::sockopt::curve_secretkey, pair_.secret_key);
    }
    router_.bind("tcp://127.0.0.1:*");
  }
  Listening listening(bool keys) {
    return {router_.get(zmq::sockopt::last_endpoint), keys ? pair_.public_key : "",
            MakeTicketSecret()};
  }
  // The next fetch; nullopt if none has arrived.
  std::optional<FetchFrame> Fetched() { return NextFetch(zmq::recv_flags::dontwait); }
  // Waits for the next fetch; nullopt after a long time.
  std::optional<FetchFrame> AwaitFetch() {
    router_.set(zmq::sockopt::rcvtimeo, 60'000);
    const auto until = std::chrono::steady_clock::now() + kGenerous;
    while (std::chrono::steady_clock::now() < until) {  // other messages may come first
      if (auto fetch = NextFetch(zmq::recv_flags::none)) return fetch;
    }
    return std::nullopt;
  }
  // Observes its connections from now on. REQUIRES: this object outlives it.
  std::unique_ptr<Monitor> Observe() { return std::make_unique<Monitor>(context_, router_); }
  void Send(const PieceFrame& piece) {
    std::vector<std::byte> message = EncodePeerHead(piece);
    message.insert(message.end(), piece.bytes.begin(), piece.bytes.end());
    router_.send(zmq::buffer(peer_), zmq::send_flags::sndmore);
    router_.send(zmq::buffer(message), zmq::send_flags::none);
  }
  const std::string& peer() const { return peer_; }  // that fetched last
  // To whoever has fetched last.
  void Send(const RefusalFrame& refusal) {
    const std::vector<std::byte> message = EncodePeer(refusal);
    router_.send(zmq::buffer(peer_), zmq::send_flags::sndmore);
    router_.send(zmq::buffer(message), zmq::send_flags::none);
  }
  void Close() { router_.close(); }

 private:
  std::optional<FetchFrame> NextFetch(zmq::recv_flags flags) {
    zmq::message_t id, message;
    if (!router_.recv(id, flags)) return std::nullopt;
    static_cast<void>(router_.recv(message));
    peer_ = id.to_string();
    const auto frame = DecodeToHolder({message.data<const std::byte>(), message.size()});
    if (!frame || !std::holds_alternative<FetchFrame>(*frame)) return std::nullopt;
    return std::get<FetchFrame>(*frame);
  }

  const KeyPair pair_ = MakeKeyPair();
  zmq::context_t context_;
  zmq::socket_t router_;
  std::string peer_;
};

}  // namespace tuplespace
