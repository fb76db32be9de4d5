// What the space knows about a key, a client and a waiting request. Plain data.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
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
#include "space_waiters.h"
#include "tuplespace/client_limits.h"
#include "tuplespace/messages.h"

namespace tuplespace::internal {

struct ClientState;
struct GetGroup;
struct ReadGroup;

using OwnerId = std::shared_ptr<const ClientId>;  // shared by all tuples that a client put
// A key whose tasks are judged apart (ClientLimits::judges_apart).
struct ApartKey {
  std::string name;
  std::uint64_t exclusions = UINT64_MAX;  // ClientLimits::exclusions_of_key
};
// That of the client that put a task, shared by the client's tasks; null: they are judged with all
// others.
using Judge = std::shared_ptr<const ApartKey>;
// Empty: none.
inline std::string_view NameOf(const Judge& judge) {
  return judge ? std::string_view(judge->name) : std::string_view();
}

// Who may not take a ready tuple although its group's pattern matches: clients and keys (sorted,
// see IsAmong), and those that are benched by this judge (empty: none).
struct KeptFrom {
  std::string judge;
  std::vector<ClientId> barred;

  friend auto operator<=>(const KeptFrom&, const KeptFrom&) = default;
};

// Links one input of a task into the lists of that input's record, as long as the task may need it
// (it waits, is ready, or is leased).
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
  std::int64_t lease_us = 0;  // as granted
  // Extensions count from here on: before, the task waited for a payload of another client.
  std::int64_t counted_from_us = 0;
  std::uint64_t placed_bytes = 0;  // of inputs that the client was told to fetch from others
  bool extended = false;
  bool lacked_room = false;  // the space had no room for the results
  Deadline deadline;
};

// A lease of a task that ran out or was lost. Its holder may still complete the task.
struct PastLease {
  OwnerId client;
  std::uint64_t fence = 0;
  std::int64_t granted_us = 0;
};

// Kept for a done task if other clients held it, too: they may still bring results, which are
// compared with the stored ones.
struct DoneTask {
  std::vector<PastLease> leases;
  std::vector<Key> results;
};

// The failures of a task, and losses of clients that held it. Most tasks have none.
struct Mishaps {
  struct Failed {
    std::string principal;
    std::uint32_t times = 0;
  };
  std::uint32_t failures = 0;
  std::vector<Failed> failed_with;  // the first few principals
  bool failed_with_key = false;     // one of them is a key
  // While the task fails on all connected clients, and one of them has a key: how many rounds of
  // new attempts there were, and when the next one may begin.
  std::uint32_t rounds = 0;
  std::int64_t next_round_us = INT64_MIN;
  // Whose expired leases lengthened the next lease: a key, and the client of it.
  std::vector<std::pair<std::string, ClientId>> doubled_by;
  std::vector<ClientId> lost_with;  // the first few that were lost while it was their oldest task
};

struct TaskState {
  explicit TaskState(Record* record) : ready_timer(record, Deadline::Kind::kReady) {}
  TaskSpec spec;
  std::vector<InputLink> links;  // as spec.inputs; empty once the task cannot need them any more
  std::uint32_t missing = 0;     // links whose input is not stored
  std::uint32_t times_taken = 0;
  std::uint32_t times_doubled = 0;     // how often its lease doubled because one ran out
  bool goes_with_lease = false;        // its key has ended: nobody gets it after this lease
  std::vector<PastLease> past_leases;  // see LeaseTable::Lose
  std::unique_ptr<Mishaps> mishaps;    // null: none
  Judge judge;
  // Sorted, without duplicates: spec.not_by, and the clients on which the task failed.
  std::vector<ClientId> barred;
  std::int64_t ready_since_us = 0;
  std::int64_t barred_until_us = 0;  // until then, clients in `barred` do not get it
  Deadline ready_timer;              // when time changes `placement`
};

// Whether the client that a payload stays with was asked for it.
enum class Asked : std::uint8_t {
  kNo,
  kAhead,   // only by clients that hold no task with it: nobody is late without it
  kNeeded,  // the payload is lost if it does not come in time
};

// For a tuple whose payload stays with a client. The client holds the tuple until the payload is
// supplied or the tuple is gone.
struct Residence {
  explicit Residence(Record* record) : deadline(record, Deadline::Kind::kSupply) {}
  ClientState* with = nullptr;
  OwnerId made_for;  // the owner of the task that made it; null: no task did
  Judge judge;       // of that task; null: none
  std::uint64_t bytes = 0;
  Asked asked = Asked::kNo;
  std::int64_t wanted_us = 0;  // since then it is needed
  Deadline deadline;
};

enum class RecordState : std::uint8_t {
  kWanted,   // not stored; a task or a Read needs it
  kDone,     // a done task: only its key is remembered
  kWaiting,  // a task that lacks inputs
  kReady,    // a plain tuple, or a task whose inputs are all there
  kLeased,
  kParked,  // a task that failed too often, or whose inputs cannot come
};

// Which clients may take a ready tuple now. Clients in TaskSpec::not_by never get it.
enum class Placement : std::uint8_t {
  kNone,      // not decided (yet)
  kFree,      // any client
  kReserved,  // only the named client or holders of its affinity input, until late
  kLate,      // any client, preferred ones first
  kBarred,    // any client except those on which it failed, until barred_until_us
};

struct Record {
  static inline const std::vector<ClientId> kNobody;
  static inline const Judge kNoJudge;

  explicit Record(Key k) : key(std::move(k)) {}
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  bool stored() const { return state >= RecordState::kWaiting; }
  bool referenced() const {
    return pins != 0 || !dependents.empty() || !affine.empty() || !watches.empty();
  }
  std::uint64_t need_bytes() const { return task ? task->spec.need_bytes : 0; }
  // What it adds to the payload bytes of the space.
  std::uint64_t counted_bytes() const { return payload.size() + key_bytes; }
  std::int64_t priority() const { return task ? task->spec.priority : 0; }
  // The clients that may not take it now; sorted.
  const std::vector<ClientId>& barred() const {
    if (!task) return kNobody;
    return placement == Placement::kBarred ? task->barred : task->spec.not_by;
  }
  const Judge& judge() const { return task ? task->judge : kNoJudge; }
  KeptFrom kept_from() const { return {std::string(NameOf(judge())), barred()}; }
  // Whether kept_from() is empty. That one copies names, and nearly every task is kept from nobody.
  bool is_kept_from_nobody() const { return !judge() && barred().empty(); }

  Key key;
  std::size_t hash = 0;
  KeyRun* run = nullptr;  // its position in the order of keys

  RecordState state = RecordState::kWanted;
  Placement placement = Placement::kNone;
  bool ephemeral = false;
  bool queued = false;     // in the ReadyQueue
  std::uint32_t pins = 0;  // uses by the current event; not to be destroyed while above 0

  Payload payload;
  std::uint64_t key_bytes = 0;  // what its keys count as payload bytes; see CountedKeyBytes
  OwnerId put_by;
  std::uint32_t took_us = 0;      // of a task's result, see FoundTuple
  std::uint32_t times_taken = 0;  // likewise
  std::uint64_t sequence = 0;     // order of storing
  std::unique_ptr<TaskState> task;
  std::unique_ptr<DoneTask> done;  // kDone only
  std::unique_ptr<Lease> lease;
  std::unique_ptr<Residence> residence;  // then `payload` is empty

  IntrusiveList<InputLink> dependents;  // tasks' inputs, except affine ones
  IntrusiveList<InputLink> affine;
  IntrusiveList<ReadWatch> watches;
  IntrusiveList<Holding> holders;  // in the order in which they were added
  std::vector<std::unique_ptr<TakeEntry>> entries;
};

// Whether `sorted` has `id` or its key.
inline bool IsAmong(const std::vector<ClientId>& sorted, const ClientId& id) {
  if (sorted.empty()) return false;
  const std::string_view key = KeyPrefixOf(id);
  return std::binary_search(sorted.begin(), sorted.end(), id) ||
         (!key.empty() && std::binary_search(sorted.begin(), sorted.end(), key, std::less<>()));
}

// One pattern of a Read. Key: the pattern can match only this key.
using WantedPattern = std::variant<Key, Pattern>;

// What waiting Reads use: one Read, those of a client, or those of all clients of a key.
struct ReadUse {
  std::uint64_t patterns = 0;  // all, whole keys or not
  std::uint64_t ranges = 0;    // patterns that are not whole keys
  std::uint64_t watched = 0;   // patterns that are watched: each may take a record
  std::uint64_t bytes = 0;     // of memory, an upper estimate

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

// A List or a Count that proceeds slice by slice.
struct Scan {
  RequestId id = 0;
  Pattern pattern;
  bool lists = false;  // otherwise it counts
  bool metadata_only = false;
  std::uint64_t limit = 0;
  std::string next;                // the next key to examine; empty: the first
  std::uint64_t bytes = 0;         // of the payloads in `found`
  std::uint64_t string_bytes = 0;  // of the strings in `found`
  std::uint64_t charged = 0;       // to ClientLimits::listed_bytes_of_key
  CountReply counted{.tasks = CountReply::Tasks{}};
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
  bool in_space = false;           // clients are asked for payloads that stay with them
  bool direct = false;             // accepts places of payloads that stay with clients
  std::size_t cursor = 0;          // `all`: the index of the watched pattern
  bool too_broad = false;          // more than limits.examined_by_read tuples were examined
  std::vector<ReadWatch> watches;  // one (`all`) or one for each pattern
  ReadUse use;                     // while it waits
  std::uint64_t looks_left = 0;    // how many more patterns and tuples may be examined in vain
  Deadline deadline;
};

struct ReadGroup {
  Pattern pattern;
  IntrusiveList<ReadWatch> watches;
};

// How much a Get may still take, and what it has taken.
struct Taker {
  ClientState* client = nullptr;
  GetGroup* group = nullptr;
  std::uint64_t offer_bytes = 0;
  std::uint32_t max_count = 1;
  bool with_inputs = false;
  bool direct = false;
  std::int64_t lease_us = 0;
  bool share = false;
  std::uint64_t tuples = 0;     // that `got` names: grants and their inputs
  std::uint64_t key_bytes = 0;  // of the granted tuples, as Record::key_bytes
  Grants got;

  bool full() const { return got.grants.size() >= max_count; }
};

struct GetWaiter {
  GetWaiter() : deadline(this) {}
  RequestId id = 0;
  std::uint64_t sequence = 0;
  Taker taker;
  bool benched =
      false;  // it is not in its group's `waiters`, and ends with the bench of its client
  Deadline deadline;
};

// All Gets of one pattern, and the ready tuples that match it.
struct GetGroup {
  Pattern pattern;
  bool tasks_only = false;     // no plain tuples; see GetGroups::TakesTasksOnly
  bool whole_key = false;      // the pattern is one key
  std::string principal;       // of the client that began it
  std::uint64_t sequence = 0;  // order of creation
  std::uint64_t last_used = 0;
  Waiters waiters;
  std::size_t benched = 0;  // Gets of benched clients, which are not in `waiters`
  std::unordered_set<const ClientState*> users;  // connected clients that ever sent such a Get
  std::size_t other_users = 0;                   // of `users`, those of other principals

  NeedTree free;
  NeedTree late;
  // By holder of the affinity input, and by judge (empty: none).
  std::map<std::pair<const ClientState*, std::string>, NeedTree> preferred;
  // As `free` and `late`, for tuples that some clients may not take; by these clients.
  std::map<KeptFrom, NeedTree> free_but;
  std::map<KeptFrom, NeedTree> late_but;
};

struct Watermark {
  Pattern pattern;              // its kAtMost value is the mark
  std::uint64_t raised_at = 0;  // order of the last raising
  std::string owner = {};       // the principal whose watermarks are limited; empty: nobody
};

// How reliably a client, or all untried clients of a key together, do the tasks of one judge. The
// benches of a key are those of all its clients; they count for untried ones.
struct TrustRecord {
  bool forgiven_by_time = true;     // otherwise only good work makes up for a bench
  std::uint32_t in_vain = 0;        // consecutive tasks that were taken and not done
  std::int64_t in_vain_us = 0;      // of a key: when the last of them was
  std::uint32_t given_back = 0;     // consecutive ones that were given back, less those in in_vain
  std::uint64_t counted_fence = 0;  // older leases count as part of the last giving back
  std::uint32_t completed = 0;      // since the last bench, or one was forgiven; at most enough
  std::uint32_t offences = 0;       // benches as of `offence_us`; see OffencesOf
  std::int64_t offence_us = 0;      // when the last one began
  // Of a key: when a client last left with a task whose lease it had extended.
  std::int64_t left_us = INT64_MIN;
  std::int64_t benched_until_us = INT64_MIN;
};

// All records of a client or a key. An empty name of a judge stands for the tasks that have none.
struct TrustRecords {
  TrustRecord general;                                         // for tasks that have no judge
  std::map<std::string, TrustRecord, std::less<>> apart = {};  // by judge

  TrustRecord& Of(std::string_view judge) {
    if (judge.empty()) return general;
    const auto at = apart.find(judge);
    return at != apart.end() ? at->second : apart[std::string(judge)];
  }
  // Null: nothing is known.
  const TrustRecord* Find(std::string_view judge) const {
    if (judge.empty()) return &general;
    const auto at = apart.find(judge);
    return at != apart.end() ? &at->second : nullptr;
  }
};

// What the clients of one key did. A client is untried until it completes a task. As the owner of a
// key can make any number of untried clients, the space trusts them together like one client.
struct KeyTrust {
  std::uint64_t clients = 0;          // connected ones
  std::vector<ClientState*> untried;  // of `clients`, in the order in which they joined
  TrustRecords trust;
  // Until then untried clients get no more tasks, as one of them is on trial with the task that it
  // holds under this fence.
  std::int64_t trial_until_us = INT64_MIN;
  std::uint64_t trial_fence = 0;
};

// The members that every task needs come first, as they then share few lines of the processor's
// cache: a broker has thousands of clients.
struct ClientState {
  OwnerId id;
  KeyTrust* key = nullptr;               // null: the client has no key and is its own principal
  KeyTrust* untried_of = nullptr;        // `key`, until the client completes a task
  Judge judge;                           // of the tasks that it puts
  GetGroup* last_group = nullptr;        // of its last Get, as long as the group exists
  std::uint64_t most_offered_bytes = 0;  // the maximum of all its Gets
  std::uint64_t holds_from_bytes = 0;    // from its last Get
  std::uint32_t ns_per_kib = 0;          // likewise
  bool listens = false;                  // it serves payloads that stay with it
  IntrusiveList<Lease> leases;           // by ascending fence
  std::uint64_t lease_count = 0;         // of `leases`
  ClientLimits limits;
  TrustRecords trust{.general = {.forgiven_by_time = false}, .apart = {}};
  std::unordered_map<RequestId, GetWaiter> gets;
  std::unordered_map<const Record*, Holding> held;
  std::map<RequestId, std::unique_ptr<ReadWaiter>> reads;
  std::list<Scan> scans;  // the first one is in progress

  ReadUse read_use;  // of `reads`
  std::string principal;
  std::map<std::uint64_t, Record*> ephemerals;  // by sequence
  std::uint64_t own_payload_bytes = 0;          // of `ephemerals`
  std::int64_t supplied_us = INT64_MIN;         // when it last supplied a payload
  std::uint64_t asked_ahead_bytes = 0;          // of what stays with it: see Asked::kAhead
  std::int64_t sends_us = INT64_MIN;  // when an unfinished message of it was last arriving
  // How often the time for which tasks that name this client are reserved for it is halved, by
  // judge (empty: none), without those of 0. See NamedWaits.
  std::map<std::string, std::uint32_t, std::less<>> kept_less;
};

}  // namespace tuplespace::internal
