// SpaceState: what all parts of one space share: the time, the limits, the records, the clients,
// the counters, and the answers of the current event.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "space_deadlines.h"
#include "space_key_hash.h"
#include "space_records.h"
#include "space_store.h"
#include "tuplespace/messages.h"
#include "tuplespace/space_events.h"
#include "tuplespace/space_limits.h"

namespace tuplespace::internal {

using ClientTable = std::unordered_map<ClientId, std::unique_ptr<ClientState>>;

// The different lists of clients that may not take tasks of each judge, without the empty one.
class Exclusions {
 public:
  using List = std::vector<ClientId>;  // sorted, without duplicates

  void Add(const std::string& judge, const List& list);
  void Remove(const std::string& judge, const List& list);  // REQUIRES: it was added
  std::size_t CountOf(const std::string& judge) const;
  bool Has(const std::string& judge, const List& list) const;

  friend bool operator==(const Exclusions&, const Exclusions&) = default;

 private:
  std::map<std::string, std::map<List, std::uint64_t>> tasks_;  // how many, by judge and list
};

// The tuples that go with the clients that put them, by key (principal): how many the clients of
// each have.
class OwnTuples {
 public:
  struct Use {
    std::uint64_t tuples = 0;
    std::uint64_t payload_bytes = 0;

    friend bool operator==(const Use&, const Use&) = default;
  };

  void Add(const std::string& principal, std::uint64_t payload_bytes);
  void Remove(const std::string& principal, std::uint64_t payload_bytes);  // REQUIRES: it was added
  Use Of(const std::string& principal) const;

  friend bool operator==(const OwnTuples&, const OwnTuples&) = default;

 private:
  std::unordered_map<std::string, Use> of_keys_;  // without those that have none
};

// The messages that the current event produces, and their receivers.
class Answers {
 public:
  Answers(const ClientTable& clients, Counters& counters)
      : clients_(clients), counters_(counters) {}

  template <class Body>
  void Answer(const ClientState& client, RequestId id, Body&& body) {
    Outgoing& out = out_.emplace_back();
    out.client = *client.id;
    auto& reply = std::get<Reply>(out.message);  // the default content of a new Outgoing
    reply.id = id;
    reply.body = std::forward<Body>(body);
  }
  [[gnu::cold]] void Refuse(const ClientId& client, RequestId id, RequestError error);
  void Notify(const OwnerId& owner, Notice notice);  // if the owner is connected

  void Clear() { out_.clear(); }
  std::span<Outgoing> all() { return out_; }

 private:
  const ClientTable& clients_;
  Counters& counters_;
  std::vector<Outgoing> out_;
};

struct SpaceState {
  SpaceState(SpaceLimits space_limits, std::uint64_t key_secret)
      : limits(space_limits), key_hash(key_secret), store(key_hash), answers(clients, counters) {}
  SpaceState(const SpaceState&) = delete;
  SpaceState& operator=(const SpaceState&) = delete;

  std::int64_t After(std::int64_t duration_us) const;  // kForeverUs if it overflows
  void SetState(Record* record, RecordState state);    // and updates the counts
  // Updates what the record's keys count as payload bytes, after its task or state has changed.
  void CountKeys(Record* record);
  // These three fill a new FoundTuple where it belongs, as moving one takes long.
  void Copy(const Record& record, bool metadata_only, FoundTuple* found);
  // Without payload and without what belongs to it, for a taker that has the payload or gets it
  // elsewhere.
  static void Mention(const Record& record, FoundTuple* found);
  // For a payload that its maker has and serves. The place stays empty, as only the broker knows
  // it.
  void CopyPlaced(const Record& record, FoundTuple* found);
  std::uint64_t MostOfRequest(const ClientState& client) const {
    return std::min(limits.tuples_per_request, client.limits.per_request);
  }
  std::optional<RequestError> CheckRoomForOpenRequest(const ClientState& client) const;

  const SpaceLimits limits;
  const KeyHash key_hash;
  std::int64_t now_us = INT64_MIN;
  std::uint64_t next_sequence = 1;
  Counters counters;
  Stats gauges;  // only the gauges that are kept up to date; its counters are not used
  Store store;
  DeadlineHeap deadlines;
  ClientTable clients;
  Answers answers;
  Exclusions exclusions;  // TaskSpec::not_by
  Exclusions barred;      // of the tasks that are placed as Placement::kBarred
  OwnTuples own_tuples;
};

}  // namespace tuplespace::internal
