// Scans: List and Count. They examine a wide range of keys in slices, and clients with such
// requests take turns, so that no client waits for more than one slice.
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
  std::uint64_t examined() const { return examined_; }  // as in Space::ExaminedByScans
  void Continue();  // examines one slice for the client whose turn it is
  void ForgetAllOf(ClientState& client);

 private:
  void Begin(ClientState& client, Scan&& scan);
  // Subtracts from `*budget` what it examines. True: the scan is complete.
  bool Slice(Scan& scan, std::uint64_t* budget);
  bool SliceAtOnce(Scan& scan);  // the first slice, which counts in examined()
  void AnswerTo(const ClientState& client, Scan&& scan);

  SpaceState& state_;
  std::deque<ClientState*> scanning_;  // the clients that have scans, in order of their turns
  std::uint64_t examined_ = 0;
};

}  // namespace tuplespace::internal
