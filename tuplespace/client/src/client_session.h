// ClientSession: the client's half of the protocol as a pure state machine: joining, the table of
// unanswered requests, resending after the loss of a connection or broker, retrying after kBusy,
// and heartbeats. No socket, clock, thread or randomness: the caller passes the time, so a
// simulation can drive it. Times are microseconds of any monotonic clock.
//
// Not thread safe; for one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "envelope.h"

namespace tuplespace {

struct SessionOptions {
  std::string name;
  // The first nonce of this client. Must differ between all processes that use one client id.
  std::uint64_t first_nonce = 1;
  std::uint64_t unanswered_bytes = 4ull << 30;
  std::int64_t hello_timeout_us = 1'000'000;  // doubles up to max_hello_timeout_us
  std::int64_t max_hello_timeout_us = 5'000'000;
  // The same where something has accepted the connection: over a slow link its handshake and the
  // Welcome, together about five round trips, may take long.
  std::int64_t max_reached_timeout_us = 20'000'000;
  std::int64_t min_busy_delay_us = 1'000;
  std::int64_t max_busy_delay_us = 1'000'000;
  std::int64_t min_relink_delay_us = 10'000;
  std::int64_t max_relink_delay_us = 1'000'000;
  std::int64_t refusal_patience_us = 30'000'000;
};

// The shell should drop its connection, if any, make a new one and call LinkUp.
struct RelinkWanted {};
struct ConnectionChanged {
  bool connected = false;
  std::string why;
};
// A payload did not have its hash when it arrived, here or at the broker. It is not used; the
// session itself asks for it or sends it again.
struct PayloadDamaged {
  std::string text;  // names the key and the producer
};
// A request waits longer than it should: the broker has had no room for it for seconds or does not
// answer it, or there is no broker. Or the broker admits no further client. The session keeps
// trying.
struct RequestDelayed {
  std::string text;  // what it waits for
};
using SessionEvent =
    std::variant<Reply, Notice, ConnectionChanged, RelinkWanted, PayloadDamaged, RequestDelayed>;

class ClientSession {
 public:
  explicit ClientSession(SessionOptions options);

  // Keeps `body` until it is answered. Throws SpaceError(kBusy) if that would exceed
  // unanswered_bytes.
  RequestId Submit(RequestBody body, std::int64_t now_us);
  // Part of a read in progress, which the limit does not stop.
  RequestId ReadAgain(Read read, std::int64_t now_us);
  void ChangeUnder(std::optional<LeaseRef> lease) { requests_.under = std::move(lease); }
  // Sends the Get `id` again with another body. Does nothing if it has been answered.
  void Replace(RequestId id, Get get, std::int64_t now_us);
  // The result of `id` is not needed any more: it is not sent again, an open Read or Get is
  // cancelled, and what a late answer grants is released.
  void Abandon(RequestId id, std::int64_t now_us);
  // The next output is a Bye, and nothing follows it.
  void Leave();

  // A new connection was begun. Messages sent before may be lost. Messages sent from here on arrive
  // in order, or the connection is lost.
  void LinkUp(std::int64_t now_us);
  // Something has accepted this connection.
  void LinkReached(std::int64_t now_us);
  // This connection has reached a broker: its handshake has succeeded.
  void LinkEstablished(std::int64_t now_us);
  void LinkDown(const std::string& why, std::int64_t now_us);
  // Something at the other end refused this client's key. That is not authenticated, so the session
  // fails (kForbidden) only if the key has expired by this client's clock, or if this client has
  // never joined and refusals have come for refusal_patience_us. `why` is a whole sentence.
  void LinkRefused(const std::string& why, bool expired, std::int64_t now_us);
  // The broker was heard, though not yet with a whole message: a part of one has come.
  void Heard(std::int64_t now_us);
  // Part of the taken output that waited for room has left. No further output is taken while it
  // waits.
  void Moved(std::int64_t now_us) { link_.moved_at_us = now_us; }
  void Receive(ToClient&& envelope, std::int64_t now_us);
  // A frame that cannot be decoded has come. The session fails with `error`.
  void ReceiveBad(const RequestError& error);
  void Tick(std::int64_t now_us);
  // Whether several Hellos in a row over established connections had no answer. Then counts anew.
  bool TakeIgnored() {
    if (joining_.ignored < kMostIgnored) return false;
    joining_.ignored = 0;
    return true;
  }
  std::int64_t NextDeadlineUs() const;  // when the next Tick is due; kForeverUs: never
  // When a caller should give up that waits for the answer to `id` until `deadline_us`: later than
  // that if the answer may be on its way.
  std::int64_t GiveUpUs(RequestId id, std::int64_t deadline_us) const;

  // What must be sent, in order, in one envelope. The pointers are valid until the next call of any
  // other method.
  using OutgoingMessage = std::variant<const Request*, Hello, Ping, Bye>;
  struct Output {
    std::uint64_t session = 0;
    std::vector<OutgoingMessage> messages;
  };
  bool HasOutput() const;
  Output TakeOutput(std::int64_t now_us);

  // In the order in which they occurred.
  std::vector<SessionEvent> TakeEvents();
  bool HasEvents() const { return !events_.empty(); }

  bool joined() const { return state_ == State::kJoined; }
  std::uint64_t session() const { return joined() ? welcome_.session : 0; }
  const Welcome& welcome() const { return welcome_; }  // the last one
  const std::optional<RequestError>& failure() const { return failure_; }
  std::uint64_t unanswered() const { return requests_.pending.size() - requests_.internal_count; }
  std::uint64_t unanswered_bytes() const { return requests_.kept_bytes; }

 private:
  // A broker that ignores so many Hellos is not only busy for a moment, and has given up an earlier
  // connection of this client by then.
  static constexpr int kMostIgnored = 4;

  enum class State : std::uint8_t { kNoLink, kJoining, kJoined, kFailed, kLeft };
  struct Pending {
    Request request;
    std::int64_t deadline_us = kForeverUs;  // of a Read or Get that waits
    std::int64_t busy_delay_us = 0;
    std::uint64_t bytes = 0;
    std::uint32_t sent = 0;       // how often it was sent in this session
    int damaged = 0;              // how often a payload of it or of its answer was damaged
    bool queued = false;          // it is in to_send
    bool backing_off = false;     // it is in retries
    bool internal = false;        // no caller waits for the answer
    std::int64_t sent_at_us = 0;  // last time in this session
  };

  // The Hello that is due or in flight.
  struct Joining {
    std::uint64_t nonce = 0;
    bool hello_due = false;
    std::int64_t timeout_us = 0;
    std::int64_t deadline_us = kForeverUs;
    std::int64_t retry_at_us = kForeverUs;  // after a kBusy answer
    std::int64_t busy_delay_us = 0;
    bool reached = false;      // something has accepted the connection
    bool established = false;  // the connection has reached a broker
    int ignored = 0;           // Hellos over such connections, in a row, without an answer
    // The first and the last refusal of the key without an accepted one between them; kForeverUs:
    // there was none.
    std::int64_t refused_since_us = kForeverUs;
    std::int64_t refused_at_us = 0;
  };
  // When the next connection is made, and the traffic of the current one.
  struct Link {
    std::int64_t relink_at_us = 0;
    std::int64_t relink_delay_us = 0;
    std::int64_t joined_at_us = 0;
    std::int64_t heard_at_us = 0;
    std::int64_t part_at_us = 0;  // when a part of an unfinished message last came
    std::int64_t sent_at_us = 0;
    std::int64_t moved_at_us = 0;  // when taken output last left
    // When an unsent Ping became due; kForeverUs: none is due.
    std::int64_t ping_due_at_us = kForeverUs;
    // When an unanswered Ping was sent; kForeverUs: none.
    std::int64_t ping_sent_at_us = kForeverUs;
    std::int64_t clock_asked_at_us = 0;  // by the last Hello or Ping
  };
  // What the broker has not answered yet.
  struct Requests {
    RequestId next_id = 1;
    std::optional<LeaseRef> under;  // for each Put and Retire that names no lease
    std::unordered_map<RequestId, Pending> pending;
    std::uint64_t internal_count = 0;
    std::uint64_t kept_bytes = 0;
    std::deque<RequestId> to_send;
    std::multimap<std::int64_t, RequestId> retries;  // when, and which
  };
  // When delayed requests are reported.
  struct Delays {
    std::int64_t say_busy_at_us = INT64_MIN;   // not earlier
    std::int64_t look_unanswered_at_us = 0;    // not earlier
    std::int64_t alone_since_us = kForeverUs;  // without a session since then, and unreported
  };

  RequestId Insert(RequestBody body, bool internal, std::int64_t now_us);
  void Erase(std::unordered_map<RequestId, Pending>::iterator it);
  void Queue(RequestId id, Pending& pending);
  void BeginHello(std::int64_t now_us);
  std::int64_t MostHelloTimeoutUs() const;
  void NoteHeard(std::int64_t now_us);
  void OnWelcome(const Welcome& welcome, std::int64_t now_us);
  void OnSessionError(RequestError&& error, std::uint64_t session, std::int64_t now_us);
  void OnDone(RequestId id, std::int64_t now_us);
  void OnReply(Reply&& reply, std::int64_t now_us);
  void PutBack(const ReplyBody& body, std::int64_t now_us);
  void TryLater(Pending& pending, std::int64_t now_us);
  void NoteBusy(std::int64_t busy_delay_us, std::string text, std::int64_t now_us);
  void NoteAlone(std::int64_t now_us);
  void NoteUnanswered(std::int64_t now_us);
  bool AsksAgain(Reply& reply, Pending& pending, std::int64_t now_us);
  bool DropDamaged(Grants& grants, Pending& pending, std::int64_t now_us);
  std::optional<RequestError> TooLarge(const Pending& pending) const;
  void Fail(const RequestError& error);
  std::int64_t PingDueUs() const;
  std::int64_t StuckUs() const;
  std::int64_t AloneDueUs() const;

  SessionOptions options_;
  State state_ = State::kNoLink;
  std::optional<RequestError> failure_;

  Joining joining_;
  Link link_;
  Welcome welcome_;
  Requests requests_;
  Delays delays_;
  bool bye_due_ = false;
  std::vector<SessionEvent> events_;
};

}  // namespace tuplespace
