#include "access_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "tuplespace/planted.h"

namespace tuplespace {

namespace {

const char* NameOf(Operation operation) {
  switch (operation) {
    case Operation::kReadMetadata:
      return "read the metadata of";
    case Operation::kRead:
      return "read";
    case Operation::kPut:
      return "put";
    case Operation::kPutTask:
      return "put the task";
    case Operation::kGet:
      return "get";
    case Operation::kComplete:
      return "complete a task with";
    case Operation::kRetire:
      return "retire";
    case Operation::kWatermark:
      return "retire for good";
  }
  return "?";
}

bool Allows(const Rule& rule, Operation operation) {
  const auto has = [&rule](Operation one) {
    return std::find(rule.operations.begin(), rule.operations.end(), one) != rule.operations.end();
  };
  return has(operation) || (operation == Operation::kReadMetadata && has(Operation::kRead));
}

Pattern PatternFor(const Rule& rule, const ClientId& client) {
  Pattern pattern = rule.pattern;
  if (rule.own_id_field) pattern.fields[*rule.own_id_field] = FieldPattern::Exact(client);
  return pattern;
}

std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, Operation operation,
                                     Pattern& asked) {
  for (const Rule& rule : role.rules) {
    if (!Allows(rule, operation) || (rule.whole_keys && !asked.AsExactKey())) continue;
    const Pattern allowed = PatternFor(rule, client);
    if (asked.IsWithin(allowed)) return std::nullopt;
    if (!rule.limited_field || asked.fields.size() <= *rule.limited_field) continue;
    if (asked.fields[*rule.limited_field].op != FieldPattern::Op::kAny) continue;
    Pattern narrow = asked;
    narrow.fields[*rule.limited_field] = allowed.fields[*rule.limited_field];
    if (!narrow.IsWithin(allowed)) continue;
    asked = std::move(narrow);
    return std::nullopt;
  }
  return fmt::format("{} {}", NameOf(operation), asked.ToString());
}

// The maximum payload of a tuple with this key; nullopt: the key is not allowed.
std::optional<std::uint64_t> MostBytes(const Role& role, const ClientId& client,
                                       Operation operation, const Key& key) {
  std::optional<std::uint64_t> most;
  for (const Rule& rule : role.rules) {
    if (!Allows(rule, operation)) continue;
    const bool matches =
        rule.own_id_field ? PatternFor(rule, client).Matches(key) : rule.pattern.Matches(key);
    if (!matches) continue;
    most = std::max(most.value_or(0), rule.payload_bytes);
    if (most == UINT64_MAX) break;
  }
  return most;
}

bool MayDo(const Role& role, const ClientId& client, Operation operation, const Key& key) {
  return MostBytes(role, client, operation, key).has_value();
}

// Tasks wait for a client that claims to hold tuples, and the client learns whether these exist.
std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, const Hold& hold) {
  const bool gets = std::any_of(role.rules.begin(), role.rules.end(),
                                [](const Rule& rule) { return Allows(rule, Operation::kGet); });
  if (!gets) return "hold tuples, because it may get none";
  // The space would refuse it, too, but only when its turn comes, and until then it takes memory.
  const std::size_t count = hold.held.size() + hold.dropped.size();
  if (count > role.limits.per_request) {
    return fmt::format("name {} tuples in one Hold, but at most {}", count,
                       role.limits.per_request);
  }
  for (const Key& key : hold.held) {
    // What it has read or made; dropping needs no check.
    const bool may = MayDo(role, client, Operation::kRead, key) ||
                     MayDo(role, client, Operation::kComplete, key) ||
                     MayDo(role, client, Operation::kPut, key);
    if (!may) return fmt::format("hold {}", key.ToString());
  }
  return std::nullopt;
}

std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, Operation plain,
                                     const std::vector<Tuple>& tuples) {
  for (const Tuple& tuple : tuples) {
    const Operation operation = tuple.task ? Operation::kPutTask : plain;
    const std::optional<std::uint64_t> most = MostBytes(role, client, operation, tuple.key);
    if (!most) return fmt::format("{} {}", NameOf(operation), tuple.key.ToString());
    const std::uint64_t bytes = std::max<std::uint64_t>(tuple.payload.size(), tuple.resident_bytes);
    if (bytes > *most && !IsPlanted(Planted::kSizesAreIgnored)) {
      return fmt::format("{} {} with {} bytes, but at most with {}", NameOf(operation),
                         tuple.key.ToString(), bytes, *most);
    }
    if (!tuple.task) continue;
    // A client that gets the task gets its inputs, and the results go to the client that put it.
    for (const Key& input : tuple.task->inputs) {
      if (MayDo(role, client, Operation::kRead, input)) continue;
      return fmt::format("put a task whose input is {}", input.ToString());
    }
    for (const Key& result : tuple.task->results) {
      if (MayDo(role, client, Operation::kPut, result)) continue;
      return fmt::format("put a task whose result is {}", result.ToString());
    }
  }
  return std::nullopt;
}

void Check(const std::string& role, const Rule& rule) {
  if (const auto problem = rule.pattern.Problem()) {
    throw std::invalid_argument(fmt::format("role \"{}\": a pattern has {}", role, *problem));
  }
  const auto check = [&](const char* name, const std::optional<std::size_t>& field) {
    if (!field || *field < rule.pattern.fields.size()) return;
    throw std::invalid_argument(fmt::format("role \"{}\": {} is {}, the pattern {} has {} fields",
                                            role, name, *field, rule.pattern.ToString(),
                                            rule.pattern.fields.size()));
  };
  check("own_id_field", rule.own_id_field);
  check("limited_field", rule.limited_field);
}

Role Limited(const Role& role, const AllowedPeer& peer) {
  if (role.limited_rules.empty()) {
    throw std::invalid_argument(
        fmt::format("peer \"{}\" has the limit \"{}\", but its role \"{}\" has no limits",
                    peer.name, peer.limit, role.name));
  }
  Role limited{role.name, role.limited_rules, {}, role.limited_limits.value_or(role.limits)};
  for (Rule& rule : limited.rules) {
    if (rule.limited_field) {
      rule.pattern.fields[*rule.limited_field] = FieldPattern::Prefix(peer.limit);
    }
  }
  return limited;
}

}  // namespace

AccessList::AccessList(std::vector<Role> roles, const std::vector<AllowedPeer>& peers)
    : roles_(std::move(roles)) {
  for (const Role& role : roles_) {
    for (const Rule& rule : role.rules) Check(role.name, rule);
    for (const Rule& rule : role.limited_rules) Check(role.name, rule);
  }
  std::set<std::string> names;
  for (const AllowedPeer& peer : peers) {
    if (const auto problem = PeerNameProblem(peer.name)) {
      throw std::invalid_argument(fmt::format("the peer name \"{}\" {}", peer.name, *problem));
    }
    if (const auto problem = KeyProblem(peer.public_key)) {
      throw std::invalid_argument(
          fmt::format("the public key of peer \"{}\" {}", peer.name, *problem));
    }
    const auto role = std::find_if(roles_.begin(), roles_.end(),
                                   [&](const Role& one) { return one.name == peer.role; });
    if (role == roles_.end()) {
      throw std::invalid_argument(fmt::format(
          "peer \"{}\" has the role \"{}\", which does not exist", peer.name, peer.role));
    }
    if (!names.insert(peer.name).second) {
      throw std::invalid_argument(fmt::format("two peers are called \"{}\"", peer.name));
    }
    const Role* its = &*role;
    if (!peer.limit.empty()) its = &limited_roles_.emplace_back(Limited(*role, peer));
    if (!entries_.emplace(peer.public_key, Entry{peer, its}).second) {
      throw std::invalid_argument(
          fmt::format("peer \"{}\" has the public key of another", peer.name));
    }
    has_ends_ = has_ends_ || peer.until_unix_s != kNoEnd;
  }
}

const AccessList::Entry* AccessList::Find(const std::string& public_key) const {
  const auto it = entries_.find(public_key);
  return it == entries_.end() || it->second.ended ? nullptr : &it->second;
}

std::string AccessList::WhyNot(const std::string& public_key) const {
  const auto it = entries_.find(public_key);
  if (it == entries_.end()) {
    return fmt::format("its public key {} is not on the list", public_key);
  }
  return fmt::format("its key \"{}\" expired at {}", it->second.peer.name,
                     TimeText(it->second.peer.until_unix_s));
}

bool AccessList::IsEnded(const std::string& public_key) const {
  const auto it = entries_.find(public_key);
  return it != entries_.end() && it->second.ended;
}

bool AccessList::EndKeys(std::int64_t now_unix_s) {
  if (!has_ends_) return false;
  bool some = false;
  for (auto& [key, entry] : entries_) {
    const bool was_ended = std::exchange(entry.ended, now_unix_s >= entry.peer.until_unix_s);
    some = some || (entry.ended && !was_ended);
  }
  return some;
}

std::string ClientIdPrefix(const std::string& peer_name) {
  return peer_name + "/";
}

std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, RequestBody& body) {
  if (const auto* put = std::get_if<Put>(&body)) {
    return RefusalOf(role, client, Operation::kPut, put->tuples);
  }
  if (const auto* complete = std::get_if<Complete>(&body)) {
    return RefusalOf(role, client, Operation::kComplete, complete->results);
  }
  if (auto* get = std::get_if<Get>(&body)) {
    return RefusalOf(role, client, Operation::kGet, get->pattern);
  }
  const auto reading = [](bool metadata_only) {
    return metadata_only ? Operation::kReadMetadata : Operation::kRead;
  };
  if (auto* read = std::get_if<Read>(&body)) {
    for (Pattern& pattern : read->patterns) {
      if (auto refusal =
              RefusalOf(role, client, reading(read->metadata_only && !read->in_space), pattern)) {
        return refusal;
      }
    }
    return std::nullopt;
  }
  if (auto* list = std::get_if<List>(&body)) {
    return RefusalOf(role, client, reading(list->metadata_only), list->pattern);
  }
  if (auto* count = std::get_if<Count>(&body)) {
    return RefusalOf(role, client, Operation::kReadMetadata, count->pattern);
  }
  if (auto* retire = std::get_if<Retire>(&body)) {
    return RefusalOf(role, client, retire->watermark ? Operation::kWatermark : Operation::kRetire,
                     retire->pattern);
  }
  if (const auto* hold = std::get_if<Hold>(&body)) return RefusalOf(role, client, *hold);
  if (const auto* supply = std::get_if<Supply>(&body)) {
    // Only for tuples that it may put, as results or otherwise, because an answer about others
    // would reveal whether they exist.
    auto refusal = RefusalOf(role, client, Operation::kComplete, supply->tuples);
    if (!refusal || !RefusalOf(role, client, Operation::kPut, supply->tuples)) return std::nullopt;
    return refusal;
  }
  return std::nullopt;
}

}  // namespace tuplespace
