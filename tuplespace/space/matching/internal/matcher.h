// Matcher: who gets what. A ready tuple goes to a Get that waits for it, or is entered into the
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

  void Match();             // places what is queued, and answers the Gets that got something
  void Fill(Taker& taker);  // with what is ready
  void NoteJoined(ClientState& client) const { named_waits_.Begin(client); }
  // `client` is about to go: what is kept for it is for others at the event's end.
  void LetGoOf(ClientState& client);
  bool settled() const { return answering_.empty(); }

 private:
  void Place(Record* record);
  ClientState* NamedIn(const TaskSpec& spec, const Candidates& candidates) const;
  void FindCandidates(Record* record, Candidates* found) const;
  std::int64_t StealAfterUs(const TaskState& task, const Candidates& candidates) const;
  GetWaiter* BestWaiter(const Record& record, const Candidates& candidates) const;
  std::uint64_t PartOf(const Taker& taker) const;
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
  std::vector<GetWaiter*> answering_;  // have got a tuple; out of their group
  Candidates candidates_;              // of the record that is being placed
};

}  // namespace tuplespace::internal
