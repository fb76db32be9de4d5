#include "space_state.h"

#include <cassert>
#include <string>

#include "space_key_bytes.h"
#include "space_refusals.h"

namespace tuplespace::internal {
namespace {

std::uint64_t* GaugeOf(RecordState state, Stats* gauges) {
  switch (state) {
    case RecordState::kWaiting:
      return &gauges->tasks_waiting;
    case RecordState::kReady:
      return &gauges->tasks_ready;
    case RecordState::kLeased:
      return &gauges->tasks_leased;
    case RecordState::kParked:
      return &gauges->tasks_parked;
    case RecordState::kWanted:
    case RecordState::kDone:
      break;
  }
  return nullptr;
}

}  // namespace

void Answers::Refuse(const ClientId& client, RequestId id, RequestError error) {
  assert(!error.text.empty());
  if (error.code == ErrorCode::kBusy) {
    ++counters_.busy;
  } else if (error.code != ErrorCode::kHelloRequired) {
    ++counters_.bad_requests;
  }
  out_.push_back({client, Reply{id, std::move(error)}});
}

void Answers::Notify(const OwnerId& owner, Notice notice) {
  assert(owner != nullptr);
  if (clients_.contains(*owner)) out_.push_back({*owner, std::move(notice)});
}

void Exclusions::Add(const std::string& judge, const List& list) {
  if (!list.empty()) ++tasks_[judge][list];
}

void Exclusions::Remove(const std::string& judge, const List& list) {
  if (list.empty()) return;
  const auto of_judge = tasks_.find(judge);
  assert(of_judge != tasks_.end());
  const auto at = of_judge->second.find(list);
  assert(at != of_judge->second.end());
  if (--at->second > 0) return;
  of_judge->second.erase(at);
  if (of_judge->second.empty()) tasks_.erase(of_judge);
}

std::size_t Exclusions::CountOf(const std::string& judge) const {
  const auto of_judge = tasks_.find(judge);
  return of_judge == tasks_.end() ? 0 : of_judge->second.size();
}

bool Exclusions::Has(const std::string& judge, const List& list) const {
  const auto of_judge = tasks_.find(judge);
  return of_judge != tasks_.end() && of_judge->second.contains(list);
}

void OwnTuples::Add(const std::string& principal, std::uint64_t payload_bytes) {
  Use& use = of_keys_[principal];
  ++use.tuples;
  use.payload_bytes += payload_bytes;
}

void OwnTuples::Remove(const std::string& principal, std::uint64_t payload_bytes) {
  const auto of_key = of_keys_.find(principal);
  assert(of_key != of_keys_.end());
  of_key->second.payload_bytes -= payload_bytes;
  if (--of_key->second.tuples == 0) of_keys_.erase(of_key);
}

OwnTuples::Use OwnTuples::Of(const std::string& principal) const {
  const auto of_key = of_keys_.find(principal);
  return of_key == of_keys_.end() ? Use{} : of_key->second;
}

std::optional<RequestError> SpaceState::CheckRoomForOpenRequest(const ClientState& client) const {
  const std::size_t open = client.reads.size() + client.gets.size() + client.scans.size();
  if (open >= limits.open_requests_per_client) {
    return Busy("limits.open_requests_per_client: " +
                std::to_string(limits.open_requests_per_client) + " are open, the most allowed");
  }
  if (open >= client.limits.open_requests) {
    return Busy("open_requests of this client's role: " +
                std::to_string(client.limits.open_requests) + " are open, the most allowed");
  }
  return std::nullopt;
}

std::int64_t SpaceState::After(std::int64_t duration_us) const {
  assert(duration_us >= 0);
  return now_us > kForeverUs - duration_us ? kForeverUs : now_us + duration_us;
}

void SpaceState::SetState(Record* record, RecordState state) {
  if (record->task) {
    if (std::uint64_t* gauge = GaugeOf(record->state, &gauges)) --*gauge;
    if (std::uint64_t* gauge = GaugeOf(state, &gauges)) ++*gauge;
  }
  record->state = state;
}

void SpaceState::CountKeys(Record* record) {
  gauges.payload_bytes -= record->key_bytes;
  record->key_bytes = CountedKeyBytes(*record);
  gauges.payload_bytes += record->key_bytes;
}

void SpaceState::Mention(const Record& record, FoundTuple* found) {
  assert(record.stored());
  found->key = record.key;
  found->resident = record.residence != nullptr;
  found->payload_bytes = found->resident ? record.residence->bytes : record.payload.size();
}

void SpaceState::Copy(const Record& record, bool metadata_only, FoundTuple* found) {
  Mention(record, found);
  found->put_by = *record.put_by;
  found->took_us = record.took_us;
  found->times_taken = record.times_taken;
  found->hash = record.payload.hash();
  if (!metadata_only) {
    found->payload = record.payload;
    counters.bytes_out += record.payload.size();
  }
}

void SpaceState::CopyPlaced(const Record& record, FoundTuple* found) {
  static const auto kUnfilled = std::make_shared<const Place>();
  Copy(record, /*metadata_only=*/true, found);
  found->resident = true;  // even if the space has it, too
  found->place = kUnfilled;
  ++counters.placed;
  counters.placed_bytes += found->payload_bytes;
}

}  // namespace tuplespace::internal
