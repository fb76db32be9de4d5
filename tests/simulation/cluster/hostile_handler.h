// HostileHandler: a client with a handler's key that wants to do harm. It sends well-formed
// requests with any fields: keys and fences that it has seen, that it holds, and that never
// existed.
//
// It computes nothing. A result with the right key and wrong bytes counts if nobody else has
// computed it, and only audits help against that. So it puts such results only if every result is
// audited. In half of the seeds no two of its clients put the same wrong bytes. In the others its
// clients agree about many results, whichever of them makes the result and whichever checks it.
//
// Results that it claims to keep need no such care: if it does not lie, it never supplies them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "access_list.h"
#include "checkers/observer.h"
#include "cluster/hostile_habits.h"
#include "envelope.h"
#include "world/random.h"

namespace acan::simulation {

inline constexpr const char* kHostileName = "evil";

class HostileHandler {
 public:
  // `lies`: it completes tasks with all their results and wrong bytes in them.
  HostileHandler(std::uint64_t seed, bool lies);

  // The entry of its key.
  const tuplespace::AccessList::Entry& who() const { return *who_; }
  static bool Is(const tuplespace::ClientId& client);
  std::string Describe() const;  // when it acts, and how often it does each deed

  // As HostileHabits.
  std::int64_t NextDelayUs() { return habits_.NextDelayUs(random_); }
  bool Joins() { return habits_.Joins(random_); }

  // A new broker starts, which knows none of its sessions.
  void OnBroker();
  // Remembers keys, leases and results of other clients' requests.
  void Overhear(const tuplespace::Request& request);
  void OnAnswer(const tuplespace::ClientId& client, const tuplespace::ToClient& envelope);

  struct Said {
    tuplespace::ClientId client;
    tuplespace::ToBroker envelope;
    std::string what;  // for the history
  };
  Said Say(const Observer& observer);

 private:
  void DrawFields(Random random);

  void Do(HostileDeed deed, const Observer& observer, Said* said);
  void Ask(Said* said, tuplespace::RequestBody body);
  // Sets the fields that only some seeds set.
  void SetFields(tuplespace::Get* get);
  void SetFields(tuplespace::Read* read);
  void SetFields(tuplespace::TaskSpec* task);
  std::optional<tuplespace::LeaseRef> AnyUnder();
  void NoteKept(const tuplespace::Key& result, std::uint64_t bytes);
  tuplespace::Supply AnySupply();
  tuplespace::RequestBody AnyGet();
  tuplespace::RequestBody AnyBorrowing(const tuplespace::ClientId& client);
  tuplespace::RequestBody AnyRead();
  tuplespace::RequestBody AnyListOrCount();
  tuplespace::RequestBody AnyHold();
  tuplespace::Tuple Capacity(const tuplespace::ClientId& client);
  tuplespace::Tuple Report(const tuplespace::ClientId& client);
  tuplespace::Tuple AnyTuple();
  tuplespace::Payload AnyPayload();
  tuplespace::Key AnyKey();
  tuplespace::Pattern AnyPattern();
  tuplespace::LeaseRef AnyLease(const std::vector<tuplespace::LeaseRef>& known);
  tuplespace::LeaseRef FreshLease(const tuplespace::ClientId& client);
  std::int64_t AnyDuration();
  std::uint64_t AnyCount();
  tuplespace::Complete AnyCompletion(const tuplespace::LeaseRef& lease, const Observer& observer);
  tuplespace::Complete AnyLie(const tuplespace::LeaseRef& lease, const Observer& observer);
  tuplespace::Complete AnyKeeping(const tuplespace::LeaseRef& lease, const Observer& observer);
  tuplespace::Payload WrongBytes(const tuplespace::Key& result);
  // What all its clients say if they agree; nullopt: they do not agree about this task.
  std::optional<tuplespace::Complete> AgreedLie(const tuplespace::LeaseRef& lease,
                                                const tuplespace::TaskSpec& task) const;
  std::string BytesLike(const tuplespace::Key& result);
  template <class Value>
  void Remember(std::vector<Value>* values, const Value& value);

  // What it was told and what it has overheard.
  struct Known {
    std::vector<tuplespace::Key> keys;
    std::vector<tuplespace::LeaseRef> own_leases;  // held now or before
    // Leases by client, without those that it has failed or lied about.
    std::vector<std::pair<tuplespace::ClientId, tuplespace::LeaseRef>> fresh_leases;
    std::map<tuplespace::ClientId, tuplespace::LeaseRef> turns;            // to measure the link
    std::vector<tuplespace::LeaseRef> leases;                              // of others
    std::vector<std::pair<tuplespace::Key, tuplespace::Payload>> results;  // of others
    // Results that it has kept last, and the sizes that it claimed. Only with `fields_`.
    std::vector<std::pair<tuplespace::Key, std::uint64_t>> kept;
  };

  Random random_;
  const HostileHabits habits_;
  std::optional<Random> fields_;  // draws the fields that only some seeds set, if this one does
  tuplespace::AccessList access_;
  const tuplespace::AccessList::Entry* who_;
  std::set<std::uint64_t> listens_in_;  // the sessions in which it has said that it listens
  std::map<tuplespace::ClientId, std::uint64_t> sessions_;
  std::uint64_t nonce_ = 0;
  tuplespace::RequestId next_request_ = 1;
  Known known_;
  std::set<std::string> lies_told_;
};

}  // namespace acan::simulation
