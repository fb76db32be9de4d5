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

std::uint32_t OffencesOf(const SpaceState& state, const ApartTrust& trust) {
  if (trust.offences == 0) return 0;
  const std::int64_t forgiven = (state.now_us - trust.offence_us) / state.limits.key_forgiven_us;
  return forgiven >= trust.offences ? 0 : trust.offences - static_cast<std::uint32_t>(forgiven);
}

std::uint32_t BenchesThatCount(const SpaceState& state, const ClientState& client,
                               const Judge& judge) {
  if (!judge) return BenchesThatCount(state, client);
  const auto offences = [&](const ApartTrusts& apart) {
    const auto at = apart.find(*judge);
    return at == apart.end() ? 0 : OffencesOf(state, at->second);
  };
  const std::uint32_t own = offences(client.apart);
  if (client.untried_of == nullptr) return own;
  return std::max(own, offences(client.untried_of->apart));
}

bool IsBenchedBy(const SpaceState& state, const ClientState& client, std::string_view judge) {
  const auto is_benched = [&](const ApartTrusts& apart) {
    if (apart.empty()) return false;
    const auto at = apart.find(judge);
    return at != apart.end() && state.now_us < at->second.benched_until_us;
  };
  if (judge.empty()) return false;
  return is_benched(client.apart) ||
         (client.untried_of != nullptr && is_benched(client.untried_of->apart));
}

std::int64_t FirstApartEndUs(const SpaceState& state, const ClientState& client) {
  std::int64_t first_us = kForeverUs;
  const auto look_at = [&](const ApartTrusts& apart) {
    for (const auto& [judge, trust] : apart) {
      if (state.now_us < trust.benched_until_us) {
        first_us = std::min(first_us, trust.benched_until_us);
      }
    }
  };
  look_at(client.apart);
  if (client.untried_of != nullptr) look_at(client.untried_of->apart);
  return first_us;
}

}  // namespace tuplespace::internal
