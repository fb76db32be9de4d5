// Random requests: any type with any fields.
#include <optional>
#include <utility>

#include "hostile_client.h"

namespace acan::testing {

using tuplespace::Field;
using tuplespace::FieldPattern;
using tuplespace::Grant;
using tuplespace::Key;
using tuplespace::LeaseRef;
using tuplespace::Pattern;
using tuplespace::RequestBody;
using tuplespace::Tuple;

namespace {

FieldPattern AnyFieldPattern(HostileClient& hostile, Field field) {
  switch (hostile.Below(6)) {
    case 0:
      return FieldPattern::Any();
    case 1:
      return FieldPattern::AtMost(static_cast<std::int64_t>(hostile.Below(1000)));
    case 2:
      return FieldPattern::AtLeast(static_cast<std::int64_t>(hostile.Below(1000)));
    case 3:
      return FieldPattern::Prefix("t");
    default:
      return FieldPattern::Exact(std::move(field));
  }
}

Pattern AnyPattern(HostileClient& hostile) {
  const Key key = hostile.AnyKey();
  if (hostile.OneIn(2)) return Pattern::Of(key);
  Pattern pattern;
  for (Field& field : key.Fields()) {
    pattern.fields.push_back(AnyFieldPattern(hostile, std::move(field)));
  }
  pattern.open = hostile.OneIn(2);
  return pattern;
}

// Mostly small, sometimes the largest value.
std::int64_t AnyDurationUs(HostileClient& hostile) {
  static constexpr std::int64_t kSome[] = {
      0, 0, 1000, 100'000, 10'000'000, 3'600'000'000, tuplespace::kForeverUs, -1};
  return kSome[hostile.Below(std::size(kSome))];
}

std::vector<Key> AnyKeys(HostileClient& hostile) {
  std::vector<Key> keys;
  for (std::uint64_t i = hostile.Below(6); i > 0; --i) keys.push_back(hostile.AnyKey());
  return keys;
}

tuplespace::TaskSpec AnyTask(HostileClient& hostile) {
  tuplespace::TaskSpec task;
  task.inputs = AnyKeys(hostile);
  task.results = AnyKeys(hostile);
  task.need_bytes = hostile.Below(1 << 20);
  task.priority = static_cast<std::int64_t>(hostile.Below(100)) - 50;
  task.lease_us = AnyDurationUs(hostile);
  task.affinity = static_cast<std::int32_t>(hostile.Below(4)) - 1;
  if (hostile.OneIn(2)) task.not_by = {hostile.client().id(), "somebody/"};
  if (hostile.OneIn(2)) task.due = {static_cast<std::uint32_t>(hostile.Below(4))};
  if (hostile.OneIn(2)) task.prefers = hostile.client().id();
  task.prefer_us = AnyDurationUs(hostile);
  return task;
}

std::vector<Tuple> AnyTuples(HostileClient& hostile) {
  std::vector<Tuple> tuples;
  for (const Key& key : AnyKeys(hostile)) {
    Tuple tuple{.key = key, .payload = {}, .task = {}};
    tuple.ephemeral = hostile.OneIn(2);
    tuple.held = hostile.OneIn(4);
    if (hostile.OneIn(4)) {
      tuple.resident_bytes = 1 + hostile.Below(1 << 16);
    } else {
      tuple.payload = tuplespace::Payload::Copy(std::string(hostile.Below(40'000), 'x'));
    }
    if (hostile.OneIn(8)) tuple.task = AnyTask(hostile);
    tuples.push_back(std::move(tuple));
  }
  return tuples;
}

LeaseRef AnyLease(HostileClient& hostile) {
  const std::vector<Grant>& held = hostile.held();
  if (held.empty() || hostile.OneIn(3)) return {hostile.AnyKey(), hostile.Below(1 << 20)};
  const Grant& grant = held[hostile.Below(held.size())];
  return {grant.key, grant.fence};
}

std::optional<LeaseRef> AnyUnder(HostileClient& hostile) {
  if (!hostile.OneIn(4)) return std::nullopt;
  return AnyLease(hostile);
}

tuplespace::Get AnyGet(HostileClient& hostile) {
  tuplespace::Get get;
  get.pattern = AnyPattern(hostile);
  get.offer_bytes = hostile.OneIn(2) ? UINT64_MAX : hostile.Below(1 << 20);
  get.max_count = static_cast<std::uint32_t>(hostile.Below(100));
  get.with_inputs = hostile.OneIn(2);
  get.lease_us = AnyDurationUs(hostile);
  get.wait_us = AnyDurationUs(hostile);
  get.share = hostile.OneIn(2);
  if (hostile.OneIn(2)) get.ns_per_kib = static_cast<std::uint32_t>(hostile.Below(1 << 20));
  get.holds_from_bytes = hostile.OneIn(2) ? hostile.Below(1 << 16) : UINT64_MAX;
  get.direct = hostile.OneIn(4);
  return get;
}

// Never exactly the results that a task declares: at least one is always invented.
tuplespace::Complete AnyComplete(HostileClient& hostile) {
  tuplespace::Complete complete{AnyLease(hostile), AnyTuples(hostile)};
  complete.results.push_back({.key = Key{"made-up", 1}, .payload = {}, .task = {}});
  return complete;
}

RequestBody AnyRequest(HostileClient& hostile) {
  switch (hostile.Below(14)) {
    case 0:
      return tuplespace::Put{AnyTuples(hostile), AnyUnder(hostile)};
    case 1: {
      tuplespace::Read read;
      for (std::uint64_t i = hostile.Below(4); i > 0; --i) {
        read.patterns.push_back(AnyPattern(hostile));
      }
      read.all = hostile.OneIn(2);
      read.metadata_only = hostile.OneIn(2);
      read.wait_us = AnyDurationUs(hostile);
      read.in_space = hostile.OneIn(2);
      read.direct = hostile.OneIn(2);
      return read;
    }
    case 2:
      return tuplespace::List{AnyPattern(hostile), hostile.Below(5000), hostile.OneIn(2)};
    case 3:
      return tuplespace::Count{AnyPattern(hostile)};
    case 4:
      return AnyGet(hostile);
    case 5:
      return AnyComplete(hostile);
    case 6:
      return tuplespace::Extend{AnyLease(hostile), AnyDurationUs(hostile)};
    case 7:
      return tuplespace::Release{AnyLease(hostile)};
    case 8:
      return tuplespace::Fail{AnyLease(hostile), std::string(hostile.Below(10'000), '\n')};
    case 9:
      return tuplespace::Retire{AnyPattern(hostile), hostile.OneIn(2), AnyUnder(hostile)};
    case 10:
      return tuplespace::Hold{AnyKeys(hostile), AnyKeys(hostile)};
    case 11:
      return tuplespace::Cancel{hostile.Below(1 << 12)};
    case 12:
      return tuplespace::Supply{AnyTuples(hostile)};
    default:
      return tuplespace::GetStats{};
  }
}

}  // namespace

void SendAnything(HostileClient& hostile) {
  if (hostile.OneIn(4)) {
    std::vector<Grant>& held = hostile.held();
    for (Grant& grant : hostile.Take(1 + static_cast<std::uint32_t>(hostile.Below(16)))) {
      held.push_back(std::move(grant));
    }
    if (held.size() > 64) held.erase(held.begin(), held.end() - 64);
  }
  for (std::uint64_t i = 1 + hostile.Below(50); i > 0; --i) hostile.Send(AnyRequest(hostile));
  hostile.Settle();
  if (hostile.client().unanswered() > 3000) hostile.Leave();
}

}  // namespace acan::testing
