// Scans: List and Count. They examine a wide range of keys in slices, and clients with such
// requests take turns, so that no client waits for more than one slice.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

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
  // Charges what an unfinished List has found since the last time to the client's key. Otherwise
  // says why the List may not go on.
  std::optional<RequestError> Charge(const ClientState& client, Scan& scan);
  void GiveBack(const ClientState& client, const Scan& scan);  // what was charged

  SpaceState& state_;
  std::deque<ClientState*> scanning_;  // the clients that have scans, in order of their turns
  std::unordered_map<std::string, std::uint64_t> charged_to_;  // by principal, if it is anything
  std::uint64_t examined_ = 0;
};

}  // namespace tuplespace::internal
