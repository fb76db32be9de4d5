// How far the space still trusts a client: how often it was benched, or its key if the client has
// not completed a task yet. Whatever time a client is given, each bench halves it.
#pragma once

#include <cstdint>
#include <string_view>

#include "space_state.h"

namespace tuplespace::internal {

// The benches in this record, less those that are forgiven by now.
std::uint32_t OffencesOf(const SpaceState& state, const TrustRecord& record);

// The benches that count for what `client` does with the tasks of this judge. `judge` empty: with
// all tasks that are not judged apart. A client that has not completed a task yet has those of its
// key: otherwise a new id would get more time than an old one.
std::uint32_t BenchesThatCount(const SpaceState& state, const ClientState& client,
                               std::string_view judge = {});

// Whether `client` gets no tasks of this judge now. `judge` empty: false.
bool IsBenchedBy(const SpaceState& state, const ClientState& client, std::string_view judge);
// When the first of these benches of `client` ends; kForeverUs: it has none.
std::int64_t FirstApartEndUs(const SpaceState& state, const ClientState& client);

}  // namespace tuplespace::internal
