// Scans: List and Count. What lies in a wide range of keys is looked at in slices, in turn for all
// clients that have such requests, so that nobody has to wait for more than one slice.
#pragma once

#include <cstdint>
#include <deque>

#include "space_state.h"

namespace tuplespace::internal {

class Scans {
 public:
  explicit Scans(SpaceState& state) : state_(state) {}

  void Handle(ClientState& client, RequestId id, List&& list);
  void Handle(ClientState& client, RequestId id, Count&& count);
  bool idle() const { return scanning_.empty(); }
  void Continue();  // one slice, of the client whose turn it is
  void ForgetAllOf(ClientState& client);

 private:
  void Begin(ClientState& client, Scan&& scan);
  bool Slice(Scan& scan, std::uint64_t most);  // true: it is at its end
  void AnswerTo(const ClientState& client, Scan&& scan);

  SpaceState& state_;
  std::deque<ClientState*> scanning_;  // that have scans, in their turn
};

}  // namespace tuplespace::internal
