#include "residency.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tuplespace::internal {

void Residency::Begin(ClientState& client, Record* record, std::uint64_t bytes,
                      const OwnerId& task_owner) {
  ++state_.counters.stayed;
  record->stay = std::make_unique<Stay>(record);
  record->stay->with = &client;
  record->stay->made_for = task_owner;
  record->stay->bytes = bytes;
  // Whoever waited for the tuple is about to be woken, and asks for it then.
}

// The first put wins, though its bytes are not here to compare. So no other copy is one of it.
PutStatus Residency::PutBeside(const ClientState& client, const Record& record,
                               const Tuple& tuple) {
  if (record.stay && record.stay->with == &client && record.stay->bytes == tuple.stays_bytes) {
    return PutStatus::kStored;
  }
  ++state_.counters.duplicates;
  return PutStatus::kDuplicate;
}

void Residency::Want(Record* record) {
  Stay& stay = *record->stay;
  if (std::exchange(stay.wanted, true)) return;
  ++state_.counters.wanted;
  stay.wanted_us = state_.now_us;
  state_.deadlines.Set(&stay.deadline, state_.After(state_.limits.supply_us));
  state_.answers.Notify(stay.with->id, Notice{Notice::Kind::kWanted, record->key, {}, {}});
}

// The tuple goes.
void Residency::End(Record* record) {
  state_.answers.Notify(record->stay->with->id,
                        Notice{Notice::Kind::kReleased, record->key, {}, {}});
  Drop(record);
}

void Residency::Drop(Record* record) {
  state_.deadlines.Clear(&record->stay->deadline);
  record->stay.reset();
}

std::vector<Record*> Residency::LoseAllOf(const ClientState& client) {
  std::vector<Record*> lost;
  for (const auto& [record, holding] : client.held) {
    const Stay* stay = holding.record->stay.get();
    if (stay != nullptr && stay->with == &client) lost.push_back(holding.record);
  }
  if (lost.empty()) return lost;
  std::sort(lost.begin(), lost.end(),
            [](const Record* a, const Record* b) { return a->sequence < b->sequence; });
  // Before they are told of the tasks that this orphans. Each once.
  std::vector<OwnerId> told;
  for (const Record* record : lost) {
    const OwnerId& owner = record->stay->made_for;
    if (owner == nullptr || std::find(told.begin(), told.end(), owner) != told.end()) continue;
    told.push_back(owner);
    state_.answers.Notify(
        owner, Notice{Notice::Kind::kLost, record->key, *client.id,
                      "client \"" + *client.id + "\" was lost, and " + std::to_string(lost.size()) +
                          " results that stayed with it"});
  }
  state_.counters.lost += lost.size();
  for (Record* record : lost) Drop(record);  // who is lost need not be told
  return lost;
}

bool Residency::IsOverdue(Record* record) {
  Stay& stay = *record->stay;
  const std::int64_t since_us = std::max(stay.wanted_us, stay.with->supplied_us);
  if (since_us + state_.limits.supply_us > state_.now_us) {
    state_.deadlines.Set(&stay.deadline, since_us + state_.limits.supply_us);
    return false;
  }
  ++state_.counters.lost;
  if (stay.made_for != nullptr) {
    state_.answers.Notify(
        stay.made_for,
        Notice{Notice::Kind::kLost, record->key, *stay.with->id,
               "client \"" + *stay.with->id + "\" does not supply " + record->key.ToString()});
  }
  return true;
}

}  // namespace tuplespace::internal
