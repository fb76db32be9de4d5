// HostileHandler: the fields of requests that only some seeds set, and what these seeds supply.
// They have random numbers of their own, so that the other seeds do not change.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cluster/hostile_handler.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {

constexpr std::uint64_t kSetsThemOneIn = 3;  // hostile handlers
constexpr std::uint64_t kMaxSupplied = 3;    // payloads in one request
constexpr std::size_t kMaxKept = 16;         // results that it may supply

}  // namespace

void HostileHandler::DrawFields(Random random) {
  if (random.OneIn(kSetsThemOneIn)) fields_ = random;
}

void HostileHandler::SetFields(Get* get) {
  if (!fields_) return;
  if (fields_->OneIn(2)) {
    get->ns_per_kib = static_cast<std::uint32_t>(fields_->Next() >> (32 + fields_->Below(32)));
  }
  if (fields_->OneIn(2)) get->holds_from_bytes = fields_->Next() >> fields_->Below(64);
  get->direct = fields_->OneIn(2);
}

void HostileHandler::SetFields(Read* read) {
  if (!fields_) return;
  read->in_space = fields_->OneIn(2);
  read->direct = fields_->OneIn(2);
}

void HostileHandler::SetFields(TaskSpec* task) {
  if (!fields_) return;
  if (fields_->OneIn(2)) task->not_by = {ClientIdPrefix(kHostileName), "handler 0"};
  if (fields_->OneIn(2)) task->prefers = sessions_.begin()->first;
  task->prefer_us = AnyDuration();
  if (fields_->OneIn(2)) task->due = {static_cast<std::uint32_t>(fields_->Below(3))};
}

// The lease of a Put or a Retire: mostly none, else one that it has or had, or that never existed.
std::optional<LeaseRef> HostileHandler::AnyUnder() {
  if (!fields_ || !fields_->OneIn(4)) return std::nullopt;
  return AnyLease(known_.own_leases);
}

void HostileHandler::NoteKept(const Key& result, std::uint64_t bytes) {
  if (!fields_) return;
  if (known_.kept.size() == kMaxKept) known_.kept.erase(known_.kept.begin());
  known_.kept.emplace_back(result, bytes);
}

// Wrong payloads of results that it keeps, with the sizes that it has claimed, and payloads that
// nobody expects of it; without `fields_` only the latter. A handler that keeps results without
// lying has no such deed (HostileHabits).
Supply HostileHandler::AnySupply() {
  Supply supply;
  for (std::uint64_t i = fields_ ? 1 + fields_->Below(kMaxSupplied) : 1; i > 0; --i) {
    Tuple tuple;
    if (known_.kept.empty() || fields_->OneIn(8)) {
      tuple.key = AnyKey();
      tuple.payload = AnyPayload();
    } else {
      const auto& [key, size] = known_.kept[fields_->Below(known_.kept.size())];
      std::string bytes(size, '\0');
      for (char& byte : bytes) byte = static_cast<char>(fields_->Next());
      // Of short payloads there are not many.
      if (!lies_told_.insert(bytes).second) continue;
      tuple.key = key;
      tuple.payload = Payload::Copy(bytes);
    }
    tuple.held = fields_ && fields_->OneIn(2);
    supply.tuples.push_back(std::move(tuple));
  }
  return supply;
}

}  // namespace acan::simulation
