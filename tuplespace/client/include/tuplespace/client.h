// Client: talks to a broker. For one thread; each thread should have its own (they are cheap).
//
// A client keeps a request until it is answered. If the connection or the broker is lost, the
// client joins again and resends every unanswered request. That is harmless for tasks and for
// tuples that stay, because the first put wins. But a plain tuple that was taken and completed, or
// removed, can be put again. So a resent Put may store such a tuple a second time if another client
// has taken it meanwhile. Where that matters, use a tuple with a TaskSpec. Replies to one client
// come in the order in which the space answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tuplespace/access.h"
#include "tuplespace/messages.h"
#include "tuplespace/shared_pool.h"

namespace zmq {
class context_t;
}

namespace tuplespace {

struct ClientOptions {
  // tcp://127.0.0.1:5555, ipc:///run/acan.sock or inproc://name; or up to 16 of the first two,
  // separated by commas, if the broker may be restarted at another place (with the same keys).
  // After a loss the client first tries the place where the broker last was, and then the others in
  // turn. REQUIRES: at most one of them has a broker at a time, because clients of two brokers
  // never meet.
  std::string endpoint;
  std::string name;  // for people: "handler cpu:2 on host7, pid 4711"
  // Empty: a random one. With `access` it changes if a broker ignores it, because a connection of
  // another client of the same key has it. OnDelay reports that.
  ClientId id;
  // Keys for a broker that has keys; the id then begins with "NAME/". Not for inproc://.
  std::optional<ClientAccess> access = {};
  // A refusal of the key is not authenticated: whoever can answer at the endpoint can forge it. So
  // a client that has joined once continues to try, and another one gives up (SpaceError,
  // kForbidden) only if it is refused for this long. 0: at once.
  std::int64_t refusal_patience_us = 30'000'000;
  zmq::context_t* context = nullptr;            // shared for inproc; null: the client makes its own
  std::uint64_t unanswered_bytes = 4ull << 30;  // limit of requests kept for resending
  // Messages, and payloads of at least SharedPool::kMinBytes, pass through shared memory if this
  // process and the broker's can open each other's memory, which each joining determines. Not for
  // inproc://.
  bool shared_memory = true;
  // Where this client's larger payloads are copied unless they are there already. Must not belong
  // to another client. Null: the client makes its own.
  std::shared_ptr<SharedPool> pool = {};
  // Over tcp, and if no memory is shared with the broker: this client serves payloads that stay
  // with it directly to other clients that may read them, and fetches theirs, in a thread of its
  // own. With `access` all of that is encrypted, too.
  bool direct = false;
  // Where it then listens, such as tcp://10.0.0.7:5600; port * is a free one. Empty: at the address
  // from which it reaches the broker, at a free port. Without `access` it must be a loopback
  // address.
  std::string direct_listen = {};
};

// Counts of direct transfers.
struct DirectCounts {
  std::uint64_t sent_payloads = 0, sent_bytes = 0;  // by this client to others
  std::uint64_t fetched_payloads = 0, fetched_bytes = 0;
  std::uint64_t failed_fetches = 0;                  // these were read through the broker
  std::uint64_t refused_tickets = 0, malformed = 0;  // of other clients
};

// The endpoints of a list as in ClientOptions, unchecked. A comma separates only if tcp://, ipc://
// or inproc:// follows, because paths of sockets may contain commas.
std::vector<std::string> EndpointsIn(const std::string& endpoints);

// Why no client can ever connect to this endpoint (or list, as in ClientOptions); nullopt if one
// can.
std::optional<std::string> EndpointProblem(const std::string& endpoint);

// Why no client can ever listen there (ClientOptions::direct_listen); nullopt if one can.
std::optional<std::string> DirectListenProblem(const std::string& endpoint, bool has_access);

// The broker refused permanently (bad request, other protocol version, ...): a code and a text.
class SpaceError : public std::runtime_error {
 public:
  SpaceError(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

class Client {
 public:
  // Connects in the background, as the broker may start later. Throws std::invalid_argument for a
  // malformed endpoint or invalid keys.
  explicit Client(ClientOptions options);
  ~Client();  // says goodbye: its leases return at once
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // ---- asynchronous: for event loops -----------------------------------------------------------

  using ReplyHandler = std::function<void(ReplyBody&&)>;
  // Queues a request and returns its id. `on_reply` runs once, inside Poll. The client itself
  // retries after kBusy (with back-off), so that never reaches `on_reply`; other errors do, as
  // RequestError. Throws SpaceError(kBusy) if unanswered_bytes would be exceeded: then Poll first.
  RequestId Submit(RequestBody body, ReplyHandler on_reply);
  // From here on, every Put and Retire that names no lease is sent under this lease (Put::under);
  // null: no longer. Requests submitted before do not change, even if they are resent.
  void ChangeUnder(std::optional<LeaseRef> lease);
  // Replaces the open Get `id` (a new offer) and keeps its on_reply. Does nothing if this Get is
  // not open any more.
  void Replace(RequestId id, Get get);
  // The result of `id` is not needed any more: its on_reply will not run, an open Read or Get is
  // cancelled, and what a late answer grants is released.
  void Abandon(RequestId id);
  // Notices never overtake replies that the space sent before them.
  void OnNotice(std::function<void(Notice&&)> handler);
  // Reads all of these keys as a Read would. Payloads come from their makers if these listen; other
  // payloads, and those that cannot be fetched, come through the broker. If a grant told the place
  // of an input, pass it in `wanted` with the size; otherwise the key is enough. If `wanted` has a
  // size (payload_bytes) and another client says that it has a payload of a different size, the
  // payload is not read, and the answer has the tuple without it. Before the client has joined a
  // broker, everything comes through the broker. REQUIRES: wanted is not empty.
  void ReadDirectly(std::vector<FoundTuple> wanted, std::int64_t wait_us, ReplyHandler on_reply);
  // An authorised reader asks for the payload of `key`, which this client made and holds. The
  // handler returns it, or an empty one if it is not here.
  void OnAsked(std::function<Payload(const Key& key)> handler);
  // Serves this payload as if the handler of OnAsked returned it, until it is withdrawn or the
  // session ends; the handler is not called. Does nothing unless listens().
  void Offer(const Key& key, Payload payload);
  // This payload may be freed: soon none of it is sent any more and nothing here keeps it.
  void Withdraw(const Key& key);
  // Reports that this client cannot listen and continues without direct transfers, or that a
  // payload could not be fetched and comes through the broker (at most twice a minute). `text` says
  // why.
  void OnDirectProblem(std::function<void(const std::string& text)> handler);
  // Reports that a payload did not have its producer's hash when it arrived; `text` names the peer
  // and the key. The payload is not used: the client asks for it, or sends it, again. If it is
  // damaged three times in a row, it is damaged at its source and answered with
  // RequestError{kDamaged}.
  void OnDamage(std::function<void(const std::string& text)> handler);
  // Reports a request that waits longer than it should and continues to wait; `text` says why: it
  // was answered kBusy for seconds (with the limit), the broker does not answer it, or there is no
  // broker. Also reports that the broker has not admitted this client for a second, with the limit.
  // Called about 10 s after the delay began and then at most twice a minute; for a missing broker
  // only once until there is one.
  void OnDelay(std::function<void(const std::string& text)> handler);
  // Called with true when a broker has welcomed this client, and with false and the reason when
  // that connection is lost. Also called, with false, if there is a broker but the handshake with
  // it fails or the key is refused; each once until a broker welcomes this client. After a lost
  // connection the space has forgotten this client's leases, ephemeral tuples and holds; the client
  // itself resends unanswered requests. A restarted broker has an empty space, without tuples that
  // were acknowledged before; broker_life() tells the two cases apart.
  void OnConnection(std::function<void(bool connected, const std::string& why)> handler);

  // Sends what is queued and handles what has come. Waits at most `timeout` for something to come,
  // or until `extra_fd` (if >= 0) is readable or Wake() is called. Returns the number of messages
  // handled. Waits are rounded up to a millisecond. Poll at least every few seconds: a client that
  // is silent for the broker's client_silence_us is lost. An exception of a handler leaves Poll;
  // the client stays usable, and the next Poll handles the rest. REQUIRES: neither Poll nor a
  // blocking call is called from one of the client's own handlers (std::logic_error). Throws
  // SpaceError if the broker speaks another protocol version, refuses the session, or revokes this
  // client's key, or if the key is refused for refusal_patience_us (both kForbidden).
  int Poll(std::chrono::microseconds timeout, int extra_fd = -1);
  // Sends as much of the queue as possible at once, before more is queued; Poll sends the rest.
  // Throws as Poll does if the context is gone.
  void Flush();
  void Wake();  // thread safe; async-signal safe

  bool shares_memory() const;  // payloads that it puts can be in shared memory
  // Where payloads for the broker are best made, as it need not copy those. Null unless
  // shares_memory(). Owned by the client.
  SharedPool* pool() const;
  bool nearby() const;  // messages from the broker also come through shared memory
  // Whether it asks for places (Get::direct), so that ReadDirectly may use them.
  bool fetches_directly() const;
  bool listens() const;  // in this session others can fetch payloads that stay with it
  DirectCounts direct_counts() const;
  const std::string& local_address() const;  // of its tcp connection; empty: not known
  bool connected() const;                    // welcomed by a broker that was heard recently
  // If this number changes, the broker was restarted and the space began empty. 0: the client has
  // not joined a broker yet, or the broker does not tell.
  std::uint64_t broker_life() const;
  std::uint64_t unanswered() const;     // requests without a reply
  const ClientId& id() const;           // may change while it is not connected: see ClientOptions
  const std::string& endpoint() const;  // where it is or tries to be connected: one of the list

  // ---- blocking: for programs and tests --------------------------------------------------------

  // Each waits until its answer comes or `wait` is over (then nullopt / empty). While parts of
  // large messages arrive, it waits longer, because its answer may be among them: until none has
  // come for 5 s. Throws SpaceError. Handlers of asynchronous requests run meanwhile.

  using Duration = std::chrono::microseconds;
  static constexpr Duration kForever = Duration::max();

  // Wake() does not end these calls, and without a broker they wait for one (OnDelay reports it).
  // `check` can end them by throwing: each call runs it before it waits, once a second, and
  // whenever something came or Wake() was called. Its exception leaves the call, whose request is
  // abandoned. Null: no check.
  void SetInterrupt(std::function<void()> check);

  std::optional<std::vector<PutStatus>> Put(std::vector<Tuple> tuples, Duration wait = kForever);
  std::optional<FoundTuple> ReadOne(const Pattern& pattern, Duration wait = kForever);
  std::vector<FoundTuple> ReadAll(const std::vector<Pattern>& patterns, Duration wait = kForever,
                                  bool metadata_only = false);  // empty: not all came in time
  // Throws SpaceError(kTooLarge) if more match than the broker sends in one answer.
  std::vector<FoundTuple> ListAll(const Pattern& pattern, bool metadata_only = false,
                                  Duration wait = kForever);
  std::optional<std::uint64_t> CountOf(const Pattern& pattern, Duration wait = kForever);
  std::vector<Grant> GetSome(const tuplespace::Get& get, Duration wait = kForever);
  std::optional<CompleteReply> CompleteTask(const LeaseRef& lease, std::vector<Tuple> results = {},
                                            Duration wait = kForever);
  // Linda's `in`: gets and completes at once; the tuple is gone when this returns it. Once a tuple
  // was granted, this waits some seconds longer than `wait`. If the broker has not confirmed the
  // removal by then, or the connection was lost before it did, the outcome is unknown and
  // SpaceError(kBusy) names the key.
  std::optional<FoundTuple> Take(const Pattern& pattern, Duration wait = kForever);
  std::optional<std::uint64_t> RetireAll(const Pattern& pattern, bool watermark = true,
                                         Duration wait = kForever);
  std::optional<Stats> GetStatistics(Duration wait = kForever);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tuplespace
