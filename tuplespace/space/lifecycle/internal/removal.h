// Removal: removes tuples, single ones or all matches of a pattern, and handles the tasks that
// needed them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holders.h"
#include "lease_table.h"
#include "residency.h"
#include "watermarks.h"

namespace tuplespace::internal {

class Removal {
 public:
  Removal(SpaceState& state, GetGroups& groups, LeaseTable& leases, Holders& holders,
          Residency& residency, Watermarks& watermarks)
      : state_(state),
        groups_(groups),
        leases_(leases),
        holders_(holders),
        residency_(residency),
        watermarks_(watermarks) {}

  void Handle(ClientState& client, RequestId id, Retire&& retire);
  // Removes the tuple. With `remember`, its key stays known as that of a done task.
  void Remove(Record* record, bool remember);
  // Removes the tasks of this judge: those that are leased when their leases end, all others now.
  // Visits everything.
  void RemoveTasksOf(const std::string& judge);
  // No client gets the task any more, and its owner gets a notice with the reason.
  void Park(Record* record, Notice::Kind kind, const ClientId& by, std::string text);
  void Orphan(Record* task, const Key& input);
  // How much all Retires looked at; a tuple that they removed counts as several looks.
  std::uint64_t examined() const { return examined_; }

 private:
  std::optional<RequestError> ProblemOf(const Retire& retire) const;
  std::uint64_t RemoveMatching(const Retire& retire);
  void UnlinkInputs(Record* task);

  SpaceState& state_;
  GetGroups& groups_;
  LeaseTable& leases_;
  Holders& holders_;
  Residency& residency_;
  Watermarks& watermarks_;
  std::uint64_t examined_ = 0;
};

}  // namespace tuplespace::internal
