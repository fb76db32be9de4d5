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
  std::uint64_t looked_at() const { return looked_at_; }  // as Space::LookedAtByScans
  void Continue();  // one slice, of the client whose turn it is
  void ForgetAllOf(ClientState& client);

 private:
  void Begin(ClientState& client, Scan&& scan);
  // Takes from `*look_at` what it looks at. True: the scan is at its end.
  bool Slice(Scan& scan, std::uint64_t* look_at);
  bool SliceAtOnce(Scan& scan);  // the first slice, which counts in looked_at()
  void AnswerTo(const ClientState& client, Scan&& scan);

  SpaceState& state_;
  std::deque<ClientState*> scanning_;  // that have scans, in their turn
  std::uint64_t looked_at_ = 0;
};

}  // namespace tuplespace::internal
