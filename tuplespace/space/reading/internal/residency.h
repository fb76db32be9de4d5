// Residency: payloads that stay with the client that made them. A client that reads one waits while
// the space asks the maker for it. If the maker is lost, so are these tuples. A client may go on
// holding a payload that it has supplied; then readers that accept places still get it from that
// client.
#pragma once

#include <cstdint>
#include <vector>

#include "space_state.h"

namespace tuplespace::internal {

class Residency {
 public:
  explicit Residency(SpaceState& state) : state_(state) {}

  // `record` is stored, and its payload of `bytes` bytes stays with `client`, which holds it.
  // `task_owner` put the task that made it; null: no task did.
  void Begin(ClientState& client, Record* record, std::uint64_t bytes, const OwnerId& task_owner);
  // The answer to a second put of a tuple if the stored tuple or the new one is resident.
  PutStatus PutBeside(const ClientState& client, const Record& record, const Tuple& tuple);
  // Whether `reader`, which accepts places, gets the place of the tuple's maker instead of the
  // payload.
  bool IsPlaced(const Record& record, const ClientState& reader) const;
  // A client reads the payload: Want if it is late without it, WantAhead if it holds no task with
  // it. REQUIRES, for both: record->residence.
  void Want(Record* record);
  void WantAhead(Record* record);
  void Drop(Record* record);  // the payload has arrived
  void End(Record* record);   // the tuple goes; notifies its maker
  // The client is lost: returns the tuples whose payloads are lost with it. The caller removes
  // them.
  std::vector<Record*> LoseAllOf(const ClientState& client);
  // The maker was asked for the payload long ago. Returns whether the payload counts as lost; then
  // the caller removes the tuple.
  bool IsOverdue(Record* record);

 private:
  const ClientState* HolderOf(const Record& record) const;
  void Ask(const Record& record);
  static bool EndAhead(Residence& residence);
  std::int64_t PatienceUs(const ClientState& holder) const;

  SpaceState& state_;
};

}  // namespace tuplespace::internal
