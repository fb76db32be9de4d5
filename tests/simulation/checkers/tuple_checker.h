// TupleChecker: which tuples must be in the space, with which bytes, and which tasks are done.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "checkers/check_context.h"
#include "world/random.h"

namespace acan::simulation {

// What all brokers of a simulation must satisfy together: in exact precision a result is a pure
// function of its key and of the run that the key begins with, whoever computes it and when.
struct Results {
  std::unordered_map<tuplespace::Key, std::uint64_t> hashes;
  bool may_differ = false;  // a handler computes wrongly
};

std::uint64_t HashOf(const tuplespace::Payload& payload);

class TupleChecker {
 public:
  // Both must outlive this object.
  TupleChecker(const CheckContext& context, Results& results)
      : context_(context), results_(results) {}

  // ---- answers of the broker --------------------------------------------------------------------
  void BeginTurn();
  // `results`: whether the tuples came with a completion. `hashes`: of the tuples' payloads.
  void OnPut(const tuplespace::ClientId& client, const std::vector<tuplespace::Tuple>& tuples,
             const std::vector<std::uint64_t>& hashes,
             const std::vector<tuplespace::PutStatus>& status, bool results);
  void OnSupply(const tuplespace::ClientId& client, const std::vector<tuplespace::Tuple>& tuples,
                const std::vector<std::uint64_t>& hashes,
                const std::vector<tuplespace::PutStatus>& status);
  void OnReleased(const tuplespace::ClientId& client, const tuplespace::Key& key);
  void OnRetired(const tuplespace::Retire& retire);
  void OnLost(const tuplespace::ClientId& client);
  void OnCompleted(const tuplespace::Key& key);  // a task or a plain tuple, which is gone
  void Gone(const tuplespace::Key& key) { there_.erase(key); }  // or may be gone
  // It is unknown whether the tuple is (still) there, because nobody heard the answer.
  void Doubt(const tuplespace::Key& key);
  void DoubtNew(const tuplespace::Key& key, std::uint64_t hash);

  // ---- queries ----------------------------------------------------------------------------------
  // A stored task, with only its lease, its exclusions, its inputs and its declared results;
  // nullptr: there is none.
  const tuplespace::TaskSpec* Task(const tuplespace::Key& key) const;
  bool IsTask(const tuplespace::Key& key) const { return tasks_.contains(key); }
  enum class Is : std::uint8_t { kGone, kInDoubt, kThere };
  Is WhatIs(const tuplespace::Key& key) const;
  bool StaysWith(const tuplespace::Key& key, const tuplespace::ClientId& client) const;
  // Whether its bytes may be with another client.
  bool MayStayWithAnother(const tuplespace::Key& key, const tuplespace::ClientId& client) const;
  bool WasCompleted(const tuplespace::Key& key) const { return completed_.contains(key); }
  bool WentInThisTurn(const tuplespace::Key& key) const;

  // ---- checks of the space ----------------------------------------------------------------------
  // A tuple that must be in the space with its bytes; nullptr: none was found.
  const tuplespace::Key* AnyTuple(Random& random) const;
  void CheckTuple(const tuplespace::Key& key, const tuplespace::FoundTuple* found) const;
  std::vector<tuplespace::Key> Tuples() const;

 private:
  struct There {
    std::uint64_t hash = 0;
    tuplespace::ClientId resident_with;  // empty: the space has its bytes
    bool in_doubt = false;               // whether it is there is unknown: nobody heard the answer
  };
  void OnStored(const tuplespace::ClientId& client, const tuplespace::Tuple& tuple,
                std::uint64_t hash, bool results);
  void OnDuplicate(const tuplespace::Tuple& tuple, std::uint64_t hash);
  void CheckQuota(const tuplespace::ClientId& client, const tuplespace::Key& key);
  void CheckResult(const tuplespace::Key& key, std::uint64_t hash);
  static bool Match(const std::vector<tuplespace::Pattern>& patterns, const tuplespace::Key& key);

  const CheckContext& context_;
  Results& results_;
  std::map<tuplespace::Key, There> there_;                 // acknowledged and not removed since
  std::map<tuplespace::Key, tuplespace::TaskSpec> tasks_;  // see Task
  std::set<tuplespace::Key> completed_;                    // tasks
  std::set<tuplespace::Key> completed_now_;                // in the current turn
  std::vector<tuplespace::Pattern> retired_now_;           // in the current turn
  std::vector<tuplespace::Pattern> watermarks_;
  std::map<tuplespace::ClientId, std::set<tuplespace::Key>> own_;  // put by clients with limits
};

}  // namespace acan::simulation
