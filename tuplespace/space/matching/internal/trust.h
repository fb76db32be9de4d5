// Trust: a client that takes tasks and does not do them, although others could, gets no tasks for a
// while, each time twice as long. It keeps the tasks that it holds and may complete them.
//
// A new id must not be better than an old one. So the space remembers the offences of a key's
// clients for a while. Clients of a key that have not completed a task yet share one record; they
// are on probation while the key has offences. Clients that have completed a task may be honest
// users of the same key and are not affected.
//
// Tasks of a client that judges apart (ClientLimits::judges_apart) have records of their own, by
// the name of that client's key: who fails them gets none of these for a while, and all others. An
// empty `judge` stands for all tasks that are not judged apart.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "benches.h"
#include "space_key_offences.h"

namespace tuplespace::internal {

class Trust {
 public:
  Trust(SpaceState& state, GetGroups& groups, Benches& benches)
      : state_(state), groups_(groups), benches_(benches) {}

  // A client with the key of this name joins; a client, with or without a key, leaves.
  void JoinKey(ClientState& client, const std::string& name);
  void LeaveKey(ClientState& client);
  // Whether the client gets only one task of this judge at a time because clients of its key were
  // benched for such tasks recently. On probation for tasks without a judge, it gets only one task
  // of any kind at a time.
  bool IsOnProbation(const ClientState& client, std::string_view judge = {}) const;
  // How many times the task's lease `client` may hold `task` by extending it, if others could do
  // the task. At least 1.
  std::int64_t ExtensionsOf(const ClientState& client, const Record& task) const;
  // `client`, which has not completed a task yet, got `task`, which has no judge.
  void BeginTrial(ClientState& client, const Record& task, std::int64_t lease_us);
  // The lease of a client on trial is over or about to be, so the other clients of its key get
  // tasks.
  void EndTrialOn(const Lease& lease);
  // NoteCompleted: `client` has completed `task`. NoteInVain: `client` has kept a task from others
  // without doing it, which counts as `weight` failures. A resulting bench lasts at least
  // `least_us`.
  void NoteCompleted(ClientState& client, const Record& task);
  void NoteInVain(ClientState& client, Record* task, std::uint32_t weight, const std::string& what,
                  std::int64_t least_us = 0);
  // `client` gives back `task`, which others could do. Leases granted after the giving back have
  // fences of at least `next_fence`.
  void NoteGivenBack(ClientState& client, Record* task, std::uint64_t next_fence);
  // `client` leaves with `task`, which it has kept from others.
  void NoteLeft(ClientState& client, Record* task);
  // NoteNotSupplied: a client was asked for a payload that stays with it and did not supply it.
  // NoteSupplied: it supplied one.
  void NoteNotSupplied(const Record& payload);
  void NoteSupplied(ClientState& client);
  // If no other client is left, benched clients get tasks again.
  void EndBenchesIfNobodyIsLeft();

 private:
  struct Offence {
    Key key;        // the tuple that was kept from others
    OwnerId owner;  // gets the notice; null: nobody
    std::string what;
    std::int64_t least_us = 0;         // minimum length of the bench
    bool others_than_untried = false;  // others than the new clients of its key could take tasks
  };

  // Counts the giving back, and returns whether it is one too many.
  bool GivesBackTooOften(ClientState& client, const Record& task, std::uint64_t next_fence);

  void EndTrial(ClientState& client);
  void TakeOver(TrustRecord& own, TrustRecord& of_key) const;
  void Bench(ClientState& client, std::string_view judge, const Offence& offence);
  std::int64_t WithoutTasksUs(const ClientState& client, std::string_view judge,
                              std::int64_t bench_us) const;
  void NoteOffence(ClientState& client, std::string_view judge, bool others_than_untried,
                   std::int64_t bench_us);
  void EndBenchIfNobodyIsLeft(std::string_view judge);
  template <class Accept>
  bool AnyGetsTasks(Accept accept) const;

  SpaceState& state_;
  GetGroups& groups_;
  Benches& benches_;
  std::map<std::string, KeyTrust> keys_;  // of connected clients, and keys with offences
};

}  // namespace tuplespace::internal
