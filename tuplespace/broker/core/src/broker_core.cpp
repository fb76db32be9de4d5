#include "broker_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "request_cost.h"
#include "seconds_text.h"
#include "tuplespace/planted.h"
#include "wire.h"

namespace tuplespace {

namespace {

// This many examinations in the space cost as much as a tuple.
constexpr std::uint64_t kLooksAsOne = 8;
constexpr std::int64_t kSilenceChecks = 8;  // in each client_silence_us
constexpr std::int64_t kPongsPerSilence = 4;
// A client whose unfinished messages arrive more slowly does not count as sending: who only
// trickles bytes keeps nothing by that.
constexpr double kMinBytesPerS = 64 << 10;
constexpr std::int64_t kCountPartsUs = 100'000;  // the rate is taken over at least this time
// This many changed placements cost about as much as one put.
constexpr std::uint64_t kPlacesForOne = 4;

// A client counts its nonces from a random one. Messages that it sent over an earlier connection
// may come after the Hello of the next one.
bool IsEarlier(std::uint64_t nonce, std::uint64_t than) {
  constexpr std::uint64_t kMaxJoins = 1ull << 32;
  return nonce != than && than - nonce < kMaxJoins;
}

// Ids are shown to people and become parts of texts. ZeroMQ gives a client without an id one that
// begins with a zero byte.
bool IsPlainId(const ClientId& id) {
  return id.starts_with('\0') ||
         std::all_of(id.begin(), id.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// nullopt: it is allowed.
std::optional<std::string> RefusalText(const AccessList::Entry& who, const ClientId& client,
                                       RequestBody& body) {
  const auto refusal = RefusalOf(*who.role, client, body);
  if (!refusal) return std::nullopt;
  const std::string limit =
      who.peer.limit.empty() ? "" : fmt::format(" for what begins with \"{}\"", who.peer.limit);
  return fmt::format("key \"{}\" has the role \"{}\"{} and may not {}", who.peer.name,
                     who.peer.role, limit, *refusal);
}

std::vector<LeaseRef> LeasesOf(const Grants& grants) {
  std::vector<LeaseRef> leases;
  leases.reserve(grants.grants.size());
  for (const Grant& grant : grants.grants) leases.push_back({grant.key, grant.fence});
  return leases;
}

}  // namespace

BrokerCore::BrokerCore(BrokerCoreOptions options)
    : options_(std::move(options)),
      space_(options_.limits, options_.first_session / 2 + 1,  // far from the last number
             options_.key_secret),
      turns_(options_.turn_cost,
             {options_.waiting_cost, options_.waiting_bytes, options_.waiting_bytes_of_all}),
      next_session_(options_.first_session) {
  if (!options_.first_tuples.empty()) PutFirstTuples();
}

// As a client that leaves at once. No event comes before time 0.
void BrokerCore::PutFirstTuples() {
  const ClientId broker = "broker";
  Put put;
  for (const Key& key : options_.first_tuples) put.tuples.emplace_back().key = key;
  space_.Step(ClientJoined{broker, {}, {}}, 0);
  space_.Step(Incoming{broker, {1, std::move(put)}}, 0);
  space_.Step(ClientLost{broker}, 0);
}

void BrokerCore::Receive(const ClientId& client, ToBroker&& envelope, std::int64_t now_us,
                         const AccessList::Entry* who) {
  bool hello_asked = false;
  bool hello_said = false, ping_said = false;
  std::size_t malformed = 0;
  auto it = peers_.Find(client);
  if (it != peers_.end()) statistics_.CountMessage();
  for (ClientMessage& message : envelope.messages) {
    if (auto* hello = std::get_if<Hello>(&message)) {
      if (std::exchange(hello_said, true)) {
        CountBad(client, "an envelope has more than one Hello", now_us);
        continue;
      }
      OnHello(client, std::move(*hello), who, now_us);
      it = peers_.Find(client);
      continue;
    }
    if (it == peers_.end() ||
        (it->second.session != envelope.session && !IsPlanted(Planted::kOldSessionIsServed))) {
      if (std::holds_alternative<Bye>(message)) continue;
      if (!hello_asked) {
        peers_.SendStray(client, envelope.session,
                         RequestError{ErrorCode::kHelloRequired,
                                      fmt::format("session {} is not known here: join again",
                                                  envelope.session)});
      }
      hello_asked = true;
      continue;
    }
    it->second.heard_at_us = now_us;
    it->second.pong_due_us = now_us + options_.client_silence_us / kPongsPerSilence;
    if (auto* request = std::get_if<Request>(&message)) {
      if (OnRequest(client, it, std::move(*request), who, now_us)) continue;
      GiveUp(client, "it sends faster than it can be served", now_us);
      return;
    }
    if (std::holds_alternative<Ping>(message)) {
      if (!std::exchange(ping_said, true)) peers_.Send(client, it->second, Pong{now_us});
    } else if (std::holds_alternative<Bye>(message)) {
      it->second.leaves = true;
      if (!it->second.waiting.empty()) continue;  // these requests came first
      Leave(it, now_us);
      it = peers_.end();
    } else if (auto* bad = std::get_if<Malformed>(&message)) {
      if (bad->code != ErrorCode::kBusy && ++malformed > kMaxMalformed) {
        GiveUp(client,
               fmt::format("an envelope has more than {} malformed messages", kMaxMalformed),
               now_us);
        return;
      }
      OnMalformed(client, std::move(*bad), now_us, who);
    } else if (auto* listening = std::get_if<Listening>(&message)) {
      OnListening(client, it->second, std::move(*listening), now_us);
    }
  }
}

bool BrokerCore::OnRequest(const ClientId& client, Peers::iterator peer, Request&& request,
                           const AccessList::Entry* who, std::int64_t now_us) {
  statistics_.CountRequest();
  std::uint64_t cost = CostOf(request.body);
  auto refusal = who != nullptr ? RefusalText(*who, client, request.body) : std::nullopt;
  if (refusal) {
    request.body = GetStats{};  // the request may be large
    cost *= options_.refused_cost;
  }
  if (!turns_.MayServe(peer->second, cost)) {
    return Defer(client, peer->second, std::move(request), cost, std::move(refusal));
  }
  if (refusal) {
    Refuse(client, peer->second, request.id, std::move(*refusal), now_us);
  } else {
    Turns::Charge(peer->second, Serve(client, peer, std::move(request), cost, now_us));
  }
  return true;
}

bool BrokerCore::Defer(const ClientId& client, Peer& peer, Request&& request, std::uint64_t cost,
                       std::optional<std::string>&& refusal) {
  const RequestId id = request.id;
  const std::uint64_t bytes = sizeof(WaitingRequest) + BytesOf(request.body);
  const bool again = HasTuples(request.body);
  switch (
      turns_.Defer(client, peer, {std::move(request), cost, bytes, std::move(refusal)}, again)) {
    case Turns::Deferred::kWaits:
      return true;
    case Turns::Deferred::kTooFast:
      return false;
    case Turns::Deferred::kNoRoom:
      peers_.Send(
          client, peer,
          Reply{id, RequestError{
                        ErrorCode::kBusy,
                        fmt::format("waiting_bytes: {} bytes of this client's requests wait for "
                                    "their turn; the limits are {} for a client and {} for all",
                                    peer.waiting_bytes, options_.waiting_bytes,
                                    options_.waiting_bytes_of_all)}});
  }
  return true;
}

// How much a request makes the space examine is known only afterwards: any number of tuples may
// precede a pattern's match, a List, Count or Retire may have any number of matches, and any number
// of waiting Reads may name a tuple.
std::uint64_t BrokerCore::Serve(const ClientId& client, Peers::iterator peer, Request&& request,
                                std::uint64_t cost, std::int64_t now_us) {
  Event event(std::in_place_type<Incoming>);
  auto& incoming = std::get<Incoming>(event);
  incoming.client = client;
  incoming.request = std::move(request);
  const auto looks = [this] { return space_.ExaminedByReads() + space_.ExaminedByScans(); };
  const std::uint64_t before = looks();
  const std::uint64_t places = Step(std::move(event), now_us, peer);
  const std::uint64_t in_all = (looks() - before) / kLooksAsOne;
  return (in_all > cost ? in_all - cost : 0) + places / kPlacesForOne;
}

// Serves a turn's worth of one client. Other waiting clients are served in the next turns.
void BrokerCore::ServeWaiting(std::int64_t now_us) {
  turns_.Begin();
  const std::optional<ClientId> client = turns_.TakeFirst();
  if (!client) return;
  const auto it = peers_.Find(*client);
  if (it == peers_.end()) return;
  Peer& peer = it->second;
  std::uint64_t cost = 0;
  while (std::optional<WaitingRequest> next = turns_.TakeNext(peer, &cost)) {
    if (next->refusal) {
      Refuse(*client, peer, next->request.id, std::move(*next->refusal), now_us);
    } else {
      cost += Serve(*client, it, std::move(next->request), next->cost, now_us);
    }
  }
  if (!peer.waiting.empty()) return turns_.PutBack(*client);
  if (peer.leaves) Leave(it, now_us);
}

void BrokerCore::Leave(Peers::iterator peer, std::int64_t now_us) {
  const ClientId client = peer->first;
  ended_.push_back({client, peer->second.session});
  peers_.Erase(peer);
  Step(ClientLost{client}, now_us);
}

void BrokerCore::OnHello(const ClientId& client, Hello&& hello, const AccessList::Entry* who,
                         std::int64_t now_us) {
  auto it = peers_.Find(client);
  const bool joined = it != peers_.end();
  if (joined && IsEarlier(hello.nonce, it->second.nonce)) return;
  if (joined && it->second.nonce != hello.nonce) {
    // It lost its connection without the broker noticing, or another process uses the same id.
    if (IsPlanted(Planted::kRejoiningKeepsLeases)) {
      peers_.Erase(it);
    } else {
      if (statistics_.MayLogJoinedAgain(client, now_us)) {
        LogPresence(client, "is lost: it joined again", now_us);
      }
      Lose(it, now_us);
    }
    it = peers_.end();
  }
  if (it == peers_.end()) {
    if (!IsPlainId(client)) {
      return ReceiveBad(
          client,
          {ErrorCode::kBadRequest, "the client's id has characters that are not printable ASCII"},
          now_us);
    }
    if (auto busy = CheckRoomFor(who)) {
      if (statistics_.MayLogNotAdmitted(client, now_us)) {
        statistics_.LogPresence(
            who != nullptr ? who->peer.name : "",
            fmt::format("{} is not admitted: {}", peers_.Describe(client), busy->text), now_us);
      }
      return peers_.SendStray(client, 0, std::move(*busy));
    }
    it = Join(client, hello, who, now_us);
    if (!joined && statistics_.MayLogJoined(client, now_us)) {
      LogPresence(client, "joined", now_us);
    }
  }
  it->second.heard_at_us = now_us;
  it->second.pong_due_us = now_us + options_.client_silence_us / kPongsPerSilence;
  peers_.Send(client, it->second,
              Welcome{hello.nonce,
                      it->second.session,
                      options_.client_silence_us,
                      options_.control_frame_bytes,
                      options_.limits.message_bytes,
                      {},
                      now_us,
                      /*decompresses=*/false,
                      options_.first_session});
}

BrokerCore::Peers::iterator BrokerCore::Join(const ClientId& client, Hello& hello,
                                             const AccessList::Entry* who, std::int64_t now_us) {
  const auto it = peers_.Add(client);
  // 0 stands for no session.
  if (next_session_ == 0) ++next_session_;
  it->second.session = next_session_++;
  it->second.nonce = hello.nonce;
  it->second.name = std::move(hello.name);
  it->second.decompresses = hello.decompresses;
  if (who != nullptr) it->second.key = who->peer;
  ClientJoined joining{client, {}, {}};
  if (who != nullptr) {
    joining.principal = who->peer.name;
    joining.limits = who->role->limits;
    it->second.unread_bytes_of_key = joining.limits.unread_bytes_of_key;
    if (joining.limits.judges_apart) judges_[who->peer.name] = who->peer;
  }
  Step(std::move(joining), now_us);
  return it;
}

void BrokerCore::OnMalformed(const ClientId& client, Malformed&& bad, std::int64_t now_us,
                             const AccessList::Entry* who) {
  // A message that must be sent again in another way is not bad.
  if (bad.code != ErrorCode::kBusy) CountBad(client, bad.text, now_us);
  // Nothing can damage what comes with a key on its way.
  if (bad.damaged_results_of && who != nullptr && who->role->limits.checks_payloads) {
    Step(ResultsDamaged{client, std::move(*bad.damaged_results_of), bad.text}, now_us);
  }
  RequestError error{bad.code, std::move(bad.text)};
  Peer& peer = peers_.Find(client)->second;
  if (bad.id == 0) {
    peers_.Send(client, peer, std::move(error));
  } else {
    peers_.Send(client, peer, Reply{bad.id, std::move(error)});
  }
}

// A Ping of this client would wait behind the unfinished message, and so would an Extend. So the
// client is told that the broker hears it, and the space that the client is sending.
bool BrokerCore::Heard(const ClientId& client, std::uint64_t bytes, std::int64_t now_us) {
  const auto it = peers_.Find(client);
  if (it == peers_.end()) return false;
  Peer& peer = it->second;
  peer.heard_at_us = now_us;
  if (now_us >= peer.pong_due_us) {
    peer.pong_due_us = now_us + options_.client_silence_us / kPongsPerSilence;
    peers_.Send(client, peer, Pong{now_us});
  }
  peer.part_bytes += bytes;
  const std::int64_t counted_us = now_us - peer.parts_since_us;
  if (counted_us < kCountPartsUs) return true;
  const double rate = 1e6 * static_cast<double>(std::exchange(peer.part_bytes, 0)) /
                      static_cast<double>(counted_us);
  const bool sends = rate >= kMinBytesPerS;
  peer.parts_since_us = now_us;
  if (sends) Step(ClientSends{client}, now_us);
  return true;
}

void BrokerCore::ReceiveBad(const ClientId& client, const RequestError& error, std::int64_t now_us,
                            bool ends) {
  CountBad(client, error.text, now_us);
  // A joined client gets it in order with its other answers, which may wait.
  const auto it = peers_.Find(client);
  if (it != peers_.end() && !ends) return peers_.Send(client, it->second, RequestError{error});
  peers_.SendStray(client, 0, RequestError{error});
}

void BrokerCore::CountBad(const ClientId& client, const std::string& text, std::int64_t now_us) {
  // A client that has not joined may use any number of names.
  if (!statistics_.CountBadMessage(Knows(client) ? PartyOf(client) : "", now_us)) return;
  statistics_.Log(fmt::format("a bad message of {}: {} ({} bad messages so far, of all peers)",
                              peers_.Describe(client), text, statistics_.bad_messages()));
}

void BrokerCore::Refuse(const ClientId& client, Peer& peer, RequestId id, std::string refusal,
                        std::int64_t now_us) {
  if (statistics_.CountRefusedRequest(PartyOf(client), now_us)) {
    statistics_.Log(fmt::format("a request of {} is refused: {} ({} refused so far, of all peers)",
                                peers_.Describe(client), refusal, statistics_.refused_requests()));
  }
  peers_.Send(client, peer, Reply{id, RequestError{ErrorCode::kForbidden, std::move(refusal)}});
}

void BrokerCore::Lost(const ClientId& client, const std::string& why, std::int64_t now_us) {
  const auto it = peers_.Find(client);
  if (it == peers_.end()) return;
  if (!it->second.leaves) return LogAndLose(client, why, now_us);
  // After its Bye a client closes its connection. What it asked for before that is still served.
  it->second.deaf = true;
  it->second.output.clear();
}

void BrokerCore::LogAndLose(const ClientId& client, const std::string& why, std::int64_t now_us) {
  LogPresence(client, "is lost: " + why, now_us);
  Lose(peers_.Find(client), now_us);
}

void BrokerCore::LogPresence(const ClientId& client, const std::string& what, std::int64_t now_us) {
  statistics_.LogPresence(PartyOf(client), fmt::format("{} {}", peers_.Describe(client), what),
                          now_us);
}

// Whose behaviour a client's is: a key's holder may use any number of ids.
std::string BrokerCore::PartyOf(const ClientId& client) const {
  const Peer* peer = peers_.Find(client);
  return peer != nullptr && peer->key ? peer->key->name : client;
}

void BrokerCore::Lose(Peers::iterator peer, std::int64_t now_us) {
  turns_.Forget(peer->first, peer->second);
  Leave(peer, now_us);
}

// The client may be there and believe in its session, as after a pause. Its channel is not read any
// more.
void BrokerCore::GiveUp(const ClientId& client, const std::string& why, std::int64_t now_us) {
  const std::uint64_t session = peers_.Find(client)->second.session;
  peers_.SendStray(
      client, session,
      RequestError{ErrorCode::kHelloRequired, fmt::format("session {} is over: {}", session, why)});
  LogAndLose(client, why, now_us);
}

void BrokerCore::Tick(std::int64_t now_us) {
  ServeWaiting(now_us);
  if (now_us >= next_silence_check_us_) {
    next_silence_check_us_ = now_us + options_.client_silence_us / kSilenceChecks;
    std::vector<ClientId> silent;
    for (const auto& [client, peer] : peers_.all()) {
      const bool is_silent = now_us - peer.heard_at_us >= options_.client_silence_us;
      if (is_silent && !peer.deaf) silent.push_back(client);
    }
    for (const ClientId& client : silent) {
      GiveUp(client, fmt::format("silent for {}", SecondsText(options_.client_silence_us)), now_us);
    }
  }
  if (now_us >= space_.NextDeadlineUs()) Step(tuplespace::Tick{}, now_us);
}

std::int64_t BrokerCore::NextDeadlineUs() const {
  const std::int64_t silence_us = peers_.all().empty() ? kForeverUs : next_silence_check_us_;
  if (!turns_.empty()) return 0;
  return std::min(silence_us, space_.NextDeadlineUs());
}

std::uint64_t BrokerCore::Step(Event&& event, std::int64_t now_us, Peers::iterator sender) {
  std::vector<GrantsUnsent> unsent;
  Send(space_.Step(std::move(event), now_us), now_us, sender, unsent);
  std::uint64_t places = space_.places_changed();
  // What they give back goes to other clients.
  while (!unsent.empty()) {
    GrantsUnsent next = std::move(unsent.back());
    unsent.pop_back();
    Send(space_.Step(std::move(next), now_us), now_us, peers_.end(), unsent);
    places += space_.places_changed();
  }
  return places;
}

void BrokerCore::Send(std::span<Outgoing> messages, std::int64_t now_us, Peers::iterator sender,
                      std::vector<GrantsUnsent>& unsent) {
  for (Outgoing& out : messages) {
    const bool is_sender = sender != peers_.end() && sender->first == out.client;
    const auto it = is_sender ? sender : peers_.Find(out.client);
    if (it == peers_.end()) continue;  // lost in the same step
    if (auto* reply = std::get_if<Reply>(&out.message)) {
      if (IsDone(reply->body)) {
        peers_.SendDone(out.client, it->second, reply->id);
        continue;
      }
      if (auto* stats = std::get_if<Stats>(&reply->body)) statistics_.AddTo(stats);
      FillPlaces(out.client, it->second, reply->body, now_us);
      // The space limits what it grants at once. But what a client cannot read would end it.
      if (auto problem = ProblemOfSending(reply->body)) {
        if (const auto* grants = std::get_if<Grants>(&reply->body)) {
          unsent.push_back({out.client, LeasesOf(*grants)});
        }
        reply->body = std::move(*problem);
      }
      peers_.Send(out.client, it->second, std::move(*reply));
    } else {
      peers_.Send(out.client, it->second, std::get<Notice>(std::move(out.message)));
    }
  }
}

std::vector<BrokerCore::EndedSession> BrokerCore::TakeEnded() {
  return std::exchange(ended_, {});
}

std::vector<ClientId> BrokerCore::Clients() const {
  std::vector<ClientId> clients;
  clients.reserve(peers_.all().size());
  for (const auto& entry : peers_.all()) clients.push_back(entry.first);
  return clients;
}

std::optional<std::string> BrokerCore::HolderOf(const Pattern& pattern) const {
  const std::optional<ClientId> holder = space_.HolderOf(pattern);
  return holder ? std::optional(peers_.Describe(*holder)) : std::nullopt;
}

Stats BrokerCore::GetStatistics() const {
  Stats stats = space_.GetStatistics();
  statistics_.AddTo(&stats);
  return stats;
}

}  // namespace tuplespace
