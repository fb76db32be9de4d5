#include "space_key_offences.h"

#include <algorithm>

#include "tuplespace/planted.h"

namespace tuplespace::internal {

std::uint32_t OffencesOf(const SpaceState& state, const TrustRecord& record) {
  if (record.offences == 0 || !record.forgiven_by_time) return record.offences;
  if (IsPlanted(Planted::kNewIdsAreTrusted)) return 0;
  const std::int64_t forgiven = (state.now_us - record.offence_us) / state.limits.key_forgiven_us;
  return forgiven >= record.offences ? 0 : record.offences - static_cast<std::uint32_t>(forgiven);
}

std::uint32_t BenchesThatCount(const SpaceState& state, const ClientState& client,
                               std::string_view judge) {
  const auto offences = [&](const TrustRecords& records) -> std::uint32_t {
    const TrustRecord* record = records.Find(judge);
    return record != nullptr ? OffencesOf(state, *record) : 0;
  };
  const std::uint32_t own = offences(client.trust);
  if (client.untried_of == nullptr) return own;
  return std::max(own, offences(client.untried_of->trust));
}

bool IsBenchedBy(const SpaceState& state, const ClientState& client, std::string_view judge) {
  if (judge.empty()) return false;
  const auto is_benched = [&](const TrustRecords& records) {
    const TrustRecord* record = records.Find(judge);
    return record != nullptr && state.now_us < record->benched_until_us;
  };
  return is_benched(client.trust) ||
         (client.untried_of != nullptr && is_benched(client.untried_of->trust));
}

std::int64_t FirstApartEndUs(const SpaceState& state, const ClientState& client) {
  std::int64_t first_us = kForeverUs;
  const auto look_at = [&](const TrustRecords& records) {
    for (const auto& [judge, record] : records.apart) {
      if (state.now_us < record.benched_until_us) {
        first_us = std::min(first_us, record.benched_until_us);
      }
    }
  };
  look_at(client.trust);
  if (client.untried_of != nullptr) look_at(client.untried_of->trust);
  return first_us;
}

}  // namespace tuplespace::internal
