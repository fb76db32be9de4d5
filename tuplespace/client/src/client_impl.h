// The implementation of Client, shared by its asynchronous and its blocking half.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "adaptive_spin.h"
#include "client_session.h"
#include "compression.h"
#include "direct_link.h"
#include "endpoint_list.h"
#include "shared_link.h"
#include "sockets.h"
#include "tuplespace/client.h"
#include "wake_up.h"
#include "wire.h"

namespace tuplespace {

struct Client::Impl {
  explicit Impl(ClientOptions given);
  ~Impl();

  int Poll(std::int64_t deadline_us, int extra_fd);
  // Waits for the answer to `body`; nullopt if it does not come within `wait`. Throws SpaceError
  // for a RequestError.
  std::optional<ReplyBody> Call(RequestBody body, Duration wait);

  void OpenLink();
  void ChangeId();
  void CloseLink(int linger_ms);
  int ReceiveAll();
  ReceiveResult ReceiveNext();
  ReceiveResult ReceiveFromSocket();
  void Understand();
  std::variant<ToClient, RequestError> Decode();  // decodes `message`
  void Accept(ToClient&& envelope);
  void FollowSession();
  void Share(RequestBody& body);
  void CheckLink();
  void OnKeyRefused();
  std::string HandshakeFailure() const;
  int HandleEvents();
  int HandleEvent(SessionEvent&& event);
  void Flush();
  bool over_tcp() const { return endpoints.address().starts_with("tcp://"); }
  std::size_t CompressedLimit(std::uint64_t session) const;
  void SendEncoded(std::uint64_t session, bool through_socket);
  bool SendUnsent();
  bool LookBeforeSleep();
  bool Wait(std::int64_t deadline_us, int extra_fd);  // true: woken by Wake or extra_fd
  // An encoded message that could not be sent yet.
  struct Unsent {
    std::uint64_t session = 0;
    bool through_socket = false;
    Multipart message;
  };
  bool SendNow(std::uint64_t session, bool through_socket, std::span<const std::byte> control,
               std::span<const Payload> payloads, SendProgress& progress);
  void ThrowIfFailed() const;

  // The id was generated, and the broker, which has keys, lets no connection take over an id.
  bool changes_id;
  ClientOptions options;
  EndpointList endpoints;
  std::unique_ptr<zmq::context_t> own_context;
  zmq::context_t& context;
  ClientSession session;
  WakeUp wake;
  AdaptiveSpin spin;
  SharedLink shared;
  DirectLink direct;
  std::unique_ptr<zmq::socket_t> socket;
  std::unique_ptr<Monitor> monitor;  // of `socket`; null for inproc
  bool socket_ready = true;          // there may be something to receive
  bool monitor_ready = true;
  Encoder encoder;
  Compressor compressor;
  Decompressor decompressor;
  Receiver receiver;  // of `socket`
  ReceivedMultipart message;
  bool from_socket = false;  // `message` came from the socket, otherwise from the channel
  std::optional<ReceivedMultipart> waiting;  // from the socket; the channel's messages come first
  std::deque<Unsent> unsent;                 // ZeroMQ's queue or the channel is full
  std::vector<SessionEvent> events;
  std::size_t next_event = 0;  // earlier ones were handled
  std::unordered_map<RequestId, ReplyHandler> handlers;
  std::function<void(Notice&&)> on_notice;
  std::function<void(bool, const std::string&)> on_connection;
  std::function<void(const std::string&)> on_damage;
  std::function<void(const std::string&)> on_delay;
  std::function<void()> interrupt;  // of Call; may be null
  bool polling = false;
  bool handshake_failed = false;  // and on_connection was called; until a broker answers
  bool key_refused = false;       // the same
};

}  // namespace tuplespace
