#include "broker_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tuplespace/planted.h"
#include "wire.h"

namespace tuplespace {

namespace {

constexpr std::int64_t kSilenceChecks = 8;  // per client_silence_us
constexpr std::size_t kUsualMessages = 64;  // room kept for a client's next answers, at most
constexpr std::size_t kMostDone = 4096;     // requests that one message calls done

// For the log: ids are any bytes that a peer likes.
std::string Printable(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    if (c >= 0x20 && c < 0x7f) {
      text.push_back(c);
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

// A client counts its nonces from a random one. What it sent over a connection that ended may come
// after the Hello that it sent over the next one.
bool IsEarlier(std::uint64_t nonce, std::uint64_t than) {
  constexpr std::uint64_t kMostJoins = 1ull << 32;
  return nonce != than && than - nonce < kMostJoins;
}

struct Cost {
  std::uint64_t operator()(const Put& put) const { return put.tuples.size(); }
  std::uint64_t operator()(const Supply& supply) const { return supply.tuples.size(); }
  std::uint64_t operator()(const Complete& complete) const { return complete.results.size(); }
  std::uint64_t operator()(const Read& read) const { return read.patterns.size(); }
  std::uint64_t operator()(const Hold& hold) const {
    return hold.held.size() + hold.dropped.size();
  }
  template <typename Other>
  std::uint64_t operator()(const Other&) const {
    return 0;
  }
};

// About what serving it takes, beside what the space bounds by itself.
std::uint64_t CostOf(const RequestBody& body) {
  return 1 + std::visit(Cost{}, body);
}

// nullopt: it may do that.
std::optional<std::string> RefusalText(const AccessList::Entry& who, const ClientId& client,
                                       RequestBody& body) {
  const auto refusal = RefusalOf(*who.role, client, body);
  if (!refusal) return std::nullopt;
  const std::string limit =
      who.peer.limit.empty() ? "" : fmt::format(" for what begins with \"{}\"", who.peer.limit);
  return fmt::format("key \"{}\" has the role \"{}\"{} and may not {}", who.peer.name,
                     who.peer.role, limit, *refusal);
}

// It says more than that what the client asked for was done.
bool HasNews(const std::vector<BrokerMessage>& messages) {
  const auto is_acknowledgement = [](const BrokerMessage& message) {
    const auto* reply = std::get_if<Reply>(&message);
    return std::holds_alternative<Done>(message) ||
           (reply != nullptr && (std::holds_alternative<PutReply>(reply->body) ||
                                 std::holds_alternative<CompleteReply>(reply->body) ||
                                 std::holds_alternative<LeaseReply>(reply->body) ||
                                 std::holds_alternative<RetireReply>(reply->body)));
  };
  return !std::all_of(messages.begin(), messages.end(), is_acknowledgement);
}

}  // namespace

BrokerCore::BrokerCore(BrokerCoreOptions options)
    : options_(options),
      space_(options.limits, options.first_session / 2 + 1),  // far from the last number
      next_session_(options.first_session) {}

void BrokerCore::Receive(const ClientId& client, ToBroker&& envelope, std::int64_t now_us,
                         const AccessList::Entry* who) {
  bool hello_asked = false;
  auto it = peers_.find(client);
  if (it != peers_.end()) ++messages_;
  for (ClientMessage& message : envelope.messages) {
    if (auto* hello = std::get_if<Hello>(&message)) {
      OnHello(client, std::move(*hello), who, now_us);
      it = peers_.find(client);
      continue;
    }
    if (it == peers_.end() ||
        (it->second.session != envelope.session && !IsPlanted(Planted::kOldSessionIsServed))) {
      if (std::holds_alternative<Bye>(message)) continue;
      if (!hello_asked) {
        SendStray(client, envelope.session,
                  Error{ErrorCode::kHelloRequired,
                        fmt::format("session {} is not known here: join again", envelope.session)});
      }
      hello_asked = true;
      continue;
    }
    it->second.heard_at_us = now_us;
    if (auto* request = std::get_if<Request>(&message)) {
      ++requests_;
      std::uint64_t cost = CostOf(request->body);
      auto refusal = who != nullptr ? RefusalText(*who, client, request->body) : std::nullopt;
      if (refusal) {
        request->body = GetStats{};  // it may be large
        cost *= options_.refused_cost;
      }
      if (MayServe(it->second, cost)) {
        if (refusal) {
          Refuse(client, it->second, request->id, std::move(*refusal), now_us);
        } else {
          Serve(client, it, std::move(*request), now_us);
        }
        continue;
      }
      Defer(client, it->second, {std::move(*request), cost, std::move(refusal)});
      if (it->second.waiting_cost <= options_.waiting_cost) continue;
      Lost(client, "it sends faster than it can be served", now_us);
      return;
    }
    if (std::holds_alternative<Ping>(message)) {
      Send(client, it->second, Pong{});
    } else if (std::holds_alternative<Bye>(message)) {
      it->second.leaves = true;
      if (!it->second.waiting.empty()) continue;  // it said these first
      Leave(it, now_us);
      it = peers_.end();
    } else if (auto* bad = std::get_if<Malformed>(&message)) {
      OnMalformed(client, std::move(*bad), now_us);
    }
  }
}

void BrokerCore::Serve(const ClientId& client, Peers::iterator peer, Request&& request,
                       std::int64_t now_us) {
  Event event(std::in_place_type<Incoming>);
  auto& incoming = std::get<Incoming>(event);
  incoming.client = client;
  incoming.request = std::move(request);
  Step(std::move(event), now_us, peer);
}

// In the order in which it sent them.
bool BrokerCore::MayServe(Peer& peer, std::uint64_t cost) {
  if (!peer.waiting.empty()) return false;
  if (std::exchange(peer.turn, turn_) != turn_) peer.cost = 0;
  // One that costs more than a turn has to be served some day.
  if (peer.cost > 0 && peer.cost + cost > options_.turn_cost) return false;
  peer.cost += cost;
  return true;
}

void BrokerCore::Defer(const ClientId& client, Peer& peer, WaitingRequest&& waiting) {
  if (peer.waiting.empty()) served_later_.push_back(client);
  peer.waiting_cost += waiting.cost;
  peer.waiting.push_back(std::move(waiting));
}

// A turn's worth of one client; the others that wait have theirs in the next turns.
void BrokerCore::ServeWaiting(std::int64_t now_us) {
  ++turn_;
  if (served_later_.empty()) return;
  const ClientId client = std::move(served_later_.front());
  served_later_.pop_front();
  const auto it = peers_.find(client);
  if (it == peers_.end()) return;
  Peer& peer = it->second;
  std::uint64_t cost = 0;
  while (!peer.waiting.empty()) {
    const std::uint64_t next_cost = peer.waiting.front().cost;
    if (cost > 0 && cost + next_cost > options_.turn_cost) return served_later_.push_back(client);
    cost += next_cost;
    WaitingRequest next = std::move(peer.waiting.front());
    peer.waiting.pop_front();
    peer.waiting_cost -= next_cost;
    if (next.refusal) {
      Refuse(client, peer, next.request.id, std::move(*next.refusal), now_us);
    } else {
      Serve(client, it, std::move(next.request), now_us);
    }
  }
  if (peer.leaves) Leave(it, now_us);
}

void BrokerCore::Leave(Peers::iterator peer, std::int64_t now_us) {
  const ClientId client = peer->first;
  ended_.push_back({client, peer->second.session});
  peers_.erase(peer);
  Step(ClientLost{client}, now_us);
}

bool BrokerCore::TooManyOf(const AllowedPeer& key) const {
  std::uint64_t count = 0;
  for (const auto& [id, peer] : peers_) {
    if (peer.key && peer.key->public_key == key.public_key) ++count;
  }
  return count >= options_.clients_per_key;
}

void BrokerCore::OnHello(const ClientId& client, Hello&& hello, const AccessList::Entry* who,
                         std::int64_t now_us) {
  auto it = peers_.find(client);
  const bool joined = it != peers_.end();
  if (joined && IsEarlier(hello.nonce, it->second.nonce)) return;
  if (joined && it->second.nonce != hello.nonce) {
    // It lost its connection before we noticed, or another process uses the same id.
    if (IsPlanted(Planted::kRejoiningKeepsLeases)) {
      peers_.erase(it);
    } else {
      Lost(client, "it joined again", now_us);
    }
    it = peers_.end();
  }
  if (it == peers_.end()) {
    if (peers_.size() >= options_.limits.clients) {
      SendStray(client, 0,
                Error{ErrorCode::kBusy,
                      fmt::format("the limit clients = {} is reached", options_.limits.clients)});
      return;
    }
    if (who != nullptr && TooManyOf(who->peer)) {
      SendStray(client, 0,
                Error{ErrorCode::kBusy,
                      fmt::format("{} clients with the key \"{}\" are there, the most allowed "
                                  "(clients_per_key)",
                                  options_.clients_per_key, who->peer.name)});
      return;
    }
    it = peers_.try_emplace(client).first;
    // 0 stands for no session.
    if (next_session_ == 0) ++next_session_;
    it->second.session = next_session_++;
    it->second.nonce = hello.nonce;
    it->second.name = std::move(hello.name);
    if (who != nullptr) it->second.key = who->peer;
    if (!joined) log_.push_back(fmt::format("{} joined", Describe(client)));
    ClientJoined joining{client, {}, {}};
    if (who != nullptr) {
      joining.principal = who->peer.name;
      joining.limits = who->role->limits;
    }
    Step(std::move(joining), now_us);
  }
  it->second.heard_at_us = now_us;
  Send(client, it->second,
       Welcome{hello.nonce, it->second.session, options_.client_silence_us,
               options_.control_frame_bytes, options_.limits.message_bytes});
}

void BrokerCore::OnMalformed(const ClientId& client, Malformed&& bad, std::int64_t now_us) {
  // What is to be sent again in another way is not bad.
  if (bad.code != ErrorCode::kBusy) CountBad(client, bad.text, now_us);
  Error error{bad.code, std::move(bad.text)};
  Peer& peer = peers_.at(client);
  if (bad.id == 0) {
    Send(client, peer, std::move(error));
  } else {
    Send(client, peer, Reply{bad.id, std::move(error)});
  }
}

bool BrokerCore::Heard(const ClientId& client, std::int64_t now_us) {
  const auto it = peers_.find(client);
  if (it == peers_.end()) return false;
  it->second.heard_at_us = now_us;
  return true;
}

void BrokerCore::ReceiveBad(const ClientId& client, const Error& error, std::int64_t now_us) {
  CountBad(client, error.text, now_us);
  SendStray(client, 0, Error{error});
}

void BrokerCore::CountBad(const ClientId& client, const std::string& text, std::int64_t now_us) {
  ++bad_messages_;
  // Who has not joined may take as many names as it likes.
  if (!bad_pause_.IsOver(Knows(client) ? client : "", now_us)) return;
  log_.push_back(fmt::format("a bad message of {}: {} ({} bad messages so far, of all peers)",
                             Describe(client), text, bad_messages_));
}

void BrokerCore::Refuse(const ClientId& client, Peer& peer, RequestId id, std::string refusal,
                        std::int64_t now_us) {
  ++refused_requests_;
  if (refused_pause_.IsOver(client, now_us)) {
    log_.push_back(fmt::format("a request of {} is refused: {} ({} refused so far, of all peers)",
                               Describe(client), refusal, refused_requests_));
  }
  Send(client, peer, Reply{id, Error{ErrorCode::kForbidden, std::move(refusal)}});
}

void BrokerCore::SendAwayOthers(const AccessList& list, std::int64_t now_us) {
  for (const ClientId& client : Clients()) {
    const Peer& peer = peers_.at(client);
    const AccessList::Entry* who = peer.key ? list.Find(peer.key->public_key) : nullptr;
    const bool same = who != nullptr && who->peer.name == peer.key->name &&
                      who->peer.role == peer.key->role && who->peer.limit == peer.key->limit;
    if (same) continue;
    const std::string why = peer.key && list.IsEnded(peer.key->public_key)
                                ? list.WhyNot(peer.key->public_key)
                                : "this key was revoked, or stands for something else now";
    SendStray(client, peer.session, Error{ErrorCode::kForbidden, why});
    Lost(client, why, now_us);
  }
}

void BrokerCore::SetConnectionCounts(std::uint64_t refused_connections,
                                     std::uint64_t failed_connections) {
  refused_connections_ = refused_connections;
  failed_connections_ = failed_connections;
}

void BrokerCore::AddCounts(Counters& counters) const {
  counters.bad_requests += bad_messages_;
  counters.refused_requests = refused_requests_;
  counters.refused_connections = refused_connections_;
  counters.failed_connections = failed_connections_;
  counters.messages = messages_;
  counters.requests = requests_;
}

void BrokerCore::Lost(const ClientId& client, const std::string& why, std::int64_t now_us) {
  const auto it = peers_.find(client);
  if (it == peers_.end()) return;
  log_.push_back(fmt::format("{} is lost: {}", Describe(client), why));
  std::erase(served_later_, client);
  Leave(it, now_us);
}

void BrokerCore::Tick(std::int64_t now_us) {
  ServeWaiting(now_us);
  if (now_us >= next_silence_check_us_) {
    next_silence_check_us_ = now_us + options_.client_silence_us / kSilenceChecks;
    std::vector<ClientId> silent;
    for (const auto& [client, peer] : peers_) {
      if (now_us - peer.heard_at_us >= options_.client_silence_us) silent.push_back(client);
    }
    for (const ClientId& client : silent) {
      Lost(client, fmt::format("not heard for {} us", options_.client_silence_us), now_us);
    }
  }
  if (now_us >= space_.NextDeadlineUs()) Step(tuplespace::Tick{}, now_us);
}

std::int64_t BrokerCore::NextDeadlineUs() const {
  const std::int64_t silence_us = peers_.empty() ? kForeverUs : next_silence_check_us_;
  if (!served_later_.empty()) return 0;
  return std::min(silence_us, space_.NextDeadlineUs());
}

void BrokerCore::SayGoodbye() {
  for (auto& [client, peer] : peers_) Send(client, peer, Goodbye{});
}

void BrokerCore::SendStray(const ClientId& client, std::uint64_t session, BrokerMessage&& message) {
  Delivery& stray = strays_.emplace_back();
  stray.client = client;
  stray.envelope.session = session;
  stray.envelope.messages.push_back(std::move(message));
}

void BrokerCore::Step(Event&& event, std::int64_t now_us, Peers::iterator sender) {
  for (Outgoing& out : space_.Step(std::move(event), now_us)) {
    const bool is_sender = sender != peers_.end() && sender->first == out.client;
    const auto it = is_sender ? sender : peers_.find(out.client);
    if (it == peers_.end()) continue;  // lost in the same step
    if (auto* reply = std::get_if<Reply>(&out.message)) {
      if (IsDone(reply->body)) {
        SendDone(out.client, it->second, reply->id);
        continue;
      }
      if (auto* stats = std::get_if<Stats>(&reply->body)) AddCounts(stats->counters);
      if (const std::size_t bytes = ControlBytesBound(reply->body); bytes > kMaxControlBytes) {
        reply->body = Error{ErrorCode::kTooLarge,
                            fmt::format("the answer needs up to {} bytes of control frame, at most "
                                        "{}: ask for less at once",
                                        bytes, kMaxControlBytes)};
      }
      Send(out.client, it->second, std::move(*reply));
    } else {
      Send(out.client, it->second, std::get<Notice>(std::move(out.message)));
    }
  }
}

// Behind what was answered before, with which it shares a message if that were such answers, too.
void BrokerCore::SendDone(const ClientId& client, Peer& peer, RequestId id) {
  const Done* last = peer.output.empty() ? nullptr : std::get_if<Done>(&peer.output.back());
  if (last == nullptr || last->requests.size() >= kMostDone) Send(client, peer, Done{});
  std::get<Done>(peer.output.back()).requests.push_back(id);
}

std::vector<BrokerCore::Delivery> BrokerCore::TakeOutput() {
  std::vector<Delivery> output = std::exchange(strays_, {});  // errors, which are news
  output.reserve(output.size() + dirty_.size());
  for (const bool news : {true, false}) {
    for (const ClientId& client : dirty_) {
      const auto it = peers_.find(client);
      if (it == peers_.end() || it->second.output.empty()) continue;
      if (HasNews(it->second.output) != news) continue;
      std::vector<BrokerMessage>& messages =
          output.emplace_back(Delivery{client, {it->second.session, {}}}).envelope.messages;
      messages.swap(it->second.output);
      it->second.output.reserve(std::min(messages.size(), kUsualMessages));
    }
  }
  dirty_.clear();
  return output;
}

std::vector<BrokerCore::EndedSession> BrokerCore::TakeEnded() {
  return std::exchange(ended_, {});
}

std::vector<std::string> BrokerCore::TakeLog() {
  return std::exchange(log_, {});
}

std::vector<ClientId> BrokerCore::Clients() const {
  std::vector<ClientId> clients;
  clients.reserve(peers_.size());
  for (const auto& entry : peers_) clients.push_back(entry.first);
  return clients;
}

Stats BrokerCore::GetStatistics() const {
  Stats stats = space_.GetStatistics();
  AddCounts(stats.counters);
  return stats;
}

std::string BrokerCore::Describe(const ClientId& client) const {
  const auto it = peers_.find(client);
  if (it == peers_.end() || it->second.name.empty()) return "client " + Printable(client);
  return fmt::format("client {} ({})", Printable(client), Printable(it->second.name));
}

}  // namespace tuplespace
