// The requests of clients to a space and the replies, as plain values. schema/wire.fbs is their
// wire form. PROTOCOL.md describes both and draws the life of a task tuple.
//
// Times are microseconds on the broker's monotonic clock; durations are microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tuplespace/key.h"
#include "tuplespace/payload.h"

namespace tuplespace {

inline constexpr std::uint32_t kProtocolVersion = 4;
inline constexpr std::int64_t kForeverUs = INT64_MAX;     // no deadline
inline constexpr std::uint64_t kMinKeptBytes = 64 << 10;  // see Read::direct, Get::holds_from_bytes

using ClientId = std::string;  // stable for the life of a client process; 1..kMaxClientIdBytes
inline constexpr std::size_t kMaxClientIdBytes = 64;
using RequestId = std::uint64_t;  // chosen by the client; unique among its open requests

// The prefix that the ids of all clients of one key share, and no others: everything through the
// first '/'. Empty for ids without a '/', which clients without a key have.
inline std::string_view KeyPrefixOf(std::string_view id) {
  return id.substr(0, id.find('/') + 1);
}

// ---- put ---------------------------------------------------------------------------------------

// What makes a tuple a task. A client can take it only when all its inputs are in the space.
struct TaskSpec {
  std::vector<Key> inputs;       // at most limits.task_inputs
  std::uint64_t need_bytes = 0;  // memory that a taker must have free; see Get::offer_bytes
  std::int64_t priority = 0;     // a lower value is taken earlier among tasks that fit
  std::int64_t lease_us = 0;     // 0: the space's default. Doubles each time it runs out
  std::int32_t affinity = -1;    // index into inputs of the tuple that should stay where it is
  // Clients that never get the task, even if no other client is there; at most
  // limits.task_exclusions. "name/" stands for all clients of that key. A Grant does not show this
  // list: a client that checks another's work must not learn whose it is.
  std::vector<ClientId> not_by = {};
  // The keys of the task's results; at most limits.task_results. A client that completes the task
  // must bring exactly these. A Grant does not show them: the payload says what to make.
  std::vector<Key> results = {};
  // Indices into `results`, ascending: a client that completes the task must bring the payloads of
  // these results. Other payloads may stay with it (Tuple::resident_bytes).
  std::vector<std::uint32_t> due = {};
  // While this client is there, asks for such tasks and is not benched, the space reserves the task
  // for it for `prefer_us` (at most limits.most_prefer_us) after the task becomes ready, and not
  // for the holders of its affinity tuple. Empty: no preference. A Grant does not show it.
  ClientId prefers = {};
  std::int64_t prefer_us = 0;
  // A client that completes the task must not bring results of more bytes than this in all, with
  // those that stay with it. 0: any. A Grant does not show it.
  std::uint64_t most_result_bytes = 0;
};

struct Tuple {
  Key key;
  Payload payload;
  std::optional<TaskSpec> task;  // nullopt: a plain tuple
  // Removed when the client that put it is lost. Not so for the results of a task.
  bool ephemeral = false;
  bool held = false;  // the client that puts it keeps a copy (affinity, see Hold)
  // Not 0: the payload has this size and stays with the client that puts the tuple. The client
  // holds it until it has supplied it (see Supply) or has received kReleased (see Notice). Until
  // then the tuple exists for tasks and for metadata readers; a reader of the bytes waits while the
  // space asks the client for them. If the client is lost, so is the tuple. REQUIRES: no payload,
  // no task, not ephemeral.
  std::uint64_t resident_bytes = 0;
};

enum class PutStatus : std::uint8_t {
  kStored,
  kDuplicate,  // dropped: the key exists or is that of a done task, and the first put wins. A plain
               // tuple that was completed or removed can be put again
  kConflict,   // as kDuplicate, but the bytes differ: counted as corruption and reported
  kRetired,    // dropped: the key is below a retire watermark
  kRefused,    // dropped: a result of a task that this client does not hold and did not hold, or a
               // tuple of a Put under a lease that it does not hold
};

struct LeaseRef {
  Key key;
  std::uint64_t fence = 0;
};

// With `under`, the tuples count only while this client holds that lease; otherwise each is
// kRefused. So a former leader's tuples are not stored once another client leads, however late they
// arrive.
struct Put {
  std::vector<Tuple> tuples;
  std::optional<LeaseRef> under = {};
};
struct PutReply {
  std::vector<PutStatus> status;  // one for each tuple, in order
};
// The payloads of tuples that stayed with this client. The status of each is kStored; kDuplicate if
// the space has the payload already or it stays with another client; or kRetired if the tuple is
// gone. With Tuple::held the client goes on holding the payload until it says that it dropped it
// (see Hold). If the client listens, readers that accept places still fetch the payload from it.
struct Supply {
  std::vector<Tuple> tuples;  // keys, payloads, held
};

// ---- read --------------------------------------------------------------------------------------

// Waits until every pattern has a match (`all`), or any one has, and copies the first match of
// each. If limits.examined_by_read tuples would have to be examined for a pattern, the answer is
// kTooLarge: the pattern must be more specific in its first fields.
struct Read {
  std::vector<Pattern> patterns;
  bool all = true;
  bool metadata_only = false;  // keys and sizes, no payloads
  std::int64_t wait_us = 0;    // 0: answer at once; kForeverUs: wait
  // With metadata_only: the space asks clients for payloads that stay with them, and waits for
  // these as if they were read. So the payloads come into the space but are not sent to the reader.
  bool in_space = false;
  // The space does not wait for or send a payload whose maker has it and listens; the answer has
  // its place. A payload that is also in the space is sent if it is shorter than kMinKeptBytes.
  bool direct = false;
};
// Every tuple that matches, in key order; never waits for one. If many tuples have to be examined,
// the broker answers other requests in between: tuples that exist all the time are returned once,
// tuples that come or go meanwhile may be included or not.
struct List {
  Pattern pattern;
  std::uint64_t limit = 1000;  // the space and the client's role have limits, too
  bool metadata_only = false;
};
struct Count {
  Pattern pattern;
};
// Where a reader can fetch a payload from the client that has it.
struct Place {
  std::string endpoint;    // tcp://ADDRESS:PORT
  std::string public_key;  // CURVE; empty: it has no keys
  std::string ticket;      // proves to that client that the reader may have this payload
};
struct FoundTuple {
  Key key;
  Payload payload;  // empty if metadata_only
  std::uint64_t payload_bytes = 0;
  ClientId put_by;
  // For a task's result: the time from the lease of the task to its completion, and how often the
  // task had been taken. 0 for tuples put in another way. Both saturate.
  std::uint32_t took_us = 0;
  std::uint32_t times_taken = 0;
  // The payload's hash as stated by its producer, also if metadata_only. Unset: the producer gave
  // none.
  std::optional<PayloadHash> hash = {};
  // The payload that arrived does not have this hash and is left out. A Client asks again by
  // itself, and its handlers never see such a tuple.
  bool damaged = false;
  // The payload stays with the client that put it (Tuple::resident_bytes) and is left out. Only in
  // metadata answers, in answers to List, in answers to that client itself, and for inputs that
  // were not sent. Also for a payload that the space has as well, if there is a place.
  bool resident = false;
  // For a resident payload, if the reader asked for places and the holder listens: where it is.
  std::shared_ptr<const Place> place = {};
};
// For Read: one tuple for each pattern that matched; if `timed_out`, those that matched in time.
struct Found {
  std::vector<FoundTuple> tuples;
  bool timed_out = false;
  bool truncated = false;  // List only: more tuples matched
};
struct CountReply {
  std::uint64_t count = 0;
  // Of these: tasks that clients could take, and tasks that clients have.
  struct Tasks {
    std::uint64_t ready = 0, leased = 0;
  };
  std::optional<Tasks> tasks = {};  // unset: an older broker, which does not say
};

// ---- get, and what ends a lease ----------------------------------------------------------------

// Takes up to `max_count` matching tuples, each under a lease; fewer if they name so many tuples
// that the answer would be too large (limits.granted_tuples, limits.granted_key_bytes). A task is
// eligible if all its inputs are there and need_bytes <= offer_bytes. Tasks whose affinity tuple
// this client holds come first; then the order is priority, largest need, oldest. A Get waits until
// it can take a tuple. A Get with the id of an open Get of the same client replaces that one
// (offers change as memory frees). A client that may only borrow plain tuples
// (ClientLimits::borrow_us) gets tasks only, unless its Get names a whole key. Such a Get is
// answered with kBusy if the client holds that tuple or has another such Get open.
struct Get {
  Pattern pattern;
  std::uint64_t offer_bytes = UINT64_MAX;
  std::uint32_t max_count = 1;
  bool with_inputs = false;   // send the task's inputs along, except those that the client holds
  std::int64_t lease_us = 0;  // for plain tuples; 0: the space's default
  std::int64_t wait_us = kForeverUs;
  // If many tasks are ready, takes at most half of an equal share of them, but at least one, so
  // that other clients that ask for such tasks find some.
  bool share = false;
  // Not 0: payloads reach and leave this client over a link that takes this time for a KiB; the
  // space keeps the last value. Then
  //  - tasks whose affinity tuple the client holds are reserved for it for as long as that tuple
  //    would take to travel, if that is longer than limits.steal_after_us;
  //  - the client holds each input of at least `holds_from_bytes` that a grant brings, until it
  //    says that it dropped it (Hold), unless the input is the affinity tuple of a task. So a grant
  //    that is on its way does not bring the input again.
  std::uint32_t ns_per_kib = 0;
  std::uint64_t holds_from_bytes = kMinKeptBytes;  // the space keeps the last value
  // With inputs: places replace payloads as with Read::direct, and no client is asked to supply
  // them.
  bool direct = false;
};
struct Grant {
  Key key;
  Payload payload;
  std::uint64_t fence = 0;  // grows with every lease that this space gives
  std::int64_t lease_us = 0;
  std::optional<TaskSpec> task;
  // In TaskSpec order; only with with_inputs. An input that is neither sent nor has a place has
  // only its key, payload_bytes and the resident flag.
  std::vector<FoundTuple> inputs;
  std::vector<bool> input_sent;
  bool damaged = false;  // as FoundTuple::damaged
};
struct Grants {
  std::vector<Grant> grants;  // empty: timed out
};

enum class LeaseStatus : std::uint8_t { kOk, kStale };

// The task is done, and these are exactly the results that it declared: one atomic change. If a
// declared result is missing or another one is present, the answer is kBadRequest and the task has
// failed (see Fail).
//
// If the lease ran out or was lost with the connection, the answer is kStale. The results still
// count and the task is done all the same, so a client that has taken it since has a stale fence
// now. Results that come under such a fence after the task was done are compared with the stored
// ones (kDuplicate or kConflict) and never stored. Any other stale fence (released, failed, another
// client's, invented) changes nothing: each result is kDuplicate if the same bytes are there,
// otherwise kRefused.
//
// A plain tuple declares no results: the holder of its lease may replace it by any tuples.
struct Complete {
  LeaseRef lease;
  std::vector<Tuple> results;
};
struct CompleteReply {
  LeaseStatus lease = LeaseStatus::kOk;
  std::vector<PutStatus> results;
};
struct Extend {
  LeaseRef lease;
  std::int64_t lease_us = 0;
};
// Gives the tuple back unchanged. Counts no failure.
struct Release {
  LeaseRef lease;
};
// The task failed on this device. It becomes ready again, first for other clients. It is parked and
// its owner gets a Notice when it has failed limits.task_failures times
//  - without the failures of the key that reported most (a client without a key counts as one), or
//  - in all, and on every client that could take it. If one of these failures came from a client
//    with a key, limits.rounds_alone further rounds with growing pauses come first.
struct Fail {
  LeaseRef lease;
  std::string cause;
};
struct LeaseReply {
  LeaseStatus lease = LeaseStatus::kOk;
};

// ---- the rest ----------------------------------------------------------------------------------

// Removes all matches. With `watermark`, later puts that match are refused as kRetired; the pattern
// must then have exactly one kAtMost field (the step), and watermarks only rise. `under` is as in
// Put: without the lease nothing changes, and the answer is kStale.
struct Retire {
  Pattern pattern;
  bool watermark = true;
  std::optional<LeaseRef> under = {};
};
struct RetireReply {
  std::uint64_t removed = 0;
  LeaseStatus lease = LeaseStatus::kOk;
};

// This client keeps (or no longer keeps) copies of these tuples on its device.
struct Hold {
  std::vector<Key> held;
  std::vector<Key> dropped;
};
// Ends an open Read or Get, which is answered as timed out.
struct Cancel {
  RequestId request = 0;
};
struct GetStats {};
struct Ok {};

enum class ErrorCode : std::uint8_t {
  kBusy,           // a limit is reached, try again later. `text` names the limit
  kBadRequest,     // never try again: `text` says what is wrong
  kVersion,        // protocol versions differ: `text` names both
  kHelloRequired,  // the broker does not know this session (it may have restarted)
  kTooLarge,
  kForbidden,  // this key or its role may not do that: `text` says what
  kDamaged,    // a payload does not have its stated hash: send it, or ask for it, again
};
struct RequestError {
  ErrorCode code = ErrorCode::kBadRequest;
  std::string text;
};

struct Counters {  // since the space was made
  std::uint64_t puts = 0, duplicates = 0, conflicts = 0, retired_puts = 0;
  std::uint64_t reads = 0, gets = 0, grants = 0, completed = 0, stale = 0;
  // Leases that ended by time; by a lost connection, or by an answer that could not be sent.
  std::uint64_t leases_expired = 0, leases_returned = 0;
  std::uint64_t released = 0, failed = 0, parked = 0, busy = 0, bad_requests = 0;
  std::uint64_t affinity_hits = 0, steals = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  // Of the broker: tcp connections that it closed; connections that ended before their first
  // message (wrong or no keys, or not ZeroMQ); requests that a role may not make.
  std::uint64_t refused_connections = 0, failed_connections = 0, refused_requests = 0;
  // Also of the broker: messages from clients that have joined, and requests. A message may have
  // any number of requests.
  std::uint64_t messages = 0, requests = 0;
  // Tuples whose payloads stayed with a client; how many others asked for; how many were lost with
  // it.
  std::uint64_t stayed = 0, wanted = 0, lost = 0;
  // Places of such payloads that the broker told to readers, and the bytes of these payloads.
  std::uint64_t placed = 0, placed_bytes = 0;
  // Results from clients that did not hold their task; completions that did not match what their
  // task declared, or whose results did not have their hashes; how often a client was benched
  // (PROTOCOL.md, "Leases and fences").
  std::uint64_t refused_results = 0, false_completions = 0, benched = 0;
  // Requests that limits.payload_bytes, and limits.tuples, had no room for.
  std::uint64_t no_payload_room = 0, no_tuple_room = 0;
};
struct Stats {
  Counters counters;
  // `payload_bytes` counts against limits.payload_bytes, with what long keys take.
  std::uint64_t tuples = 0, payload_bytes = 0, tasks_waiting = 0, tasks_ready = 0, tasks_leased = 0,
                tasks_parked = 0, open_reads = 0, open_gets = 0, clients = 0, held_keys = 0;
  // Counts against limits.tuples: the keys of tuples, of done tasks, and of tuples that tasks and
  // Reads wait for.
  std::uint64_t known_keys = 0;
  // The broker's wall clock when it answered, in microseconds since 1970; 0: not given.
  std::uint64_t unix_us = 0;
};

// Sent unasked. kWanted and kReleased go to the client that a payload stays with; the others go to
// the client that put a task.
struct Notice {
  enum class Kind : std::uint8_t {
    kParked,    // the task failed too often; `text` has the last cause, `by` who reported it
    kOrphaned,  // an input was retired or removed, so the task can never run
    kConflict,  // two puts of one key with different bytes; `by` names the second
    kLost,      // this result of the client's task, and perhaps others, was lost with `by`, with
                // which its payload stayed. Precedes the notices of tasks that it orphaned
    kWanted,    // another client asks for the payload: supply it
    kReleased,  // the tuple is gone
    // To the client that put the task `key`: client `by` kept or completed it in a forbidden way
    // and gets no tasks for a while; `text` says what it did and for how long. Or the task failed
    // on all clients, or several were lost with it, at last `by`; then `text` says that.
    kMistrusted,
  };
  Kind kind = Kind::kParked;
  Key key;
  ClientId by;
  std::string text;
};

using AnyRequest = std::variant<Put, Read, List, Count, Get, Complete, Extend, Release, Fail,
                                Retire, Hold, Cancel, GetStats, Supply>;
using AnyReply = std::variant<PutReply, Found, CountReply, Grants, CompleteReply, LeaseReply,
                              RetireReply, Ok, Stats, RequestError>;

// One request, and one answer: variants, for std::visit, std::get and the like. Copying, moving and
// destroying them is compiled once, in messages.cpp; with plain variants every source that holds a
// request would compile these templates again.
class RequestBody : public AnyRequest {
 public:
  using AnyRequest::AnyRequest;
  RequestBody();
  RequestBody(const RequestBody& other);
  RequestBody(RequestBody&& other) noexcept;
  RequestBody& operator=(const RequestBody& other);
  RequestBody& operator=(RequestBody&& other) noexcept;
  ~RequestBody();
};
class ReplyBody : public AnyReply {
 public:
  using AnyReply::AnyReply;
  ReplyBody();
  ReplyBody(const ReplyBody& other);
  ReplyBody(ReplyBody&& other) noexcept;
  ReplyBody& operator=(const ReplyBody& other);
  ReplyBody& operator=(ReplyBody&& other) noexcept;
  ~ReplyBody();
};

struct Request {
  RequestId id = 0;
  RequestBody body;
};
struct Reply {
  RequestId id = 0;
  ReplyBody body;
};

}  // namespace tuplespace
