// LeaseTable: who has taken what, under which fence, and for how long.
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

  // The lease that was asked for; 0 stands for the default one.
  std::int64_t OrDefaultLease(std::int64_t lease_us) const;
  // How long a task may be kept from others, by extending its lease or by leases that ran out.
  std::int64_t LongestLeaseUs(const TaskState& task) const;
  // The next lease of the task: longer where earlier ones ran out.
  std::int64_t LeaseUs(const TaskState& task) const;
  // Until when the lease may last while others could do the task. REQUIRES: record.lease.
  std::int64_t LastEndUs(const Record& record) const;

  // `client` has the tuple from now on. REQUIRES: the tuple is ready, and in no tree any more.
  void Grant(ClientState& client, Record* record, std::int64_t lease_us);
  Record* Find(const ClientState& client, const LeaseRef& lease);  // null: stale, counted
  std::uint64_t next_fence() const { return next_fence_; }         // all leases so far have less
  // The lease is over; the caller says what becomes of the tuple.
  void Drop(Record* record);
  // Remembers a lease that is about to end without its holder's doing: the holder may complete the
  // task all the same.
  void Lose(Record* record) const;
  // When the task was given to `client` under a lease that was lost so; nullopt: it was not.
  std::optional<std::int64_t> LateLease(const ClientState& client, const Record* record,
                                        std::uint64_t fence) const;

 private:
  SpaceState& state_;
  Trust& trust_;
  std::uint64_t next_fence_;
};

// Of `leases` the one that `client` had under that fence, or null.
const PastLease* HeldBefore(const ClientState& client, const std::vector<PastLease>& leases,
                            std::uint64_t fence);

}  // namespace tuplespace::internal
