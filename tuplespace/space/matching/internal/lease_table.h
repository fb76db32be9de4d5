// LeaseTable: which client has taken which tuple, under which fence, and for how long.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trust.h"

namespace tuplespace::internal {

class LeaseTable {
 public:
  LeaseTable(SpaceState& state, Trust& trust, std::uint64_t first_fence)
      : state_(state), trust_(trust), next_fence_(first_fence) {}

  // The requested lease; 0 stands for the default.
  std::int64_t OrDefaultLease(std::int64_t lease_us) const;
  // How long a task may be kept from others by extensions of its lease, or by leases that run out.
  std::int64_t LongestLeaseUs(const TaskState& task) const;
  // The length of the task's next lease. It is longer if earlier leases ran out.
  std::int64_t LeaseUs(const TaskState& task) const;
  // When the lease must end if other clients could do the task. REQUIRES: record.lease.
  std::int64_t LastEndUs(const Record& record) const;

  // `client` holds the tuple from now on. REQUIRES: the tuple is ready and in no tree.
  void Grant(ClientState& client, Record* record, std::int64_t lease_us);
  Record* Find(const ClientState& client, const LeaseRef& lease);  // null: stale, which is counted
  std::uint64_t next_fence() const { return next_fence_; }  // all leases so far have smaller fences
  // The lease is over. The caller decides what becomes of the tuple.
  void Drop(Record* record);
  // Remembers a lease that is about to end without its holder's doing. The holder may still
  // complete the task.
  void Lose(Record* record) const;
  // When `client` got the task, if it held it under a lease that ended in this way; else nullopt.
  std::optional<std::int64_t> LateLease(const ClientState& client, const Record* record,
                                        std::uint64_t fence) const;

 private:
  // Before another lease of `holder` is remembered.
  void MakeRoomFor(const ClientState& holder, std::vector<PastLease>& past) const;

  SpaceState& state_;
  Trust& trust_;
  std::uint64_t next_fence_;
};

// The lease in `leases` that `client` held under this fence, or null.
const PastLease* HeldBefore(const ClientState& client, const std::vector<PastLease>& leases,
                            std::uint64_t fence);

}  // namespace tuplespace::internal
