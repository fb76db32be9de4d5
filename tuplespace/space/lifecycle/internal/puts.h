// Puts: how tuples enter the space, which clients keep copies of them, and how payloads that stayed
// with a client get here later.
#pragma once

#include <cstdint>

#include "put_checks.h"
#include "reads.h"
#include "removal.h"

namespace tuplespace::internal {

// For a task's result: the owner of the task, how long it took and how often it was taken.
struct Origin {
  OwnerId task_owner = nullptr;
  Judge judge = nullptr;  // of the task
  std::uint32_t took_us = 0;
  std::uint32_t times_taken = 0;
};

class Puts {
 public:
  Puts(SpaceState& state, LeaseTable& leases, PutChecks& checks, Reads& reads, ReadyQueue& ready,
       Holders& holders, Residency& residency, Watermarks& watermarks, Removal& removal)
      : state_(state),
        leases_(leases),
        checks_(checks),
        reads_(reads),
        ready_(ready),
        holders_(holders),
        residency_(residency),
        watermarks_(watermarks),
        removal_(removal) {}

  void Handle(ClientState& client, RequestId id, Put&& put);
  void Handle(ClientState& client, RequestId id, Hold&& hold);
  // Returns whether the client supplied a payload that stayed with it.
  bool Handle(ClientState& client, RequestId id, Supply&& supply);

  // REQUIRES: PutChecks has found no problem.
  PutStatus PutOne(ClientState& client, Tuple&& tuple, const Origin& origin);
  // The key exists already: the first put wins. Different bytes are a conflict, which the owners of
  // the tuple and of the task are told (null: there is no task).
  PutStatus PutAgain(ClientState& client, Record* record, const Tuple& tuple,
                     const OwnerId& task_owner);
  static bool SameBytes(const Record& record, const Tuple& tuple);

 private:
  bool IsRetired(const Record& record) const;  // REQUIRES: the record is not stored
  void AttachTask(const ClientState& client, Record* record, TaskSpec&& spec);
  void CountForDependents(Record* record);
  PutStatus SupplyOne(ClientState& client, Tuple&& tuple);

  SpaceState& state_;
  LeaseTable& leases_;
  PutChecks& checks_;
  Reads& reads_;
  ReadyQueue& ready_;
  Holders& holders_;
  Residency& residency_;
  Watermarks& watermarks_;
  Removal& removal_;
};

}  // namespace tuplespace::internal
