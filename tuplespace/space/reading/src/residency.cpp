#include "residency.h"

#include <algorithm>
#include <cassert>

#include "space_key_offences.h"

namespace tuplespace::internal {

namespace {
constexpr std::uint32_t kMaxHalvings = 4;
// A holder that supplies one payload after the other may take this many times as long for all.
constexpr std::int64_t kMaxSupplies = 10;
}  // namespace

// Each bench of the holder halves the patience: otherwise a holder that supplies nothing would stop
// a run for as long again.
std::int64_t Residency::PatienceUs(const ClientState& holder) const {
  return state_.limits.supply_us >> std::min(BenchesThatCount(state_, holder), kMaxHalvings);
}

void Residency::Begin(ClientState& client, Record* record, std::uint64_t bytes,
                      const OwnerId& task_owner) {
  ++state_.counters.stayed;
  record->residence = std::make_unique<Residence>(record);
  record->residence->with = &client;
  record->residence->made_for = task_owner;
  record->residence->bytes = bytes;
  // Clients that wait for the tuple are about to be woken, and ask for the payload then.
}

// The first put wins, although its bytes are not here for comparison. So no other copy counts as
// equal.
PutStatus Residency::PutBeside(const ClientState& client, const Record& record,
                               const Tuple& tuple) {
  if (record.residence && record.residence->with == &client &&
      record.residence->bytes == tuple.resident_bytes) {
    return PutStatus::kStored;
  }
  ++state_.counters.duplicates;
  return PutStatus::kDuplicate;
}

// The maker of the tuple, if it has the payload, whether the space has it as well or not; else
// null. Other holders do not count, as only they themselves claim to have it.
const ClientState* Residency::HolderOf(const Record& record) const {
  if (record.residence) return record.residence->with;
  if (record.payload.size() < state_.limits.least_kept_bytes) return nullptr;
  const auto maker = state_.clients.find(*record.put_by);
  const bool holds = maker != state_.clients.end() && maker->second->held.contains(&record);
  return holds ? maker->second.get() : nullptr;
}

bool Residency::IsPlaced(const Record& record, const ClientState& reader) const {
  const ClientState* holder = HolderOf(record);
  return holder != nullptr && holder != &reader && holder->listens;
}

void Residency::Want(Record* record) {
  Residence& residence = *record->residence;
  if (residence.asked == Asked::kNeeded) return;
  if (!EndAhead(residence)) Ask(*record);
  residence.asked = Asked::kNeeded;
  residence.wanted_us = state_.now_us;
  state_.deadlines.Set(&residence.deadline, state_.After(PatienceUs(*residence.with)));
}

// Only so much of each maker that what is needed soon does not have to wait for long.
void Residency::WantAhead(Record* record) {
  Residence& residence = *record->residence;
  std::uint64_t& asked_bytes = residence.with->asked_ahead_bytes;
  if (residence.asked != Asked::kNo || asked_bytes >= state_.limits.asked_ahead_bytes) return;
  residence.asked = Asked::kAhead;
  asked_bytes += residence.bytes;
  Ask(*record);
}

void Residency::Ask(const Record& record) {
  ++state_.counters.wanted;
  state_.answers.Notify(record.residence->with->id,
                        Notice{Notice::Kind::kWanted, record.key, {}, {}});
}

// Returns whether it was asked for ahead.
bool Residency::EndAhead(Residence& residence) {
  if (residence.asked != Asked::kAhead) return false;
  residence.with->asked_ahead_bytes -= residence.bytes;
  return true;
}

// The tuple goes.
void Residency::End(Record* record) {
  state_.answers.Notify(record->residence->with->id,
                        Notice{Notice::Kind::kReleased, record->key, {}, {}});
  Drop(record);
}

void Residency::Drop(Record* record) {
  EndAhead(*record->residence);
  state_.deadlines.Clear(&record->residence->deadline);
  record->residence.reset();
}

std::vector<Record*> Residency::LoseAllOf(const ClientState& client) {
  std::vector<Record*> lost;
  for (const auto& [record, holding] : client.held) {
    const Residence* residence = holding.record->residence.get();
    if (residence != nullptr && residence->with == &client) lost.push_back(holding.record);
  }
  if (lost.empty()) return lost;
  std::sort(lost.begin(), lost.end(),
            [](const Record* a, const Record* b) { return a->sequence < b->sequence; });
  // Notices about the loss precede those about the tasks that it orphans. Each owner gets one.
  std::vector<OwnerId> told;
  for (const Record* record : lost) {
    const OwnerId& owner = record->residence->made_for;
    if (owner == nullptr || std::find(told.begin(), told.end(), owner) != told.end()) continue;
    told.push_back(owner);
    state_.answers.Notify(
        owner, Notice{Notice::Kind::kLost, record->key, *client.id,
                      "client \"" + *client.id + "\" was lost, and " + std::to_string(lost.size()) +
                          " results that stayed with it"});
  }
  state_.counters.lost += lost.size();
  for (Record* record : lost) Drop(record);  // the lost client needs no notice
  return lost;
}

bool Residency::IsOverdue(Record* record) {
  Residence& residence = *record->residence;
  const std::int64_t patience_us = PatienceUs(*residence.with);
  const ClientState& holder = *residence.with;
  const std::int64_t since_us =
      std::max({residence.wanted_us, holder.supplied_us, holder.sends_us});
  const std::int64_t until_us =
      std::min(since_us + patience_us, residence.wanted_us + kMaxSupplies * patience_us);
  if (until_us > state_.now_us) {
    state_.deadlines.Set(&residence.deadline, until_us);
    return false;
  }
  ++state_.counters.lost;
  if (residence.made_for != nullptr) {
    state_.answers.Notify(
        residence.made_for,
        Notice{Notice::Kind::kLost, record->key, *residence.with->id,
               "client \"" + *residence.with->id + "\" does not supply " + record->key.ToString()});
  }
  return true;
}

}  // namespace tuplespace::internal
