// Completions: end a lease and put its results in one step. The results of a late completion may
// still count.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lease_ends.h"
#include "puts.h"

namespace tuplespace::internal {

class Completions {
 public:
  Completions(SpaceState& state, LeaseTable& leases, Trust& trust, Removal& removal,
              PutChecks& checks, Puts& puts, LeaseEnds& lease_ends)
      : state_(state),
        leases_(leases),
        trust_(trust),
        removal_(removal),
        checks_(checks),
        puts_(puts),
        lease_ends_(lease_ends) {}

  void Handle(ClientState& client, RequestId id, Complete&& complete);
  // A Complete under this lease had damaged results, as `what` says: a task of the client under it
  // has failed, as with a Complete without its results.
  void NoteDamaged(ClientState& client, const LeaseRef& lease, const std::string& what);

 private:
  void CompleteTask(ClientState& client, RequestId id, Complete&& complete, Record* task,
                    std::int64_t granted_us, LeaseStatus status);
  void CompleteTooLate(ClientState& client, RequestId id, Complete&& complete, Record* record);
  PutStatus CompareLate(ClientState& client, const Record* task, const Tuple& result);
  static std::optional<std::string> ProblemOf(const TaskSpec& task, std::span<const Tuple> results);
  static std::optional<std::string> FalseResults(std::span<const Key> declared,
                                                 std::span<const Tuple> results);
  void RememberOthers(const ClientState& client, Record* task, std::uint64_t fence) const;

  SpaceState& state_;
  LeaseTable& leases_;
  Trust& trust_;
  Removal& removal_;
  PutChecks& checks_;
  Puts& puts_;
  LeaseEnds& lease_ends_;
};

}  // namespace tuplespace::internal
