// Payloads that stay with the client that made them: who reads one waits while that client is asked
// for it, and when the client is lost its tuples are.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"

namespace tuplespace {

using internal::OwnerId;

void Space::Impl::BeginStay(Client& client, Record* record, std::uint64_t bytes,
                            const Origin& origin) {
  ++counters_.stayed;
  record->stay = std::make_unique<internal::Stay>(record);
  record->stay->with = &client;
  record->stay->made_for = origin.task_owner;
  record->stay->bytes = bytes;
  AddHolder(client, record, /*always=*/true);
  // Whoever waited for the tuple is about to be woken, and asks for it then.
}

// The first put wins, though its bytes are not here to compare. So no other copy is one of it.
PutStatus Space::Impl::PutBesideStay(const Client& client, const Record& record,
                                     const Tuple& tuple) {
  if (record.stay && record.stay->with == &client && record.stay->bytes == tuple.stays_bytes) {
    return PutStatus::kStored;
  }
  ++counters_.duplicates;
  return PutStatus::kDuplicate;
}

void Space::Impl::Want(Record* record) {
  internal::Stay& stay = *record->stay;
  if (std::exchange(stay.wanted, true)) return;
  ++counters_.wanted;
  stay.wanted_us = now_us_;
  deadlines_.Set(&stay.deadline, After(limits_.supply_us));
  Notify(stay.with->id, Notice{Notice::Kind::kWanted, record->key, {}, {}});
}

std::optional<Error> Space::Impl::ProblemOf(const Client& client, const Supply& supply) const {
  if (auto problem = ProblemOf(client, supply.tuples)) return problem;
  for (const Tuple& tuple : supply.tuples) {
    if (tuple.payload.empty() || tuple.task || tuple.ephemeral) {
      return Error{ErrorCode::kBadRequest, "a Supply of " + tuple.key.ToString() +
                                               " must have its payload, and nothing else"};
    }
    const Record* record = store_.Find(tuple.key.bytes());
    if (record == nullptr || !record->stay || record->stay->with != &client) continue;
    if (record->stay->bytes != tuple.payload.size()) {
      return Error{ErrorCode::kBadRequest,
                   "a Supply of " + tuple.key.ToString() + " has " +
                       std::to_string(tuple.payload.size()) + " bytes, must have the " +
                       std::to_string(record->stay->bytes) + " that were said to stay"};
    }
  }
  return std::nullopt;
}

void Space::Impl::Handle(Client& client, RequestId id, Supply&& supply) {
  if (auto problem = ProblemOf(client, supply)) return Refuse(*client.id, id, std::move(*problem));
  client.supplied_us = now_us_;  // though there may be no room: that is not its fault
  std::uint64_t bytes = 0;
  for (const Tuple& tuple : supply.tuples) {
    const Record* record = store_.Find(tuple.key.bytes());
    if (record != nullptr && record->stay) bytes += tuple.payload.size();
  }
  if (bytes > 0 && gauges_.payload_bytes + bytes > limits_.payload_bytes) {
    const std::string there = std::to_string(gauges_.payload_bytes);
    return Refuse(
        *client.id, id,
        {ErrorCode::kBusy, "limits.payload_bytes: " + std::to_string(bytes) + " more with " +
                               there + " there, at most " + std::to_string(limits_.payload_bytes)});
  }
  PutReply reply;
  reply.status.reserve(supply.tuples.size());
  for (Tuple& tuple : supply.tuples) reply.status.push_back(SupplyOne(client, std::move(tuple)));
  Answer(client, id, std::move(reply));
}

PutStatus Space::Impl::SupplyOne(Client& client, Tuple&& tuple) {
  Record* record = store_.Find(tuple.key.bytes());
  if (record == nullptr || !record->stored()) return PutStatus::kRetired;
  if (!record->stay || record->stay->with != &client) return PutStatus::kDuplicate;
  counters_.bytes_in += tuple.payload.size();
  gauges_.payload_bytes += tuple.payload.size();
  record->payload = std::move(tuple.payload);
  DropStay(record);
  ++record->pins;
  fresh_.push_back(record);
  Requeue(record);
  return PutStatus::kStored;
}

// The tuple goes.
void Space::Impl::EndStay(Record* record) {
  Notify(record->stay->with->id, Notice{Notice::Kind::kReleased, record->key, {}, {}});
  DropStay(record);
}

void Space::Impl::DropStay(Record* record) {
  deadlines_.Clear(&record->stay->deadline);
  record->stay.reset();
}

void Space::Impl::LoseStaysOf(const Client& client) {
  std::vector<Record*> lost;
  for (const auto& [record, holding] : client.held) {
    const internal::Stay* stay = holding.record->stay.get();
    if (stay != nullptr && stay->with == &client) lost.push_back(holding.record);
  }
  if (lost.empty()) return;
  std::sort(lost.begin(), lost.end(),
            [](const Record* a, const Record* b) { return a->sequence < b->sequence; });
  // Before they are told of the tasks that this orphans. Each once.
  std::vector<OwnerId> told;
  for (const Record* record : lost) {
    const OwnerId& owner = record->stay->made_for;
    if (owner == nullptr || std::find(told.begin(), told.end(), owner) != told.end()) continue;
    told.push_back(owner);
    Notify(owner, Notice{Notice::Kind::kLost, record->key, *client.id,
                         "client \"" + *client.id + "\" was lost, and " +
                             std::to_string(lost.size()) + " results that stayed with it"});
  }
  counters_.lost += lost.size();
  for (Record* record : lost) {
    DropStay(record);  // who is lost need not be told
    Remove(record, false);
  }
}

void Space::Impl::SupplyIsDue(Record* record) {
  internal::Stay& stay = *record->stay;
  const std::int64_t since_us = std::max(stay.wanted_us, stay.with->supplied_us);
  if (since_us + limits_.supply_us > now_us_) {
    return deadlines_.Set(&stay.deadline, since_us + limits_.supply_us);
  }
  ++counters_.lost;
  if (stay.made_for != nullptr) {
    Notify(stay.made_for,
           Notice{Notice::Kind::kLost, record->key, *stay.with->id,
                  "client \"" + *stay.with->id + "\" does not supply " + record->key.ToString()});
  }
  Remove(record, false);
}

}  // namespace tuplespace
