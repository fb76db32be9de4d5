// The state and the rules of a Space. One event at a time: the handlers below change the state and
// queue what became possible (`fresh_`, `unplaced_`); Settle then wakes the readers and gives
// takable tuples to waiting Gets, so that a batch counts as one change.
//
// The definitions lie by concept: space.cpp (events, clients), space_put.cpp, space_read.cpp,
// space_scan.cpp (Lists and Counts), space_get.cpp (Gets and their groups), space_match.cpp (who
// gets what), space_lease.cpp (how leases end), space_trust.cpp (who gets no tasks for a while),
// space_stay.cpp (payloads that stay with clients), space_retire.cpp, space_check.cpp (invariants).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "space_deadlines.h"
#include "space_pattern_index.h"
#include "space_records.h"
#include "space_store.h"
#include "tuplespace/space.h"

namespace tuplespace {

struct Space::Impl {
 public:
  Impl(SpaceLimits space_limits, std::uint64_t first_fence)
      : limits_(space_limits), next_fence_(first_fence) {}
  ~Impl();

  std::span<Outgoing> Step(Event&& event, std::int64_t now_us);
  std::int64_t NextDeadlineUs() const;
  Stats GetStatistics() const;
  const SpaceLimits& limits() const { return limits_; }
  std::optional<std::string> FindContradiction() const;

 private:
  using Client = internal::Client;
  using GetGroup = internal::GetGroup;
  using GetWaiter = internal::GetWaiter;
  using InputLink = internal::InputLink;
  using KeyTrust = internal::KeyTrust;
  using Placement = internal::Placement;
  using ReadWaiter = internal::ReadWaiter;
  using Record = internal::Record;
  using RecordState = internal::RecordState;
  using TakeEntry = internal::TakeEntry;
  using Taker = internal::Taker;

  // ---- events and answers (space.cpp) ----------------------------------------------------------
  void OnEvent(ClientJoined&& event);
  void OnEvent(ClientLost&& event);
  void OnEvent(Incoming&& event);
  void OnEvent(Tick&&) { ScanOn(); }
  void ExpireDue();
  void Settle();
  template <class Body>
  void Answer(const Client& client, RequestId id, Body&& body) {
    Outgoing& out = out_.emplace_back();
    out.client = *client.id;
    auto& reply = std::get<Reply>(out.message);  // what a new Outgoing holds
    reply.id = id;
    reply.body = std::forward<Body>(body);
  }
  void Refuse(const ClientId& client, RequestId id, Error error);
  void Notify(const internal::OwnerId& owner, Notice notice);
  void ForgetOpenRequests(Client& client);
  std::optional<Error> CheckRoomForOpenRequest(const Client& client) const;
  std::int64_t After(std::int64_t duration_us) const;
  void SetState(Record* record, RecordState state);
  std::uint64_t* GaugeOf(RecordState state);

  // Every request has one: answers, or refuses and changes nothing.
  void Handle(Client& client, RequestId id, Put&& put);
  void Handle(Client& client, RequestId id, Read&& read);
  void Handle(Client& client, RequestId id, List&& list);
  void Handle(Client& client, RequestId id, Count&& count);
  void Handle(Client& client, RequestId id, Get&& get);
  void Handle(Client& client, RequestId id, Complete&& complete);
  void Handle(Client& client, RequestId id, Extend&& extend);
  void Handle(Client& client, RequestId id, Store&& store);
  void Handle(Client& client, RequestId id, Fail&& fail);
  void Handle(Client& client, RequestId id, Retire&& retire);
  void Handle(Client& client, RequestId id, Hold&& hold);
  void Handle(Client& client, RequestId id, Cancel&& cancel);
  void Handle(Client& client, RequestId id, GetStats&& stats);
  void Handle(Client& client, RequestId id, Supply&& supply);

  // ---- puts and holds (space_put.cpp) ----------------------------------------------------------
  // Of a task's results: who put the task, how long it took and how often it was taken.
  struct Origin {
    internal::OwnerId task_owner = nullptr;
    std::uint32_t took_us = 0;
    std::uint32_t times_taken = 0;
  };
  std::optional<Error> ProblemOf(const Client& client, std::span<const Tuple> tuples) const;
  std::optional<Error> ProblemOf(const Tuple& tuple) const;
  std::optional<Error> CheckRoom(std::span<const Tuple> tuples, std::uint64_t freed_bytes) const;
  static std::optional<Error> CheckQuota(const Client& client, std::span<const Tuple> tuples);
  PutStatus PutOne(Client& client, Tuple&& tuple, const Origin& origin);
  static bool SameBytes(const Record& record, const Tuple& tuple);
  PutStatus PutAgain(Client& client, Record* record, const Tuple& tuple,
                     const internal::OwnerId& task_owner);
  void AttachTask(Record* record, TaskSpec&& spec);
  void AddHolder(Client& client, Record* record, bool always = false);
  void RemoveHolder(Client& client, Record* record);

  // ---- payloads that stay with a client (space_stay.cpp)
  // -----------------------------------------
  void BeginStay(Client& client, Record* record, std::uint64_t bytes, const Origin& origin);
  PutStatus PutBesideStay(const Client& client, const Record& record, const Tuple& tuple);
  std::optional<Error> ProblemOf(const Client& client, const Supply& supply) const;
  PutStatus SupplyOne(Client& client, Tuple&& tuple);
  void Want(Record* record);
  void EndStay(Record* record);
  void DropStay(Record* record);
  void LoseStaysOf(const Client& client);
  void SupplyIsDue(Record* record);

  // ---- reads (space_read.cpp) ------------------------------------------------------------------
  // Null: there is none, or none is readable; then one that stays elsewhere was asked for.
  // `look_at` goes down by the tuples that were looked at; if it is 0, the search was not ended.
  Record* FindFirst(const internal::WantedPattern& wanted, const ReadWaiter& waiter,
                    std::uint64_t* look_at);
  std::optional<Error> CheckRoomForRead(const Client& client, const ReadWaiter& waiter) const;
  void RefuseBroad(const ReadWaiter& waiter);
  FoundTuple Copy(const Record& record, bool metadata_only);
  bool IsSatisfied(ReadWaiter& waiter);  // all: moves the cursor to a pattern without a match
  Found Collect(const ReadWaiter& waiter);
  static bool Readable(const Record& record, const ReadWaiter& waiter);
  void Watch(ReadWaiter& waiter);
  void Unwatch(ReadWaiter& waiter);
  void WakeReaders();
  void EndRead(ReadWaiter* waiter, bool timed_out);  // answers and destroys it
  void ForgetRead(ReadWaiter* waiter);               // destroys it

  // ---- lists and counts (space_scan.cpp) -------------------------------------------------------
  void BeginScan(Client& client, internal::Scan&& scan);
  bool ScanSlice(internal::Scan& scan, std::uint64_t most);  // true: it is at its end
  void AnswerScan(const Client& client, internal::Scan&& scan);
  void ScanOn();
  std::uint64_t MostOfRequest(const Client& client) const {
    return std::min(limits_.tuples_per_request, client.limits.per_request);
  }

  // ---- gets (space_get.cpp) --------------------------------------------------------------------
  std::optional<Error> ProblemOf(const Client& client, const Get& get) const;  // but its pattern
  std::optional<std::uint64_t> EndReplaced(Client& client, RequestId id);
  GetGroup* FindOrMakeGroup(const Pattern& pattern);  // null: limits.get_patterns are in use
  void MakeUser(const Client& client, GetGroup* group);
  bool EvictIdleGroup();
  void EraseGroup(GetGroup* group);
  void StartWaiting(Client& client, RequestId id, const Get& get, Taker taker,
                    std::uint64_t sequence);
  void EndGet(GetWaiter* waiter);  // answers with what it has got, and destroys it

  // ---- matching (space_match.cpp) --------------------------------------------------------------
  struct Candidates {
    std::vector<GetGroup*> groups;  // whose pattern matches
    std::vector<Client*> holders;   // of the affinity input, that use one of these groups

    bool Contains(const GetGroup* group) const {
      return std::find(groups.begin(), groups.end(), group) != groups.end();
    }
  };
  void MakeTakable(Record* record);
  void QueueForPlacing(Record* record);
  void Requeue(Record* record);  // something that decides its placement has changed
  void RequeueAffine(Record* input);
  void Place(Record* record);
  void Unplace(Record* record);
  void FindCandidates(Record* record, Candidates* found) const;
  GetWaiter* BestWaiter(const Record& record, const Candidates& candidates) const;
  void Enter(Record* record, const Candidates& candidates);
  void AddEntry(Record* record, GetGroup* group, internal::NeedTree* tree);
  void DropEntry(TakeEntry* entry);
  void Match();
  Record* NextFor(const Taker& taker) const;
  void Take(Taker& taker, Record* record);
  std::uint64_t PartOf(const Taker& taker) const;
  void Fill(Taker& taker);
  void FillGrant(const Taker& taker, Record* record, Grant* grant);

  // ---- leases (space_lease.cpp) ----------------------------------------------------------------
  std::int64_t OrDefaultLease(std::int64_t lease_us) const;
  std::int64_t LongestLeaseUs(const internal::TaskState& task) const;
  std::int64_t LeaseUs(const internal::TaskState& task) const;
  Record* FindLeased(const Client& client, const LeaseRef& lease);  // null: stale, counted
  void CompleteTask(Client& client, RequestId id, Complete&& complete, Record* task,
                    std::int64_t granted_us, LeaseStatus status);
  void CompleteTooLate(Client& client, RequestId id, Complete&& complete, Record* record);
  PutStatus CompareLate(Client& client, const Record* task, const Tuple& result);
  static std::optional<std::string> FalseResults(const internal::TaskState& task,
                                                 std::span<const Tuple> results);
  void RememberOthers(const Client& client, Record* task, std::uint64_t fence) const;
  std::int64_t LastEndUs(const Record& record) const;
  void FailTask(Client& client, Record* record, std::string cause);
  void DropLease(Record* record);
  std::optional<std::int64_t> LateLease(const Client& client, const Record* record,
                                        std::uint64_t fence) const;
  void LoseLease(Record* record) const;
  void ReturnLease(Record* record);  // the lease ends, the tuple stays
  void EndExpired(Record* record);
  void AddBarred(internal::TaskState& task, const Client& client) const;
  void BarUntilOthersTried(Record* record, const Client& client);
  enum class When : bool { kNow, kSomeDay };  // some day: benches end
  bool AnotherCouldTake(const Record& record, const Client* but = nullptr,
                        When when = When::kNow) const;
  // As AnotherCouldTake, but for all untried clients of `key`.
  bool OthersThanUntriedCouldTake(const Record& record, const KeyTrust& key) const;
  template <class Accept>
  bool AnyUserCouldTake(const Record& record, Accept accept) const;
  static internal::Mishaps& MishapsOf(internal::TaskState& task);
  bool Doubles(const Client& holder, internal::TaskState& task) const;
  bool IsHopeless(const Record& record, const Client& by, const std::string& cause);
  void Park(Record* record, Notice::Kind kind, const ClientId& by, std::string text);
  void Orphan(Record* task, const Key& input);
  void UnlinkInputs(Record* task);

  // ---- trust (space_trust.cpp) -----------------------------------------------------------------
  static std::int64_t BenchEndUs(const Client& client) {
    const KeyTrust* key = client.untried_of;
    if (key == nullptr) return client.trust.benched_until_us;
    return std::max({client.trust.benched_until_us, key->benched_until_us, key->trial_until_us});
  }
  bool IsBenched(const Client& client) const { return now_us_ < BenchEndUs(client); }
  void JoinKey(Client& client, const std::string& name);
  void LeaveKey(Client& client);
  std::uint32_t OffencesOf(const KeyTrust& key) const;
  bool IsOnProbation(const Client& client) const {
    return client.untried_of != nullptr && OffencesOf(*client.untried_of) > 0;
  }
  void BeginTrial(Client& client, const Record& task, std::int64_t lease_us);
  void EndTrial(Client& client);
  void BenchUntried(const KeyTrust& key);
  void EndGetsOf(Client& client);
  void NoteCompleted(Client& client);
  void NoteInVain(Client& client, Record* task, std::uint32_t weight, const std::string& what,
                  std::int64_t least_us = 0);
  void Bench(Client& client, const Record& task, const std::string& what, std::int64_t least_us);
  std::int64_t BenchUs(std::uint32_t times, std::int64_t least_us) const;
  void NoteOffence(Client& client, const Record& task, std::int64_t bench_us);
  void PutOnBench(GetWaiter& waiter);
  void LeaveGroup(GetWaiter& waiter);
  void EndBenchesIfNobodyIsLeft();

  // ---- removal (space_retire.cpp) --------------------------------------------------------------
  bool IsRetired(const Key& key) const;
  std::optional<Error> ProblemOf(const Retire& retire) const;
  void RaiseWatermark(const Pattern& pattern);
  std::uint64_t RemoveMatching(const Retire& retire);
  void Remove(Record* record, bool remember);

  // ---- invariants (space_check.cpp) ------------------------------------------------------------
  std::optional<std::string> Contradiction(const Record& record) const;

  SpaceLimits limits_;
  std::int64_t now_us_ = INT64_MIN;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_fence_;
  Counters counters_;
  Stats gauges_;  // the gauges that are counted along; its counters are not used

  internal::Store store_;
  internal::DeadlineHeap deadlines_;
  std::unordered_map<ClientId, std::unique_ptr<Client>> clients_;
  std::map<std::string, KeyTrust> keys_;  // of clients that are there, and those with offences
  internal::PatternIndex<internal::Watermark> watermarks_;
  std::map<std::uint64_t, internal::Watermark*> watermarks_by_age_;  // by raised_at
  internal::PatternIndex<internal::ReadGroup> read_groups_;
  internal::PatternIndex<GetGroup> get_groups_;
  std::map<std::uint64_t, GetGroup*> groups_by_age_;

  std::deque<Client*> scanning_;       // that have scans, in their turn
  std::vector<Record*> fresh_;         // stored by this event; pinned
  std::vector<Record*> unplaced_;      // takable, not yet placed; pinned
  std::vector<GetWaiter*> answering_;  // have got a tuple; out of their group
  Candidates candidates_;              // of the record that is being placed
  std::vector<Outgoing> out_;          // of the last event
};

}  // namespace tuplespace
