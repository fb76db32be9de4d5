// What the space knows about one key, one client, one waiting request. Plain data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "space_deadlines.h"
#include "space_key_order.h"
#include "space_list.h"
#include "space_need_tree.h"
#include "tuplespace/client_limits.h"
#include "tuplespace/messages.h"

namespace tuplespace::internal {

struct ClientState;
struct GetGroup;
struct ReadGroup;

using OwnerId = std::shared_ptr<const ClientId>;  // shared by all that a client put

// The place of one input of one task in the lists of that input's record, while the task may still
// need it (it waits, can be taken, or is leased).
struct InputLink : ListHook<InputLink> {
  Record* task = nullptr;
  Record* input = nullptr;
  bool affine = false;  // it is the task's affinity input
};

// A Read that waits for a key (record) or for a pattern (group).
struct ReadWatch : ListHook<ReadWatch> {
  ReadWaiter* waiter = nullptr;
  Record* record = nullptr;
  ReadGroup* group = nullptr;
};

// `client` keeps a copy of `record`'s payload.
struct Holding : ListHook<Holding> {
  ClientState* client = nullptr;
  Record* record = nullptr;
};

struct Lease : ListHook<Lease> {
  explicit Lease(Record* record) : deadline(record, Deadline::Kind::kLease) {}
  ClientState* client = nullptr;
  std::uint64_t fence = 0;
  std::int64_t granted_us = 0;
  std::int64_t lease_us = 0;  // as it was granted
  // From when extensions are counted: until then the task waited for a payload of somebody else.
  std::int64_t counted_from_us = 0;
  bool extended = false;
  Deadline deadline;
};

// A lease of a task that ran out or was lost: its holder may complete the task all the same.
struct PastLease {
  OwnerId client;
  std::uint64_t fence = 0;
  std::int64_t granted_us = 0;
};

// What is remembered of a task that is done, if others held it, too: they may still bring results,
// which are compared with those that are there.
struct DoneTask {
  std::vector<PastLease> leases;
  std::vector<Key> results;
};

// What went wrong with a task; most tasks have none.
struct Mishaps {
  struct Failed {
    std::string principal;
    std::uint32_t times = 0;
  };
  std::uint32_t failures = 0;
  std::vector<Failed> failed_with;  // the first few principals
  bool failed_with_key = false;     // one of them is a key
  // While it fails on all clients that are there, and one of them has a key: how often they tried
  // again, and when they may do so next.
  std::uint32_t rounds = 0;
  std::int64_t next_round_us = INT64_MIN;
  // Whose lapses made the next lease longer: a key, and the client of it.
  std::vector<std::pair<std::string, ClientId>> doubled_by;
};

struct TaskState {
  explicit TaskState(Record* record) : ready_timer(record, Deadline::Kind::kReady) {}
  TaskSpec spec;
  std::vector<InputLink> links;  // as spec.inputs; empty once the task cannot need them any more
  std::uint32_t missing = 0;     // links whose input is not stored
  std::uint32_t times_taken = 0;
  std::uint32_t times_doubled = 0;     // its lease, by having run out
  std::vector<PastLease> past_leases;  // the last few
  std::unique_ptr<Mishaps> mishaps;    // null: none
  // Sorted, each once: spec.not_by, and besides those on whom it failed.
  std::vector<ClientId> barred;
  std::int64_t ready_since_us = 0;
  std::int64_t barred_until_us = 0;  // until then not for clients in `barred`
  Deadline ready_timer;              // when `placement` changes by time
};

// Of a tuple whose payload stays with a client, which holds the tuple until it is supplied or gone.
struct Residence {
  explicit Residence(Record* record) : deadline(record, Deadline::Kind::kSupply) {}
  ClientState* with = nullptr;
  OwnerId made_for;  // who put the task that made it; null: no task did
  std::uint64_t bytes = 0;
  bool wanted = false;
  std::int64_t wanted_us = 0;
  Deadline deadline;
};

enum class RecordState : std::uint8_t {
  kWanted,   // not stored; a task or a Read wants it
  kDone,     // a task that is done: only its key is remembered
  kWaiting,  // a task that lacks inputs
  kReady,    // a plain tuple, or a task whose inputs are all there
  kLeased,
  kParked,  // a task that failed too often, or whose inputs cannot come
};

// Who may take a ready tuple now.
enum class Placement : std::uint8_t {
  kNone,      // not decided (yet)
  kFree,      // anybody
  kReserved,  // whom it prefers (who holds its affinity input, or is named), until it is late
  kLate,      // anybody, those that it prefers first
  kBarred,    // anybody but those on whom it failed, until barred_until_us
};            // and none of TaskSpec::not_by, ever

struct Record {
  explicit Record(Key k) : key(std::move(k)) {}
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  bool stored() const { return state >= RecordState::kWaiting; }
  bool referenced() const {
    return pins != 0 || !dependents.empty() || !affine.empty() || !watches.empty();
  }
  std::uint64_t need_bytes() const { return task ? task->spec.need_bytes : 0; }
  std::int64_t priority() const { return task ? task->spec.priority : 0; }
  // Who may not take it now; sorted.
  const std::vector<ClientId>& barred() const {
    static const std::vector<ClientId> kNobody;
    if (!task) return kNobody;
    return placement == Placement::kBarred ? task->barred : task->spec.not_by;
  }

  Key key;
  std::size_t hash = 0;
  KeyRun* run = nullptr;  // where it is in the order of keys

  RecordState state = RecordState::kWanted;
  Placement placement = Placement::kNone;
  bool ephemeral = false;
  bool queued = false;     // in the ReadyQueue
  std::uint32_t pins = 0;  // in use by the event at work: not to be destroyed

  Payload payload;
  OwnerId put_by;
  std::uint32_t took_us = 0;      // of a task's result, see FoundTuple
  std::uint32_t times_taken = 0;  // likewise
  std::uint64_t sequence = 0;     // order of storing
  std::unique_ptr<TaskState> task;
  std::unique_ptr<DoneTask> done;  // kDone only
  std::unique_ptr<Lease> lease;
  std::unique_ptr<Residence> residence;  // then `payload` is empty

  IntrusiveList<InputLink> dependents;  // inputs of tasks, the affine ones apart
  IntrusiveList<InputLink> affine;
  IntrusiveList<ReadWatch> watches;
  IntrusiveList<Holding> holders;  // in the order in which they said so
  std::vector<std::unique_ptr<TakeEntry>> entries;
};

// Whether `id` is one of `sorted`, or its key is.
inline bool IsAmong(const std::vector<ClientId>& sorted, const ClientId& id) {
  if (sorted.empty()) return false;
  const std::string_view key = KeyPrefixOf(id);
  return std::binary_search(sorted.begin(), sorted.end(), id) ||
         (!key.empty() && std::binary_search(sorted.begin(), sorted.end(), key, std::less<>()));
}

// What a Read names. A Key: its pattern can match that one only.
using WantedPattern = std::variant<Key, Pattern>;

// What waiting Reads take: one of them, those of a client, or those of all clients of a key.
struct ReadUse {
  std::uint64_t patterns = 0;  // all, whole keys or not
  std::uint64_t ranges = 0;    // patterns that are no whole keys
  std::uint64_t watched = 0;   // patterns that are watched: each may take a record
  std::uint64_t bytes = 0;     // of memory, rather more than less

  ReadUse& operator+=(const ReadUse& more) {
    patterns += more.patterns;
    ranges += more.ranges;
    watched += more.watched;
    bytes += more.bytes;
    return *this;
  }
  ReadUse& operator-=(const ReadUse& less) {
    patterns -= less.patterns;
    ranges -= less.ranges;
    watched -= less.watched;
    bytes -= less.bytes;
    return *this;
  }
};

// A List or a Count that goes on slice by slice.
struct Scan {
  RequestId id = 0;
  Pattern pattern;
  bool lists = false;  // else it counts
  bool metadata_only = false;
  std::uint64_t limit = 0;
  std::string next;  // the bytes of the key to look at next; empty: the first
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  Found found;
};

struct ReadWaiter {
  ReadWaiter() : deadline(this) {}
  ClientState* client = nullptr;
  RequestId id = 0;
  std::uint64_t sequence = 0;
  std::vector<WantedPattern> wanted;
  bool all = true;
  bool metadata_only = false;
  bool in_space = false;           // what stays with a client is asked for
  bool direct = false;             // the place of what stays with a client will do
  std::size_t cursor = 0;          // `all`: the pattern that is watched
  bool too_broad = false;          // more than limits.looked_at_by_read were looked at
  std::vector<ReadWatch> watches;  // one (`all`) or one for each pattern
  ReadUse use;                     // while it waits
  std::uint64_t looks_left = 0;    // how often it may still be looked at in vain
  Deadline deadline;
};

struct ReadGroup {
  Pattern pattern;
  IntrusiveList<ReadWatch> watches;
};

// What a Get may still take, and what it has taken.
struct Taker {
  ClientState* client = nullptr;
  GetGroup* group = nullptr;
  std::uint64_t offer_bytes = 0;
  std::uint32_t max_count = 1;
  bool with_inputs = false;
  bool direct = false;
  std::int64_t lease_us = 0;
  bool share = false;
  Grants got;

  bool full() const { return got.grants.size() >= max_count; }
};

struct GetWaiter {
  GetWaiter() : deadline(this) {}
  RequestId id = 0;
  std::uint64_t sequence = 0;
  Taker taker;
  bool benched =
      false;  // its client is: it is not in its group's `waiters`, and ends with the bench
  Deadline deadline;
};

struct ByOffer {
  using is_transparent = void;
  static std::pair<std::uint64_t, std::uint64_t> Rank(const GetWaiter* waiter) {
    return {waiter->taker.offer_bytes, waiter->sequence};
  }
  bool operator()(const GetWaiter* a, const GetWaiter* b) const { return Rank(a) < Rank(b); }
  bool operator()(const GetWaiter* a, std::uint64_t need_bytes) const {
    return a->taker.offer_bytes < need_bytes;
  }
};

// All Gets of one pattern, and the ready tuples that match it.
struct GetGroup {
  Pattern pattern;
  std::string principal;       // of the client that began it
  std::uint64_t sequence = 0;  // order of creation
  std::uint64_t last_used = 0;
  std::set<GetWaiter*, ByOffer> waiters;
  std::size_t benched = 0;  // Gets of benched clients, which wait beside the others
  std::unordered_set<const ClientState*> users;  // connected clients that ever sent such a Get

  NeedTree free;
  NeedTree late;
  std::unordered_map<const ClientState*, NeedTree> preferred;  // by who holds the affinity input
  // What is not for everybody, by who may not take it: as `free` and as `late`.
  std::map<std::vector<ClientId>, NeedTree> free_but;
  std::map<std::vector<ClientId>, NeedTree> late_but;
};

struct Watermark {
  Pattern pattern;              // its kAtMost value is the mark
  std::uint64_t raised_at = 0;  // order of the last raising
};

// How far a client is believed to do the tasks that it takes.
struct ClientTrust {
  std::uint32_t in_vain = 0;        // tasks in a row that it took and did not do
  std::uint32_t given_back = 0;     // times in a row that it gave tasks back, less those in_vain
  std::uint64_t counted_fence = 0;  // older leases count with what was given back last
  std::uint32_t times_benched = 0;  // less those that were forgiven
  std::uint32_t completed = 0;      // since the last that was forgiven
  std::int64_t benched_until_us = INT64_MIN;
};

// What the clients of one key did. A client is untried until it completes a task: whoever has the
// key can make as many such clients as it likes, so together they are trusted like one client.
struct KeyTrust {
  std::uint64_t clients = 0;          // that are there
  std::vector<ClientState*> untried;  // of those, in the order in which they joined
  std::uint32_t offences = 0;         // benches of its clients, as of `offence_us`; see OffencesOf
  std::int64_t offence_us = 0;        // when the last one began
  std::uint32_t in_vain = 0;          // tasks that untried clients took and did not do
  std::int64_t in_vain_us = 0;        // when the last one was
  std::uint32_t given_back = 0;       // as of a client, by all untried ones
  std::int64_t benched_until_us = INT64_MIN;  // untried clients get no tasks,
  std::int64_t trial_until_us = INT64_MIN;    // as one of them failed; or is being tried
  std::uint64_t trial_fence = 0;              // with the task that it has under this fence
};

struct ClientState {
  OwnerId id;
  std::string principal;
  KeyTrust* key = nullptr;         // null: it came without a key, so it is its own principal
  KeyTrust* untried_of = nullptr;  // `key`, until it completes a task
  ClientLimits limits;
  ClientTrust trust;
  std::map<RequestId, std::unique_ptr<ReadWaiter>> reads;
  std::unordered_map<RequestId, GetWaiter> gets;
  std::deque<Scan> scans;                       // the first one is at work
  ReadUse read_use;                             // of `reads`
  std::uint64_t lease_count = 0;                // of `leases`
  std::uint64_t own_payload_bytes = 0;          // of `ephemerals`
  GetGroup* last_group = nullptr;               // of its last Get, while the group is there
  std::uint64_t most_offered_bytes = 0;         // by any of its Gets
  IntrusiveList<Lease> leases;                  // by fence, as it grows
  std::map<std::uint64_t, Record*> ephemerals;  // by sequence
  std::unordered_map<const Record*, Holding> held;
  std::int64_t supplied_us = INT64_MIN;  // when it last did
  std::uint32_t ns_per_kib = 0;          // as its last Get said
  std::uint64_t holds_from_bytes = 0;    // likewise
  bool listens = false;                  // it serves what stays with it
  // How often the time for which tasks are kept for it by name is halved: see NamedWaits.
  std::uint32_t kept_less = 0;
};

}  // namespace tuplespace::internal
