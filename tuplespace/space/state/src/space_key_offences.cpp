#include "space_key_offences.h"

#include <algorithm>

#include "tuplespace/planted.h"

namespace tuplespace::internal {

std::uint32_t OffencesOf(const SpaceState& state, const KeyTrust& key) {
  if (key.offences == 0 || IsPlanted(Planted::kNewIdsAreTrusted)) return 0;
  const std::int64_t forgiven = (state.now_us - key.offence_us) / state.limits.key_forgiven_us;
  return forgiven >= key.offences ? 0 : key.offences - static_cast<std::uint32_t>(forgiven);
}

std::uint32_t BenchesThatCount(const SpaceState& state, const ClientState& client) {
  const std::uint32_t own = client.trust.times_benched;
  if (client.untried_of == nullptr) return own;
  return std::max(own, OffencesOf(state, *client.untried_of));
}

}  // namespace tuplespace::internal
