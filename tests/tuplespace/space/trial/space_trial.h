// Trial: random events for a space and for its model. After every event, the replies, the
// statistics and the space's own invariants must agree with the model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "space_driver.h"
#include "space_model.h"

namespace tuplespace::testing {

class Trial {
 public:
  // The hashes of keys depend on the seed, too: the model does not know them.
  explicit Trial(std::uint64_t seed) : random_(seed), d_(Limits(), seed) {
    for (const ClientId& client : kClients) JoinOne(client);
  }

  // Runs one random event.
  void Step();

  // After enough time every reservation has ended. Then no Get may wait although a tuple that it
  // could take is ready.
  void CheckNobodyStarves();

  // After all wanted payloads were supplied, no reader may wait for a tuple that is there.
  void CheckWhoAsksGetsTheBytes();

  // A client that joins then and asks for all tasks must get all, whichever client they were kept
  // for.
  void CheckALateComerGetsAll();
  // True if a lease expired only recently, since a holder of the task's inputs still has
  // precedence.
  bool MayBeReserved(const ModelTuple& tuple) const {
    return d_.now_us < tuple.lease_end_us + Limits().steal_after_us;
  }

  // Events that the space's own counters do not show.
  struct Counts {
    std::uint64_t late = 0;  // tasks completed under a lost lease
    std::uint64_t false_completions = 0;
    std::uint64_t grants_kept_from_some = 0;
    std::uint64_t supplied = 0;
    std::uint64_t released = 0;
    std::uint64_t told = 0;          // notices of lost results
    std::uint64_t placed_twice = 0;  // places of payloads that are also in the space
  };
  const Counts& counts() const { return counts_; }
  Counters counters() const { return d_.counters(); }

 private:
  static SpaceLimits Limits();

  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  // One of eight is so long that it counts as payload.
  Key AnyKey();
  Pattern AnyPattern();
  Tuple AnyTuple();

  static Tuple Resident(Key key);

  void JoinOne(const ClientId& client);
  void LoseOne(const ClientId& client);
  RequestId Send(const ClientId& client, RequestBody body) {
    const RequestId id = d_.Send(client, std::move(body));
    return id;
  }
  template <typename T>
  T Ask(const ClientId& client, RequestBody body) {
    return AskThen<T>(client, std::move(body), [] {});
  }
  // `follow` updates the model after the space has got the request.
  template <typename T, typename Follow>
  T AskThen(const ClientId& client, RequestBody body, Follow follow) {
    parked_ = d_.counters().parked;
    const RequestId id = Send(client, std::move(body));
    follow();
    T reply = d_.Expect<T>(client, id);
    Absorb();
    return reply;
  }

  std::optional<LeaseRef> SometimesALease();
  void PutSome(const ClientId& client);
  void GetSome(const ClientId& client);
  void CompleteOne(const ClientId& client);
  // Mostly the declared results.
  std::vector<Tuple> ResultsFor(const LeaseRef& lease);
  // Call this after the space has got the failure, since only the space knows whether other clients
  // could take the task.
  void FailInModel(const ClientId& client, ModelTuple& tuple);
  void EndOne(const ClientId& client);
  void RetireSome(const ClientId& client);
  void SupplySome(const ClientId& client);
  void Supplies(const ClientId& client, const Key& key);
  void HoldSome(const ClientId& client) {
    if (!joined_.contains(client)) return;
    const Hold hold{{AnyKey(), AnyKey()}, {AnyKey()}};
    model_.HoldSome(client, hold);
    Ask<Ok>(client, hold);
  }
  // Whether `reader`, which asks for places, gets the tuple's place; nullopt: only the space knows.
  std::optional<bool> IsPlaced(const ModelTuple& tuple, const ClientId& reader) const {
    if (tuple.put_by == reader || !listening_.contains(tuple.put_by)) return false;
    return tuple.maker_holds;
  }
  void ReadSome(const ClientId& client);
  void CancelOne(const ClientId& client);
  void Pass(std::int64_t duration_us);
  void ListAll(const ClientId& client);

  // Applies unsolicited grants and replies to the model, and then compares everything.
  void Absorb();
  void AbsorbNotice(const ClientId& client, const Notice& notice);
  void AbsorbRead(const ClientId& client, RequestId id, const Found& found);
  void AbsorbPlaced(const ClientId& client, const FoundTuple& found, const ModelTuple& tuple);
  struct NewGrant {
    ClientId client;
    RequestId id;
    Grant grant;
  };
  void AbsorbGrant(const NewGrant& given);
  void CompareStatistics();

  static constexpr std::uint64_t kResidentBytes = 4;
  inline static const std::vector<ClientId> kClients = {"a", "k/b", "k/c", "m"};

  std::mt19937_64 random_;
  SpaceDriver d_;
  Model model_;
  std::set<ClientId> joined_;
  std::set<ClientId> listening_;
  std::int64_t base_ = 0;
  std::map<std::pair<ClientId, RequestId>, Get> open_gets_;
  std::map<std::pair<ClientId, RequestId>, Read> open_reads_;
  std::vector<std::pair<ClientId, LeaseRef>> leases_;
  std::uint64_t last_fence_ = 0;
  std::uint64_t parked_ = 0;  // before the current request
  Counts counts_;
  std::map<Key, ClientId> wanted_;  // and neither supplied nor gone since
  std::vector<NewGrant> new_grants_;
  std::vector<std::pair<ClientId, RequestId>> closed_gets_;
};

}  // namespace tuplespace::testing
