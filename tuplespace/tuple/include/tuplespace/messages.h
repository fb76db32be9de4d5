// What clients ask of a space and what it answers, as plain values. The wire form of these is
// schema/wire.fbs; PROTOCOL.md describes both and draws the life of a task tuple.
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
inline constexpr std::int64_t kForeverUs = INT64_MAX;  // no deadline
inline constexpr std::uint64_t kLeastKeptBytes = 64
                                                 << 10;  // see Read::direct, Get::holds_from_bytes

using ClientId = std::string;  // stable for the life of a client process; 1..kMaxClientIdBytes
inline constexpr std::size_t kMaxClientIdBytes = 64;
using RequestId = std::uint64_t;  // chosen by the client; unique among its open requests

// What the ids of all clients of one key begin with, and no others': everything through the first
// '/'. Empty for an id without one, as clients without a key have.
inline std::string_view KeyPrefixOf(std::string_view id) {
  return id.substr(0, id.find('/') + 1);
}

// ---- put ---------------------------------------------------------------------------------------

// What makes a tuple a task: it can be taken only when all its inputs are in the space.
struct TaskSpec {
  std::vector<Key> inputs;       // at most limits.task_inputs
  std::uint64_t need_bytes = 0;  // what a taker must have free; compared with Get::offer_bytes
  std::int64_t priority = 0;     // lower is taken earlier among tasks that fit
  std::int64_t lease_us = 0;     // 0: the space's default. Twice as long after each time it ran out
  std::int32_t affinity = -1;    // index into inputs of the tuple that should stay where it is
  // Clients that never get it, whoever else is there; at most limits.task_exclusions. "name/"
  // stands for all clients of that key. A Grant does not show it: who is asked to check somebody's
  // work must not see whose.
  std::vector<ClientId> not_by = {};
  // The keys of its results; at most limits.task_results. Who completes the task brings all of
  // these and nothing else. A Grant does not show them: the payload says what to make.
  std::vector<Key> results = {};
  // Indices into `results`, ascending: whoever completes the task brings the payloads of these.
  // Those of the others may stay with it (Tuple::resident_bytes).
  std::vector<std::uint32_t> due = {};
  // While this client is there, asks for such tasks and is not benched, the task is kept for it for
  // `prefer_us` (at most limits.most_prefer_us) from when it is ready, in place of those that
  // hold its affinity tuple. Empty: nobody. A Grant does not show it.
  ClientId prefers = {};
  std::int64_t prefer_us = 0;
};

struct Tuple {
  Key key;
  Payload payload;
  std::optional<TaskSpec> task;  // absent: a plain tuple
  bool ephemeral = false;        // removed when the client that put it is lost
  bool held = false;             // the putting client keeps a copy (affinity, see Hold)
  // Not 0: the payload has so many bytes and stays with the putting client, which holds it until it
  // has supplied it (see Supply) or was told that it is released (see Notice). Until then the tuple
  // is there for tasks and for who asks for metadata; who reads the bytes waits for them, and the
  // client is asked. If it is lost, so is the tuple. REQUIRES: no payload, no task, not ephemeral.
  std::uint64_t resident_bytes = 0;
};

enum class PutStatus : std::uint8_t {
  kStored,
  kDuplicate,  // the key is there already, or is that of a task that is done: dropped, first put
               // wins. A plain tuple that was completed or removed can be put again
  kConflict,   // as kDuplicate, but the bytes differ: counted as corruption and reported
  kRetired,    // the key lies below a retire watermark: dropped
  kRefused,    // a result of a task that this client does not hold and did not hold, or a tuple of
               // a Put under a lease that it does not hold: dropped
};

struct LeaseRef {
  Key key;
  std::uint64_t fence = 0;
};

// With `under`, the tuples count only while this client holds that lease; else each is kRefused. So
// what a leader sent stores nothing once another one leads, however late it arrives.
struct Put {
  std::vector<Tuple> tuples;
  std::optional<LeaseRef> under = {};
};
struct PutReply {
  std::vector<PutStatus> status;  // one for each tuple, in order
};
// The payloads of tuples that stayed with this client. Each is kStored, or kDuplicate if it is
// there already or stays with another, or kRetired if the tuple is gone. With Tuple::held the
// client goes on holding it, until it says that it has dropped it (see Hold): if it listens,
// readers that take places still fetch the payload from it.
struct Supply {
  std::vector<Tuple> tuples;  // keys, payloads, held
};

// ---- read --------------------------------------------------------------------------------------

// Waits until every pattern has a match (`all`) or any one has, and copies the first match of each.
// A pattern for which limits.looked_at_by_read tuples have to be looked at is answered kTooLarge:
// it must say more in its first fields.
struct Read {
  std::vector<Pattern> patterns;
  bool all = true;
  bool metadata_only = false;  // keys and sizes, no payloads
  std::int64_t wait_us = 0;    // 0: answer at once; kForeverUs: wait
  // With metadata_only: payloads that stay with a client are asked for, and waited for, as if they
  // were read. So they get into the space, and no further.
  bool in_space = false;
  // A payload of which a client that listens is the maker is not waited for, and not sent, if that
  // client has it: the answer has its place. One that is in the space, too, is sent if it is
  // shorter than kLeastKeptBytes.
  bool direct = false;
};
// Every tuple that matches, in key order; never waits for one. Where many have to be looked at, the
// requests of others are answered meanwhile: what is there all the time is counted once, what comes
// or goes may be or not.
struct List {
  Pattern pattern;
  std::uint64_t limit = 1000;
  bool metadata_only = false;
};
struct Count {
  Pattern pattern;
};
// Where a payload that a client has can be fetched from it.
struct Place {
  std::string endpoint;    // tcp://ADDRESS:PORT
  std::string public_key;  // CURVE; empty: it has no keys
  std::string ticket;      // by which that client knows that the reader may have this payload
};
struct FoundTuple {
  Key key;
  Payload payload;  // empty if metadata_only
  std::uint64_t payload_bytes = 0;
  ClientId put_by;
  // Of a task's result: the time from the lease of the task to its completion, and how often the
  // task had been taken by then. 0 for what was put in another way. Saturates.
  std::uint32_t took_us = 0;
  std::uint32_t times_taken = 0;
  // Of the payload, as its producer said; also if metadata_only. Unset: the producer gave none.
  std::optional<PayloadHash> hash = {};
  // The payload that came does not have this hash and is left out. A Client asks again by itself;
  // its handlers never see one.
  bool damaged = false;
  // The payload stays with the client that put it (Tuple::resident_bytes) and is left out. Only in
  // answers of metadata, of List, to that client itself, and of an input that was not sent. Also of
  // one that the space has as well, if there is a place.
  bool resident = false;
  // Of a resident one, for who asked for places: where it is, if that client listens.
  std::shared_ptr<const Place> place = {};
};
// For Read: one for each pattern that matched; if `timed_out`, those that were there by then.
struct Found {
  std::vector<FoundTuple> tuples;
  bool timed_out = false;
  bool truncated = false;  // List only: more matched than `limit`
};
struct CountReply {
  std::uint64_t count = 0;
};

// ---- get, and what ends a lease ----------------------------------------------------------------

// Takes up to `max_count` tuples that match, each under a lease. Among tasks whose inputs are all
// there and whose need_bytes <= offer_bytes: those whose affinity tuple this client holds first,
// then by priority, then the largest need, then oldest. A Get waits until it can take one.
// A Get with the id of an open Get of the same client replaces it (offers change as memory frees).
struct Get {
  Pattern pattern;
  std::uint64_t offer_bytes = UINT64_MAX;
  std::uint32_t max_count = 1;
  bool with_inputs = false;   // send the task's inputs along, less those that are held
  std::int64_t lease_us = 0;  // for plain tuples; 0: the space's default
  std::int64_t wait_us = kForeverUs;
  // Of many tasks no more than a part of those that are ready (half of an equal share), so that
  // whoever else asks for such tasks finds some; at least one.
  bool share = false;
  // Not 0: payloads reach this client, and leave it, over a link, which takes this time for a KiB;
  // the space keeps the last one said. It follows that
  //  - tasks whose affinity tuple it holds are kept for it as long as that tuple would take to
  //    travel, if that is longer than limits.steal_after_us;
  //  - it holds each input of `holds_from_bytes` or more that a grant brings, until it says that it
  //    has dropped it (Hold), unless that is the affinity tuple of a task. So another grant on its
  //    way does not bring the input again.
  std::uint32_t ns_per_kib = 0;
  std::uint64_t holds_from_bytes = kLeastKeptBytes;  // the space keeps the last one said
  // With inputs: places are sent in place of payloads as Read::direct says, and nobody is asked to
  // supply them.
  bool direct = false;
};
struct Grant {
  Key key;
  Payload payload;
  std::uint64_t fence = 0;  // grows with every lease given in this space
  std::int64_t lease_us = 0;
  std::optional<TaskSpec> task;
  // In TaskSpec order; with_inputs only. Of an input that neither is sent nor has a place: its key,
  // its payload_bytes and whether it is resident.
  std::vector<FoundTuple> inputs;
  std::vector<bool> input_sent;
  bool damaged = false;  // as FoundTuple::damaged
};
struct Grants {
  std::vector<Grant> grants;  // empty: timed out
};

enum class LeaseStatus : std::uint8_t { kOk, kStale };

// The task is done and these are its results, all that it declared and no others: one atomic
// change. A Complete that lacks a declared result or brings another one is answered kBadRequest,
// and the task has failed (see Fail).
//
// With a fence that ran out, or was lost with the connection, the answer is kStale, but the results
// still count, and the task is done all the same: whoever has taken it since has a stale fence now.
// Results that come under such a fence after the task was done are compared with those that are
// there (kDuplicate or kConflict) and are never stored. Any other stale fence (given back, failed,
// not this client's, invented) changes nothing: each result is kDuplicate if its very bytes are
// there, and else kRefused.
//
// A plain tuple declares nothing: whoever holds its lease may replace it by any tuples.
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
struct Release {
  LeaseRef lease;
};  // put it back, untouched, no fault counted
// The task failed on this device. It becomes ready again, by others first; after
// limits.task_failures failures it is parked and its owner gets a Notice.
struct Fail {
  LeaseRef lease;
  std::string cause;
};
struct LeaseReply {
  LeaseStatus lease = LeaseStatus::kOk;
};

// ---- the rest ----------------------------------------------------------------------------------

// Removes what matches. With `watermark`, later puts that match are refused as kRetired; the
// pattern must then have exactly one kAtMost field (the step), and watermarks only rise. `under`
// is that of a Put: without the lease nothing changes, and the answer says kStale.
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
struct Cancel {
  RequestId request = 0;
};  // an open Read or Get; it is answered as timed out
struct GetStats {};
struct Ok {};

enum class ErrorCode : std::uint8_t {
  kBusy,           // a limit is reached: try again later. `text` names the limit
  kBadRequest,     // never try again: `text` says what is wrong with it
  kVersion,        // protocol versions differ: `text` names both
  kHelloRequired,  // the broker does not know this session (it was restarted)
  kTooLarge,
  kForbidden,  // this key, or its role, may not do that: `text` says what
  kDamaged,    // a payload does not have the hash that came with it: send it (or ask) again
};
struct RequestError {
  ErrorCode code = ErrorCode::kBadRequest;
  std::string text;
};

struct Counters {  // since the space was made
  std::uint64_t puts = 0, duplicates = 0, conflicts = 0, retired_puts = 0;
  std::uint64_t reads = 0, gets = 0, grants = 0, completed = 0, stale = 0;
  std::uint64_t leases_expired = 0, leases_returned = 0;  // by time; by a lost connection
  std::uint64_t stored_back = 0, failed = 0, parked = 0, busy = 0, bad_requests = 0;
  std::uint64_t affinity_hits = 0, steals = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  // Of the broker: tcp connections that it ended, and such that ended before a message came (wrong
  // keys, none, no ZeroMQ at all); requests that a role may not make.
  std::uint64_t refused_connections = 0, failed_connections = 0, refused_requests = 0;
  // Of the broker, too: what came from clients that have joined; a message has any number of
  // requests.
  std::uint64_t messages = 0, requests = 0;
  // Tuples whose payloads stayed with a client; of these: asked for by others, lost with it.
  std::uint64_t stayed = 0, wanted = 0, lost = 0;
  // Places of such payloads that were told to readers, and the bytes of these payloads.
  std::uint64_t placed = 0, placed_bytes = 0;
  // Results from clients that did not hold their task; completions that were not what their task
  // declared; times that a client was given no tasks for a while (Space, "Trust").
  std::uint64_t refused_results = 0, false_completions = 0, benched = 0;
};
struct Stats {
  Counters counters;
  std::uint64_t tuples = 0, payload_bytes = 0, tasks_waiting = 0, tasks_ready = 0, tasks_leased = 0,
                tasks_parked = 0, open_reads = 0, open_gets = 0, clients = 0, held_keys = 0;
  // What counts in limits.tuples: the keys of tuples, of tasks that are done, and those that tasks
  // and Reads wait for.
  std::uint64_t known_keys = 0;
  // The broker's wall clock when it answered, microseconds since 1970; 0: it does not say.
  std::uint64_t unix_us = 0;
};

// Sent unasked to the client that put a task; the last two to the one that a payload stays with.
struct Notice {
  enum class Kind : std::uint8_t {
    kParked,    // failed too often; `text` has the last cause, `by` who reported it
    kOrphaned,  // an input was retired or removed, so it can never run
    kConflict,  // two puts of one key with different bytes; `by` names the second
    kLost,      // a result of its task, this one and perhaps others, was lost with `by`, with whom
                // its payload stayed. Comes before notices of tasks that it orphaned
    kWanted,    // somebody asks for the payload: supply it
    kReleased,  // the tuple is gone
    // For who put the task `key`: client `by` kept or completed it in a way that it must not, and
    // gets no tasks for a while; `text` says what it did and for how long
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

// One request, and one answer: variants, for std::visit, std::get and the like. What copies, moves
// and destroys one is compiled once, in messages.cpp; as the variant's own templates every source
// that holds a request would have it again.
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
