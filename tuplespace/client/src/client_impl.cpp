// Client::Impl: the socket and the channel, the messages through both, and when to sleep.
#include "client_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "client_options.h"
#include "endpoint.h"
#include "tuplespace/clock.h"

namespace tuplespace {

namespace {

constexpr int kMultipartsPerPoll = 256;
constexpr int kQueuedParts = 256;  // of kPartBytes at most, inside ZeroMQ
constexpr int kLingerMs = 200;     // for the last requests and the Bye
constexpr std::int64_t kFullChannelUs = 1'000;

SessionOptions ForSession(const ClientOptions& options) {
  SessionOptions session;
  session.name = options.name;
  session.first_nonce = RandomNumber();
  session.unanswered_bytes = options.unanswered_bytes;
  session.refusal_patience_us = options.refusal_patience_us;
  return session;
}

std::shared_ptr<SharedPool> PoolOf(const ClientOptions& options) {
  if (!options.shared_memory || options.endpoint.starts_with("inproc://")) return nullptr;
  return options.pool ? options.pool : SharedPool::Make();
}

}  // namespace

Client::Impl::Impl(ClientOptions given)
    : changes_id(given.id.empty() && given.access.has_value()),
      options(CheckedOptions(std::move(given))),
      endpoints(options.endpoint, options.access.has_value()),
      own_context(options.context == nullptr ? std::make_unique<zmq::context_t>(1) : nullptr),
      context(own_context ? *own_context : *options.context),
      session(ForSession(options)),
      shared(PoolOf(options), wake.fd()),
      direct(
          options, wake,
          [this](tuplespace::Read read, ReplyHandler on_reply) {
            handlers.emplace(session.Submit(std::move(read), MonotonicUs()), std::move(on_reply));
          },
          [this](tuplespace::Read read, ReplyHandler on_reply) {
            handlers.emplace(session.ReadAgain(std::move(read), MonotonicUs()),
                             std::move(on_reply));
          }) {}

Client::Impl::~Impl() {
  try {
    if (session.joined()) {
      Flush();
      session.Leave();
      Flush();
      CloseLink(kLingerMs);
    } else {
      CloseLink(0);
    }
  } catch (const std::exception&) {
    // The context may be gone, or memory may have run out: the broker will see the connection end.
  }
}

void Client::Impl::OpenLink() {
  CloseLink(0);
  if (changes_id && session.TakeIgnored()) ChangeId();
  endpoints.BeginAttempt();
  const std::string& address = endpoints.address();
  try {
    socket = std::make_unique<zmq::socket_t>(context, zmq::socket_type::dealer);
    SetCommonOptions(*socket);
    if (options.access) {
      socket->set(zmq::sockopt::curve_serverkey, options.access->broker_public_key);
      socket->set(zmq::sockopt::curve_publickey, options.access->keys.public_key);
      socket->set(zmq::sockopt::curve_secretkey, options.access->keys.secret_key);
    }
    socket->set(zmq::sockopt::routing_id, options.id);
    socket->set(zmq::sockopt::sndhwm, kQueuedParts);
    socket->set(zmq::sockopt::ipv6, IsIpv6(address));
    socket_ready = monitor_ready = true;
    if (!address.starts_with("inproc://")) monitor = std::make_unique<Monitor>(context, *socket);
    socket->connect(address);
    session.LinkUp(MonotonicUs());
  } catch (const zmq::error_t& error) {
    if (error.num() == ETERM) throw;
    // Errors such as too many open files may pass.
    CloseLink(0);
    session.LinkUp(MonotonicUs());
    session.LinkDown(error.what(), MonotonicUs());
  }
}

// The broker ignores a connection with an id that another one has. Ids are no secrets, so that one
// may belong to another client of the same key, which keeps it. A broker that is busy, or behind a
// slow link, looks the same.
void Client::Impl::ChangeId() {
  const ClientId before = std::exchange(options.id, GeneratedId(options));
  direct.ChangeId();
  if (!on_delay) return;
  on_delay(
      fmt::format("broker at {}: it does not answer client \"{}\", because another connection has "
                  "this id, the link is slow, or the broker is busy. From now on this client is "
                  "\"{}\"",
                  endpoints.endpoint(), before, options.id));
}

void Client::Impl::CloseLink(int linger_ms) {
  monitor.reset();
  unsent.clear();
  waiting.reset();
  receiver.Forget("");
  if (socket) socket->set(zmq::sockopt::linger, linger_ms);
  socket.reset();
}

int Client::Impl::Poll(std::int64_t deadline_us, int extra_fd) {
  if (polling) throw std::logic_error("Client::Poll was called by one of its own handlers");
  polling = true;
  struct Reset {
    bool& flag;
    ~Reset() { flag = false; }
  } reset{polling};

  int handled = 0;
  for (bool woken = false;;) {
    handled += ReceiveAll();
    CheckLink();
    session.Tick(MonotonicUs());
    FollowSession();
    do {
      handled += direct.HandleEvents();
      handled += HandleEvents();
      Flush();
    } while (session.HasEvents());
    ThrowIfFailed();
    if (handled > 0 || woken) return handled;
    const std::int64_t now_us = MonotonicUs();
    const std::int64_t next_us = std::min(deadline_us, session.NextDeadlineUs());
    // Descriptors are checked once even if there is no time to wait.
    woken = Wait(std::max(next_us, now_us), extra_fd);
    if (!woken && now_us >= deadline_us) woken = true;
  }
}

int Client::Impl::ReceiveAll() {
  int handled = 0;
  for (int i = 0; i < kMultipartsPerPoll; ++i) {
    const ReceiveResult received = ReceiveNext();
    if (received == ReceiveResult::kNothing) break;
    if (received == ReceiveResult::kPart) continue;
    Understand();
    handled += HandleEvents();
  }
  if (shared.channel() != nullptr && shared.channel()->broken()) {
    shared.GiveUp();
    session.LinkDown("the broker's end of the channel is damaged", MonotonicUs());
  }
  return handled;
}

// Messages in the socket were sent after those that the channel then had.
ReceiveResult Client::Impl::ReceiveNext() {
  ReceiveResult received = ReceiveResult::kNothing;
  if (!waiting && socket && socket_ready) received = ReceiveFromSocket();
  from_socket = false;
  if (shared.channel() != nullptr && shared.channel()->Receive(message)) {
    return ReceiveResult::kMessage;
  }
  if (!waiting) return received;
  from_socket = true;
  message = *std::exchange(waiting, std::nullopt);
  return ReceiveResult::kMessage;
}

ReceiveResult Client::Impl::ReceiveFromSocket() {
  waiting.emplace();
  const ReceiveResult received = receiver.Receive(*socket, false, *waiting);
  socket_ready = received != ReceiveResult::kNothing;
  if (received != ReceiveResult::kMessage) waiting.reset();
  // Part of a large answer over a slow link.
  if (received == ReceiveResult::kPart) session.Heard(MonotonicUs());
  return received;
}

void Client::Impl::Understand() {
  std::variant<ToClient, RequestError> decoded =
      message.problem ? std::variant<ToClient, RequestError>(*std::move(message.problem))
                      : Decode();
  if (shared.failed()) {
    // The message is lost with its session; in the next session payloads are sent as bytes.
    shared.GiveUp();
    session.LinkDown("shared memory of the broker cannot be opened", MonotonicUs());
  } else if (auto* error = std::get_if<RequestError>(&decoded)) {
    error->text = fmt::format("broker at {}: {}", endpoints.endpoint(), error->text);
    session.ReceiveBad(*error);
  } else {
    Accept(std::get<ToClient>(std::move(decoded)));
  }
}

std::variant<ToClient, RequestError> Client::Impl::Decode() {
  auto control = decompressor.Open(message.control(), kMaxControlBytes);
  if (auto* error = std::get_if<RequestError>(&control)) return std::move(*error);
  return DecodeToClient(std::get<0>(control), message.payloads, &shared);
}

void Client::Impl::Accept(ToClient&& envelope) {
  std::optional<Sharing> answer;
  for (BrokerMessage& one : envelope.messages) {
    if (auto* welcome = std::get_if<Welcome>(&one)) {
      answer = std::move(welcome->sharing);
      direct.NoteClock(welcome->broker_us);
    }
    if (const auto* pong = std::get_if<Pong>(&one)) direct.NoteClock(pong->broker_us);
    const auto* segments = std::get_if<BrokerSegments>(&one);
    if (segments != nullptr && envelope.session == shared.session()) shared.Receive(*segments);
  }
  const std::uint64_t of = envelope.session;
  session.Receive(std::move(envelope), MonotonicUs());
  if (session.joined() && session.session() != shared.session()) {
    shared.Joined(session.session(), answer);
  }
  if (from_socket && of == shared.session() && shared.channel() != nullptr) {
    shared.channel()->CountReceived();
  }
}

void Client::Impl::FollowSession() {
  if (session.session() != shared.session()) shared.SessionEnded();
  direct.Follow(session.session(), shared.can_put());
}

// Moves payloads to shared memory where that pays; they stay there if they are resent.
void Client::Impl::Share(RequestBody& body) {
  if (!shared.can_put()) return;
  std::vector<Tuple>* tuples = nullptr;
  if (auto* put = std::get_if<tuplespace::Put>(&body)) tuples = &put->tuples;
  if (auto* complete = std::get_if<Complete>(&body)) tuples = &complete->results;
  if (auto* supply = std::get_if<Supply>(&body)) tuples = &supply->tuples;
  if (tuples == nullptr) return;
  for (Tuple& tuple : *tuples) tuple.payload = shared.Shared(std::move(tuple.payload));
}

void Client::Impl::CheckLink() {
  if (!monitor || !std::exchange(monitor_ready, false)) return;
  const Monitor::Seen seen = monitor->Drain();
  direct.NoteAddress(seen.local_address);
  if (!seen.local_address.empty()) session.LinkReached(MonotonicUs());
  if (seen.handshakes > 0) session.LinkEstablished(MonotonicUs());
  if (seen.refused > 0 && options.access) return OnKeyRefused();
  if (seen.failed_connections > 0 && !handshake_failed) {
    handshake_failed = true;
    if (on_connection) on_connection(false, HandshakeFailure());
  }
  if (seen.disconnected > 0) session.LinkDown("the connection ended", MonotonicUs());
}

void Client::Impl::OnKeyRefused() {
  const std::int64_t until = options.access->until_unix_s;
  const std::string why = fmt::format(
      "what answers at {} refused the key \"{}\" ({}): the key is not on the broker's list, was "
      "revoked, or has expired{}, unless somebody other than the broker answers, as a refusal is "
      "not authenticated",
      endpoints.endpoint(), options.access->name, options.access->keys.public_key,
      until == kNoEnd ? "" : " (it was made to expire at " + TimeText(until) + ")");
  const bool was_told = std::exchange(key_refused, true) || session.joined();
  const bool expired = until != kNoEnd && UnixUs() / 1'000'000 >= until;
  session.LinkRefused(why, expired, MonotonicUs());
  if (!was_told && !session.failure() && on_connection) on_connection(false, why);
}

std::string Client::Impl::HandshakeFailure() const {
  return fmt::format(
      "the handshake failed: what listens there is not a broker, {}, or accepts no more "
      "connections "
      "from this host",
      options.access ? fmt::format("is a broker without keys or with a public key other than {}",
                                   options.access->broker_public_key)
                     : "is a broker that asks for a key, but this client has none");
}

int Client::Impl::HandleEvents() {
  int handled = 0;
  // If a handler throws, later events remain for the next Poll.
  for (;;) {
    if (next_event == events.size()) {
      events = session.TakeEvents();
      next_event = 0;
    }
    if (events.empty()) return handled;
    SessionEvent event = std::move(events[next_event++]);
    handled += HandleEvent(std::move(event));
  }
}

int Client::Impl::HandleEvent(SessionEvent&& event) {
  if (auto* reply = std::get_if<Reply>(&event)) {
    const auto it = handlers.find(reply->id);
    if (it == handlers.end()) return 0;
    const ReplyHandler handler = std::move(it->second);
    handlers.erase(it);
    if (handler) handler(std::move(reply->body));
    return 1;
  }
  if (auto* notice = std::get_if<Notice>(&event)) {
    if (on_notice) on_notice(std::move(*notice));
    return 1;
  }
  if (const auto* damage = std::get_if<PayloadDamaged>(&event)) {
    if (on_damage) on_damage(fmt::format("broker at {}: {}", endpoints.endpoint(), damage->text));
    return 0;
  }
  if (const auto* delay = std::get_if<RequestDelayed>(&event)) {
    if (on_delay) {
      // Without a session the broker may be at any of the places.
      const std::string& where = session.joined() ? endpoints.endpoint() : options.endpoint;
      on_delay(fmt::format("broker at {}: {}", where, delay->text));
    }
    return 0;
  }
  if (const auto* change = std::get_if<ConnectionChanged>(&event)) {
    if (change->connected) {
      handshake_failed = key_refused = false;
      endpoints.Answered();
    }
    if (on_connection) on_connection(change->connected, change->why);
    return 1;
  }
  OpenLink();
  return 0;
}

void Client::Impl::Flush() {
  if (!socket || !SendUnsent()) return;
  const auto urgent = [&] {
    return session.session() == shared.session() && shared.HasUrgentOutput();
  };
  while (session.HasOutput() || urgent() || (session.joined() && direct.HasListening())) {
    const ClientSession::Output output = session.TakeOutput(MonotonicUs());
    const EncodeFor broker{.namer = &shared, .compressed_limit = CompressedLimit(output.session)};
    const auto begin = [&] { encoder.Begin(output.session, broker); };
    begin();
    const bool through_socket = !shared.introduced();
    if (output.session != 0 && output.session == shared.session()) {
      if (const auto segments = shared.TakeOutput()) encoder.Add(*segments);
    }
    if (output.session != 0) {
      if (const auto listening = direct.TakeListening()) encoder.Add(*listening);
    }
    for (const ClientSession::OutgoingMessage& one : output.messages) {
      if (encoder.full()) {
        SendEncoded(output.session, through_socket);
        begin();
      }
      if (const auto* request = std::get_if<const Request*>(&one)) {
        encoder.Add(**request);
      } else if (const auto* hello = std::get_if<Hello>(&one)) {
        Hello offering = *hello;
        offering.sharing = shared.Offer(hello->nonce);
        offering.decompresses = over_tcp();
        encoder.Add(offering);
      } else if (std::holds_alternative<Ping>(one)) {
        encoder.Add(Ping{});
      } else {
        encoder.Add(Bye{});
      }
    }
    if (!encoder.empty()) SendEncoded(output.session, through_socket);
    if (!unsent.empty()) return;
  }
}

// The maximum size of control frames for session `of` that are compressed; 0: none are.
std::size_t Client::Impl::CompressedLimit(std::uint64_t of) const {
  if (of == 0 || of != session.session() || !session.welcome().decompresses) return 0;
  if (!over_tcp() || shared.can_put()) return 0;
  return std::min<std::uint64_t>(kBatchControlBytes, session.welcome().control_frame_bytes);
}

void Client::Impl::SendEncoded(std::uint64_t of, bool through_socket) {
  std::span<const std::byte> control = encoder.Finish();
  if (CompressedLimit(of) > 0) control = compressor.Compress(control);
  std::vector<Payload> payloads = encoder.TakeFrames();
  SendProgress progress;
  if (unsent.empty() && SendNow(of, through_socket, control, payloads, progress)) return;
  unsent.push_back(
      {of,
       through_socket,
       {std::vector<std::byte>(control.begin(), control.end()), std::move(payloads), progress}});
}

bool Client::Impl::SendUnsent() {
  while (!unsent.empty()) {
    Unsent& front = unsent.front();
    const std::size_t before = front.message.progress.bytes;
    const bool sent = SendNow(front.session, front.through_socket, front.message.control,
                              front.message.payloads, front.message.progress);
    if (sent || front.message.progress.bytes > before) session.Moved(MonotonicUs());
    if (!sent) return false;
    unsent.pop_front();
  }
  return true;
}

// False: there is no room now.
bool Client::Impl::SendNow(std::uint64_t of, bool through_socket,
                           std::span<const std::byte> control, std::span<const Payload> payloads,
                           SendProgress& progress) {
  Channel* const channel = of == shared.session() ? shared.channel() : nullptr;
  const bool begun = progress.bytes > 0;  // in the socket
  if (channel != nullptr && !through_socket && !begun && Channel::Fits(control, payloads)) {
    return channel->Send(control, payloads);
  }
  socket_ready = true;
  if (Send(*socket, nullptr, control, payloads, progress) != SendResult::kSent) return false;
  if (channel != nullptr) channel->CountSent();
  return true;
}

// Spins for a while; true if the channel has messages, so that sleeping is not needed.
bool Client::Impl::LookBeforeSleep() {
  const Channel* const channel = shared.channel();
  if (channel == nullptr || waiting || socket_ready || monitor_ready) return false;
  spin.Spin([&] { return channel->HasInput() || wake.notified(); });
  return channel->HasInput();
}

bool Client::Impl::Wait(std::int64_t deadline_us, int extra_fd) {
  const std::int64_t begin_us = MonotonicUs();
  if (extra_fd < 0 && deadline_us > begin_us && LookBeforeSleep()) return false;
  zmq_pollitem_t items[4];
  std::size_t count = 0;
  items[count++] = {nullptr, wake.fd(), ZMQ_POLLIN, 0};
  if (extra_fd >= 0) items[count++] = {nullptr, extra_fd, ZMQ_POLLIN, 0};
  const std::size_t socket_at = count;
  if (socket) items[count++] = {socket->handle(), 0, ZMQ_POLLIN, 0};
  const std::size_t monitor_at = count;
  if (monitor) items[count++] = {monitor->handle(), 0, ZMQ_POLLIN, 0};
  Channel* const channel = shared.channel();
  bool sleeps = wake.BeginSleep() && !waiting;
  if ((socket && socket_ready) || (monitor && monitor_ready)) sleeps = false;
  if (channel != nullptr) {
    channel->BeginSleep();
    sleeps = sleeps && !channel->HasInput();
    // The broker does not signal when the channel has room again.
    if (!unsent.empty()) deadline_us = std::min(deadline_us, MonotonicUs() + kFullChannelUs);
  }
  PollUntil({items, count}, sleeps ? deadline_us : 0);
  if (channel != nullptr) channel->EndSleep();
  if (sleeps) spin.Slept(MonotonicUs() - begin_us);
  if (socket && items[socket_at].revents != 0) socket_ready = true;
  if (monitor && items[monitor_at].revents != 0) monitor_ready = true;
  const bool woken = wake.EndSleep(items[0].revents != 0);
  return woken || (extra_fd >= 0 && items[1].revents != 0);
}

void Client::Impl::ThrowIfFailed() const {
  if (session.failure()) throw SpaceError(session.failure()->code, session.failure()->text);
}

}  // namespace tuplespace
