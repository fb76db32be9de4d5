// Client: talks to a broker. One thread owns it; give every thread its own (they are cheap).
//
// A request stays with the client until it is answered: when the connection or the broker is lost
// the client joins again and sends every unanswered request again. That is harmless for tasks and
// for tuples that stay: the first put wins. But a plain tuple that was taken and completed, or
// removed, can be put again. So a Put that is sent again may store such a tuple a second time, if
// somebody has taken it meanwhile; where that matters, use a tuple with a TaskSpec. Replies of one
// client come in the order in which the space answered.
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
  // separated by commas, if the broker may be started again at another place (with the same keys).
  // After a loss the client tries the place where the broker last was, and then the others in turn.
  // REQUIRES: at most one of them has a broker at a time; clients of two brokers never meet.
  std::string endpoint;
  std::string name;  // for people: "handler cpu:2 on host7, pid 4711"
  ClientId id;       // empty: a random one
  // Keys for a broker that has some; the id then begins with "NAME/". Not for inproc://.
  std::optional<ClientAccess> access = {};
  zmq::context_t* context = nullptr;            // shared for inproc; null: one of its own
  std::uint64_t unanswered_bytes = 4ull << 30;  // limit of what is kept to be sent again
  // Messages, and payloads of SharedPool::kLeastBytes and more, pass through shared memory, if this
  // process and the broker's can open each other's memory; found out at every joining. Not for
  // inproc://.
  bool shared_memory = true;
  // Where this client's larger payloads are copied to, if they do not lie there. Of no other
  // client. Null: one of its own.
  std::shared_ptr<SharedPool> pool = {};
  // Over tcp, where no memory is shared with the broker: payloads that stay with this client are
  // served by itself to others that may read them, and it fetches theirs from them, in a thread of
  // its own. With `access` all of that is encrypted, too.
  bool direct = false;
  // Where it listens then, like tcp://10.0.0.7:5600; a port * is a free one. Empty: at the address
  // from which it reaches the broker, at a free port. Without `access` a loopback address.
  std::string direct_listen = {};
};

// Of direct transfers.
struct DirectCounts {
  std::uint64_t sent_payloads = 0, sent_bytes = 0;  // by this client to others
  std::uint64_t fetched_payloads = 0, fetched_bytes = 0;
  std::uint64_t failed_fetches = 0;                  // were read through the broker
  std::uint64_t refused_tickets = 0, malformed = 0;  // of others
};

// The endpoints of a list as in ClientOptions, unchecked. A comma separates only where tcp://,
// ipc:// or inproc:// follows, because the path of a socket may have commas.
std::vector<std::string> EndpointsIn(const std::string& endpoints);

// Why no client can connect to this endpoint (or list of them, as in ClientOptions), whatever is
// there; nullopt if one can.
std::optional<std::string> EndpointProblem(const std::string& endpoint);

// Why no client can listen there (ClientOptions::direct_listen), whatever is there; nullopt if one
// can.
std::optional<std::string> DirectListenProblem(const std::string& endpoint, bool has_access);

// The broker refused for good (bad request, other protocol version, ...): `code` and words.
class SpaceError : public std::runtime_error {
 public:
  SpaceError(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

class Client {
 public:
  // Connects in the background: the broker may come later. Throws std::invalid_argument for an
  // endpoint that cannot be parsed, or keys that are none.
  explicit Client(ClientOptions options);
  ~Client();  // says goodbye: leases return at once
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // ---- asynchronous: for event loops -----------------------------------------------------------

  using ReplyHandler = std::function<void(ReplyBody&&)>;
  // Queues a request and returns its id. `on_reply` runs inside Poll, once. kBusy is retried by the
  // client itself (with back-off) and never reaches `on_reply`; other errors do, as RequestError.
  // Throws SpaceError(kBusy) when unanswered_bytes would be passed: then Poll first.
  RequestId Submit(RequestBody body, ReplyHandler on_reply);
  // From here on every Put and Retire that names no lease itself is one under this lease
  // (Put::under); null: no longer. What was submitted before stays as it is, also where it is sent
  // again.
  void ChangeUnder(std::optional<LeaseRef> lease);
  // Replaces the open Get `id` (a new offer); the same on_reply stays. Does nothing if no such Get
  // is open any more.
  void Replace(RequestId id, Get get);
  // Nobody waits for `id` any more: its on_reply will not run, an open Read or Get is cancelled,
  // and what a late answer grants is put back.
  void Abandon(RequestId id);
  // Replies are never passed by notices that the space sent after them.
  void OnNotice(std::function<void(Notice&&)> handler);
  // Reads keys, all of them, as a Read would: payloads that their maker has come from it, if it
  // listens, and everything else, and what cannot be had there, through the broker. Where a grant
  // has told the place of an input, `wanted` has it, too, with its size; of others the key is
  // enough. Before the client has joined a broker all comes through the broker. REQUIRES: wanted is
  // not empty.
  void ReadDirectly(std::vector<FoundTuple> wanted, std::int64_t wait_us, ReplyHandler on_reply);
  // Somebody who may have it asks for the payload of `key`, which this client made and holds: the
  // handler returns it, or an empty one if it is not here.
  void OnAsked(std::function<Payload(const Key& key)> handler);
  // As if the handler of OnAsked returned this payload, until it is withdrawn or the session ends;
  // nobody is asked. Does nothing unless listens().
  void Offer(const Key& key, Payload payload);
  // This payload may go now: soon nothing of it is sent to anybody, and nobody keeps it here.
  void Withdraw(const Key& key);
  // This client cannot listen, and goes on without direct transfers; or a payload could not be
  // fetched and comes through the broker, which is said at most twice a minute. `text` says why.
  void OnDirectProblem(std::function<void(const std::string& text)> handler);
  // A payload did not have its producer's hash when it arrived; `text` names the peer and the key.
  // It is not used: the client asks for it, or sends it, again. What is damaged three times in a
  // row is so at its source and answered with RequestError{kDamaged}.
  void OnDamage(std::function<void(const std::string& text)> handler);
  // A request waits for longer than it should, and goes on waiting; `text` says for what: it was
  // answered kBusy for seconds (which limit it meets), the broker does not answer it, or is not
  // there. About 10 s after it began, and then at most twice a minute; that no broker is there,
  // once until one is.
  void OnDelay(std::function<void(const std::string& text)> handler);
  // Also called, with false, when a broker is there and the handshake with it fails, once until it
  // succeeds. After a lost connection the space has forgotten this client's leases, ephemeral
  // tuples and holds; unanswered requests are sent again by the client itself. A broker that was
  // started again has an empty space, without the tuples that were acknowledged before:
  // broker_life() tells the one from the other.
  void OnConnection(std::function<void(bool connected, const std::string& why)> handler);

  // Sends what is queued, handles what has come; waits at most `timeout` for something to come, or
  // until `extra_fd` (if >= 0) is readable, or Wake() is called. Returns the number of messages
  // handled. Waits are rounded up to a millisecond. Poll at least every few seconds: a client that
  // is silent for the broker's client_silence_us is lost. What a handler throws leaves Poll;
  // the client goes on, and the next Poll handles what came behind it. REQUIRES: not called by one
  // of its own handlers, nor is a blocking call: std::logic_error. Throws SpaceError if the broker
  // speaks another protocol version, refuses the session, or does not know this client's key
  // (kForbidden).
  int Poll(std::chrono::microseconds timeout, int extra_fd = -1);
  // Sends of what is queued what can be sent at once, before more is queued; Poll does the rest.
  // Throws as Poll does if the context is gone.
  void Flush();
  void Wake();  // thread safe; async-signal safe

  bool shares_memory() const;  // what it puts can lie in shared memory
  // Where payloads for the broker are best made, as it need not copy those. Null unless
  // shares_memory(). Belongs to the client.
  SharedPool* pool() const;
  bool nearby() const;  // messages from the broker come through shared memory, too
  // It asks for places (Get::direct) and ReadDirectly may use them.
  bool fetches_directly() const;
  bool listens() const;  // in this session others can fetch from it what stays with it
  DirectCounts direct_counts() const;
  const std::string& local_address() const;  // of the connection over tcp; empty: not known
  bool connected() const;                    // welcomed by a broker, and heard of it lately
  // Another number than before: the broker was started again, and the space began empty. 0: it has
  // not joined one yet, or the broker does not say.
  std::uint64_t broker_life() const;
  std::uint64_t unanswered() const;  // requests without a reply
  const ClientId& id() const;
  const std::string& endpoint() const;  // where it is connected, or tries to: one of the list

  // ---- blocking: for programs and tests --------------------------------------------------------

  // Each waits until its answer is there or `wait` is over (then nullopt / empty). Throws
  // SpaceError. Handlers of asynchronous requests run meanwhile.

  using Duration = std::chrono::microseconds;
  static constexpr Duration kForever = Duration::max();

  // Wake() does not end these calls, and without a broker they wait for one (OnDelay says so).
  // `check` does, by throwing: each of them asks it before it waits, once a second, and whenever
  // something came or Wake() was called. What it throws leaves the call, whose request is
  // abandoned. Null: none.
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
  // Linda's `in`: get, then complete at once; the tuple is gone when this returns one. Once a tuple
  // was granted this waits some seconds longer than `wait`. If the broker has not said by then
  // whether it was taken, or the connection was lost before it said so, nobody can say it, and
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
