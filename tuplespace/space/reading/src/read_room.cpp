#include "read_room.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "space_refusals.h"

namespace tuplespace::internal {

namespace {

constexpr std::uint64_t kAllocationBytes = 16;  // overhead of the heap for each allocation
// Of a record in the store's tables, or of a group in those of the pattern index.
constexpr std::uint64_t kPlaceBytes = 128;

std::uint64_t BytesOf(const WantedPattern& wanted) {
  std::uint64_t bytes = sizeof(WantedPattern) + kAllocationBytes;
  if (const auto* key = std::get_if<Key>(&wanted)) return bytes + key->bytes().size();
  for (const FieldPattern& field : std::get<Pattern>(wanted).fields) {
    bytes += sizeof(FieldPattern) + kAllocationBytes;
    if (const auto* text = std::get_if<std::string>(&field.value)) bytes += text->size();
  }
  return bytes;
}

// Additional memory for a watched pattern, which the record or the group stores as well.
std::uint64_t BytesToWatch(const WantedPattern& wanted) {
  return sizeof(ReadWatch) + std::max(sizeof(Record), sizeof(ReadGroup)) + kPlaceBytes +
         BytesOf(wanted);
}

struct Quota {
  const char* limit;
  std::uint64_t more;
  std::uint64_t there;
  std::uint64_t most;
};

std::optional<RequestError> Check(const Quota& quota) {
  if (quota.there <= quota.most && quota.more <= quota.most - quota.there) return std::nullopt;
  RequestError error =
      NoRoom(std::string("limits.") + quota.limit, quota.more, quota.there, quota.most);
  error.text += ", for a Read that waits";
  return error;
}

}  // namespace

ReadUse ReadRoom::UseOf(const ReadWaiter& waiter) {
  ReadUse use;
  use.patterns = waiter.wanted.size();
  use.watched = waiter.all ? 1 : use.patterns;  // one after the other, or all at once
  use.bytes = sizeof(ReadWaiter) + kPlaceBytes;
  std::uint64_t most_to_watch = 0;
  for (const WantedPattern& wanted : waiter.wanted) {
    if (std::holds_alternative<Pattern>(wanted)) ++use.ranges;
    const std::uint64_t to_watch = BytesToWatch(wanted);
    most_to_watch = std::max(most_to_watch, to_watch);
    use.bytes += BytesOf(wanted) + (waiter.all ? 0 : to_watch);
  }
  if (waiter.all) use.bytes += most_to_watch;
  return use;
}

std::optional<RequestError> ReadRoom::CheckRoom(const ClientState& client, const ReadUse& more,
                                                std::size_t groups) const {
  if (auto busy = state_.CheckRoomForOpenRequest(client)) return busy;
  const SpaceLimits& all = state_.limits;
  const ClientLimits& role = client.limits;
  const auto known = of_keys_.find(client.principal);
  const ReadUse of_key = known != of_keys_.end() ? known->second : ReadUse{};
  const Quota quotas[] = {
      {"open_patterns_per_client", more.patterns, client.read_use.patterns,
       std::min(all.open_patterns_per_client, role.open_patterns)},
      {"open_pattern_bytes", more.bytes, client.read_use.bytes, role.open_pattern_bytes},
      {"open_pattern_bytes_of_key", more.bytes, of_key.bytes, role.open_pattern_bytes_of_key},
      {"read_patterns_of_key", more.ranges, of_key.ranges, role.read_patterns_of_key},
      {"watched_keys_of_key", more.watched, of_key.watched, role.watched_keys_of_key},
      {"watched_keys", more.watched, watched_, all.watched_keys},
      {"tuples", more.watched, state_.store.size(), all.tuples},
      {"read_patterns", more.ranges, groups, more.ranges > 0 ? all.read_patterns : UINT64_MAX},
  };
  for (const Quota& quota : quotas) {
    if (auto problem = Check(quota)) return problem;
  }
  return std::nullopt;
}

void ReadRoom::Take(ClientState& client, const ReadUse& use) {
  client.read_use += use;
  of_keys_[client.principal] += use;
  watched_ += use.watched;
}

void ReadRoom::GiveBack(ClientState& client, const ReadUse& use) {
  const auto of_key = of_keys_.find(client.principal);
  assert(of_key != of_keys_.end() && client.read_use.patterns >= use.patterns);
  client.read_use -= use;
  of_key->second -= use;
  watched_ -= use.watched;
  if (of_key->second.patterns == 0) of_keys_.erase(of_key);
}

}  // namespace tuplespace::internal
