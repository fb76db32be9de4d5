// Matcher: decides which client gets which tuple. A ready tuple goes to a waiting Get, or into the
// groups whose patterns match it.
#pragma once

#include <cstdint>
#include <vector>

#include "holders.h"
#include "lease_table.h"
#include "named_waits.h"
#include "ready_queue.h"
#include "residency.h"
#include "trust.h"

namespace tuplespace::internal {

class Matcher {
 public:
  Matcher(SpaceState& state, GetGroups& groups, ReadyQueue& ready, LeaseTable& leases,
          Benches& benches, Trust& trust, Residency& residency, Holders& holders)
      : state_(state),
        groups_(groups),
        ready_(ready),
        leases_(leases),
        benches_(benches),
        trust_(trust),
        residency_(residency),
        holders_(holders),
        named_waits_(state) {}

  void Match();             // places queued tuples and answers the Gets that got some
  void Fill(Taker& taker);  // with ready tuples
  void NoteJoined(ClientState& client) const { named_waits_.Begin(client); }
  // `client` is about to leave. Tuples reserved for it go to others at the end of the event.
  void LetGoOf(ClientState& client);
  bool settled() const { return answering_.empty(); }

 private:
  void Place(Record* record);
  ClientState* NamedIn(const Record& record, const Candidates& candidates) const;
  void FindCandidates(Record* record, Candidates* found) const;
  std::int64_t StealAfterUs(const TaskState& task, const Candidates& candidates) const;
  GetWaiter* BestWaiter(const Record& record, const Candidates& candidates) const;
  std::uint64_t PartOf(const Taker& taker) const;
  bool HasRoomFor(const Taker& taker, const Record& record) const;
  void NoteWhoCame(ClientState& taker, const Record& record);
  void Take(Taker& taker, Record* record);
  void FillGrant(const Taker& taker, Record* record, Grant* grant);

  SpaceState& state_;
  GetGroups& groups_;
  ReadyQueue& ready_;
  LeaseTable& leases_;
  Benches& benches_;
  Trust& trust_;
  Residency& residency_;
  Holders& holders_;
  NamedWaits named_waits_;
  std::vector<GetWaiter*> answering_;  // these have got a tuple and left their group
  Candidates candidates_;              // of the record in progress
};

}  // namespace tuplespace::internal
