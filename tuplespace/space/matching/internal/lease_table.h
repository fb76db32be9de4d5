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

  std::int64_t OrDefaultLease(std::int64_t lease_us) const;
  std::int64_t LongestLeaseUs(const TaskState& task) const;
  std::int64_t LeaseUs(const TaskState& task) const;
  std::int64_t LastEndUs(const Record& record) const;

  void Grant(ClientState& client, Record* record, std::int64_t lease_us);
  Record* Find(const ClientState& client, const LeaseRef& lease);  // null: stale, counted
  void Drop(Record* record);
  void Lose(Record* record) const;
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
