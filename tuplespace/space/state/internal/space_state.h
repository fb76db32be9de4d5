// SpaceState: what all parts of one space work on: the time, the limits, the records, the clients,
// what is counted, and the answers of the event at work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "space_deadlines.h"
#include "space_records.h"
#include "space_store.h"
#include "tuplespace/messages.h"
#include "tuplespace/space_events.h"
#include "tuplespace/space_limits.h"

namespace tuplespace::internal {

using ClientTable = std::unordered_map<ClientId, std::unique_ptr<ClientState>>;

// What the event at work has to say, and to whom.
class Answers {
 public:
  Answers(const ClientTable& clients, Counters& counters)
      : clients_(clients), counters_(counters) {}

  template <class Body>
  void Answer(const ClientState& client, RequestId id, Body&& body) {
    Outgoing& out = out_.emplace_back();
    out.client = *client.id;
    auto& reply = std::get<Reply>(out.message);  // what a new Outgoing holds
    reply.id = id;
    reply.body = std::forward<Body>(body);
  }
  void Refuse(const ClientId& client, RequestId id, RequestError error);
  void Notify(const OwnerId& owner, Notice notice);  // if it is there

  void Clear() { out_.clear(); }
  std::span<Outgoing> all() { return out_; }

 private:
  const ClientTable& clients_;
  Counters& counters_;
  std::vector<Outgoing> out_;
};

struct SpaceState {
  explicit SpaceState(SpaceLimits space_limits)
      : limits(space_limits), answers(clients, counters) {}
  SpaceState(const SpaceState&) = delete;
  SpaceState& operator=(const SpaceState&) = delete;

  std::int64_t After(std::int64_t duration_us) const;  // kForeverUs if it is beyond
  void SetState(Record* record, RecordState state);    // and counts it
  FoundTuple Copy(const Record& record, bool metadata_only);
  // Without the payload and what is said of it: for a taker that has it, or gets it another way.
  FoundTuple Mention(const Record& record) const;
  // Of a payload that its maker has and serves. The place is empty: the broker knows it.
  FoundTuple CopyPlaced(const Record& record);
  std::uint64_t MostOfRequest(const ClientState& client) const {
    return std::min(limits.tuples_per_request, client.limits.per_request);
  }
  std::optional<RequestError> CheckRoomForOpenRequest(const ClientState& client) const;

  const SpaceLimits limits;
  std::int64_t now_us = INT64_MIN;
  std::uint64_t next_sequence = 1;
  Counters counters;
  Stats gauges;  // the gauges that are counted along; its counters are not used
  Store store;
  DeadlineHeap deadlines;
  ClientTable clients;
  Answers answers;
};

}  // namespace tuplespace::internal
