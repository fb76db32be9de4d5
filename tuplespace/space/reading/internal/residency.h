// Residency: payloads that stay with the client that made them. Who reads one waits while that
// client is asked for it, and when the client is lost its tuples are. A client may go on holding a
// payload that it has supplied: then readers that take places still get it from that client.
#pragma once

#include <cstdint>
#include <vector>

#include "space_state.h"

namespace tuplespace::internal {

class Residency {
 public:
  explicit Residency(SpaceState& state) : state_(state) {}

  // `record` is stored, and its payload of so many bytes stays with `client`, which holds it.
  // `task_owner`: who put the task that made it; null: no task did.
  void Begin(ClientState& client, Record* record, std::uint64_t bytes, const OwnerId& task_owner);
  // The answer to a second put of a tuple that is resident, or would be.
  PutStatus PutBeside(const ClientState& client, const Record& record, const Tuple& tuple);
  // Whether `reader`, which takes places, gets that of the client that made the tuple, and not the
  // payload.
  bool IsPlaced(const Record& record, const ClientState& reader) const;
  // Somebody waits for the payload. REQUIRES: record->residence.
  void Want(Record* record);
  void Drop(Record* record);  // the payload is here
  void End(Record* record);   // the tuple goes: its client is told
  // The client is lost: what stayed with it, which nobody can have any more. The caller removes it.
  std::vector<Record*> LoseAllOf(const ClientState& client);
  // Its client was asked for it long ago: whether it counts as lost. The caller removes it then.
  bool IsOverdue(Record* record);

 private:
  const ClientState* HolderOf(const Record& record) const;
  std::int64_t PatienceUs(const ClientState& holder) const;

  SpaceState& state_;
};

}  // namespace tuplespace::internal
