// PutChecks: decides whether tuples may enter the space and whether there is room for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "watermarks.h"

namespace tuplespace::internal {

class PutChecks {
 public:
  PutChecks(SpaceState& state, const Watermarks& watermarks)
      : state_(state), watermarks_(watermarks) {}

  // nullopt: the tuples may enter.
  std::optional<RequestError> ProblemOf(const ClientState& client,
                                        std::span<const Tuple> tuples) const;
  std::optional<RequestError> ProblemOf(const ClientState& client, const Supply& supply) const;
  // nullopt: there is room. Otherwise it counts in the statistics.
  std::optional<RequestError> CheckRoom(std::span<const Tuple> tuples);
  // For a client that leaves nothing: the tuples become its own.
  std::optional<RequestError> CheckQuota(const ClientState& client,
                                         std::span<const Tuple> tuples) const;

 private:
  std::optional<RequestError> ProblemOf(const Tuple& tuple) const;
  std::optional<RequestError> ExclusionProblemOf(const ClientState& client,
                                                 std::span<const Tuple> tuples) const;

  SpaceState& state_;
  const Watermarks& watermarks_;
};

}  // namespace tuplespace::internal
