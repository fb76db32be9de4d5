// LeaseEnds: extends leases, and ends them without completion: released, failed, expired, or lost
// with the client. Also decides what becomes of a task that fails repeatedly.
#pragma once

#include <string>

#include "removal.h"
#include "trust.h"

namespace tuplespace::internal {

class LeaseEnds {
 public:
  LeaseEnds(SpaceState& state, LeaseTable& leases, ReadyQueue& ready, Benches& benches,
            Trust& trust, Removal& removal)
      : state_(state),
        leases_(leases),
        ready_(ready),
        benches_(benches),
        trust_(trust),
        removal_(removal) {}

  void Handle(ClientState& client, RequestId id, Extend&& extend);
  void Handle(ClientState& client, RequestId id, Release&& release);
  void Handle(ClientState& client, RequestId id, Fail&& fail);

  // `client` holds the task. The task goes to other clients, or is parked if it is hopeless.
  void FailTask(ClientState& client, Record* record, std::string cause);
  // `client` never learns of this lease.
  void TakeBack(const ClientState& client, const LeaseRef& lease);
  void EndExpired(Record* record);        // its lease has run out
  void ReturnAllOf(ClientState& client);  // the client is lost

 private:
  bool MayBeFetching(const Record& record, const ClientState& holder) const;
  std::int64_t ExtendedEndUs(const ClientState& holder, const Record& record,
                             std::int64_t lease_us) const;
  // Ends the lease. The tuple stays, except a task whose key has ended.
  void Return(Record* record);
  bool IsHopeless(const Record& record, const ClientState& by, const std::string& cause);
  void AddBarred(TaskState& task, const ClientState& client) const;
  void BarUntilOthersTried(Record* record, const ClientState& client);
  bool HasRoomToBar(const TaskState& task) const;
  void NoteLostWith(const ClientState& client);
  Record* KeptFromOthers(const ClientState& client) const;
  bool Doubles(const ClientState& holder, TaskState& task) const;
  static Mishaps& MishapsOf(TaskState& task);

  SpaceState& state_;
  LeaseTable& leases_;
  ReadyQueue& ready_;
  Benches& benches_;
  Trust& trust_;
  Removal& removal_;
};

}  // namespace tuplespace::internal
