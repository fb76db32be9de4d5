// Gets: checks Gets and lets them wait.
#pragma once

#include <cstdint>
#include <optional>

#include "matcher.h"

namespace tuplespace::internal {

class Gets {
 public:
  Gets(SpaceState& state, GetGroups& groups, ReadyQueue& ready, Benches& benches, Matcher& matcher)
      : state_(state), groups_(groups), ready_(ready), benches_(benches), matcher_(matcher) {}

  void Handle(ClientState& client, RequestId id, Get&& get);
  void ForgetAllOf(ClientState& client);  // sends no answers

 private:
  std::optional<RequestError> ProblemOf(const ClientState& client,
                                        const Get& get) const;  // does not check its pattern
  std::optional<RequestError> RoomProblemOf(const ClientState& client) const;
  std::optional<RequestError> BorrowProblemOf(const ClientState& client,
                                              const Pattern& pattern) const;
  std::optional<std::uint64_t> EndReplaced(ClientState& client, RequestId id);
  void MakeUser(const ClientState& client, GetGroup* group);
  void StartWaiting(ClientState& client, RequestId id, const Get& get, Taker taker,
                    std::uint64_t sequence);

  SpaceState& state_;
  GetGroups& groups_;
  ReadyQueue& ready_;
  Benches& benches_;
  Matcher& matcher_;
};

}  // namespace tuplespace::internal
