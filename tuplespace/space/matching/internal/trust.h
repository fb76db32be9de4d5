// Trust: a client that takes tasks and does not do them, while others could, gets none for a while,
// each time twice as long. It keeps what it holds and may complete that.
//
// A new id must be worth no more than an old one. So the offences of a key's clients are remembered
// for a while, and those of its clients that have not completed a task yet share one record: they
// are on probation. Clients that have, which may be honest ones with the same key, are not touched.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "benches.h"

namespace tuplespace::internal {

class Trust {
 public:
  Trust(SpaceState& state, GetGroups& groups, Benches& benches)
      : state_(state), groups_(groups), benches_(benches) {}

  // A client came with the key of this name; a client goes, with a key or without.
  void JoinKey(ClientState& client, const std::string& name);
  void LeaveKey(ClientState& client);
  // It gets one task at a time, as clients of its key were benched lately.
  bool IsOnProbation(const ClientState& client) const {
    return client.untried_of != nullptr && OffencesOf(*client.untried_of) > 0;
  }
  // How many times as long as a task asks for `client` may have it, by extending its lease, while
  // others could do it: at least once.
  std::int64_t ExtensionsOf(const ClientState& client) const;
  // `client`, which has not completed a task yet, was given `task`.
  void BeginTrial(ClientState& client, const Record& task, std::int64_t lease_us);
  // The lease of a client that is tried is over, or is about to be: the others of its key get
  // tasks.
  void EndTrialOn(const Lease& lease);
  // `client` has completed a task; or has kept one from others without doing it, which counts as
  // `weight` failures. A bench that follows lasts for `least_us` at least.
  void NoteCompleted(ClientState& client);
  void NoteInVain(ClientState& client, Record* task, std::uint32_t weight, const std::string& what,
                  std::int64_t least_us = 0);
  // `client` gives back `task`, which others could do. Leases that were granted since have
  // `next_fence` or more.
  void NoteGivenBack(ClientState& client, Record* task, std::uint64_t next_fence);
  // What stayed with a client was asked for, and it did not come; something came.
  void NoteNotSupplied(const Record& payload);
  void NoteSupplied(ClientState& client);
  // A benched client is better than nobody.
  void EndBenchesIfNobodyIsLeft();

 private:
  struct Offence {
    Key key;        // of what was kept from others
    OwnerId owner;  // who is told; null: nobody
    std::string what;
    std::int64_t least_us = 0;         // of the bench
    bool others_than_untried = false;  // somebody is there but the new clients of its key
  };

  std::uint32_t OffencesOf(const KeyTrust& key) const;
  void EndTrial(ClientState& client);
  void Bench(ClientState& client, const Offence& offence);
  std::int64_t WithoutTasksUs(const ClientState& client, std::int64_t bench_us) const;
  void NoteOffence(ClientState& client, bool others_than_untried, std::int64_t bench_us);
  template <class Accept>
  bool AnyGetsTasks(Accept accept) const;

  SpaceState& state_;
  GetGroups& groups_;
  Benches& benches_;
  std::map<std::string, KeyTrust> keys_;  // of clients that are there, and those with offences
};

}  // namespace tuplespace::internal
