#include "access_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace tuplespace {

namespace {

const char* NameOf(Operation operation) {
  switch (operation) {
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
  return std::find(rule.operations.begin(), rule.operations.end(), operation) !=
         rule.operations.end();
}

Pattern PatternFor(const Rule& rule, const ClientId& client) {
  Pattern pattern = rule.pattern;
  if (rule.own_id_field) pattern.fields[*rule.own_id_field] = FieldPattern::Exact(client);
  return pattern;
}

std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, Operation operation,
                                     const Pattern& asked) {
  for (const Rule& rule : role.rules) {
    if (rule.whole_keys && !asked.AsExactKey()) continue;
    if (Allows(rule, operation) && asked.IsWithin(PatternFor(rule, client))) return std::nullopt;
  }
  return fmt::format("{} {}", NameOf(operation), asked.ToString());
}

std::optional<std::string> RefusalOf(const Role& role, const ClientId& client, Operation plain,
                                     const std::vector<Tuple>& tuples) {
  for (const Tuple& tuple : tuples) {
    const Operation operation = tuple.task ? Operation::kPutTask : plain;
    const bool allowed = std::any_of(role.rules.begin(), role.rules.end(), [&](const Rule& rule) {
      return Allows(rule, operation) && PatternFor(rule, client).Matches(tuple.key);
    });
    if (!allowed) return fmt::format("{} {}", NameOf(operation), tuple.key.ToString());
  }
  return std::nullopt;
}

void Check(const Role& role) {
  for (const Rule& rule : role.rules) {
    if (const auto problem = rule.pattern.Problem()) {
      throw std::invalid_argument(
          fmt::format("role \"{}\": a pattern has {}", role.name, *problem));
    }
    if (rule.own_id_field && *rule.own_id_field >= rule.pattern.fields.size()) {
      throw std::invalid_argument(
          fmt::format("role \"{}\": own_id_field is {}, the pattern {} has {} fields", role.name,
                      *rule.own_id_field, rule.pattern.ToString(), rule.pattern.fields.size()));
    }
  }
}

}  // namespace

AccessList::AccessList(std::vector<Role> roles, const std::vector<AllowedPeer>& peers)
    : roles_(std::move(roles)) {
  for (const Role& role : roles_) Check(role);
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
      throw std::invalid_argument(
          fmt::format("peer \"{}\" has the role \"{}\", which is none", peer.name, peer.role));
    }
    if (!names.insert(peer.name).second) {
      throw std::invalid_argument(fmt::format("two peers are called \"{}\"", peer.name));
    }
    if (!entries_.emplace(peer.public_key, Entry{peer, &*role}).second) {
      throw std::invalid_argument(
          fmt::format("peer \"{}\" has the public key of another", peer.name));
    }
  }
}

const AccessList::Entry* AccessList::Find(const std::string& public_key) const {
  const auto it = entries_.find(public_key);
  return it == entries_.end() ? nullptr : &it->second;
}

std::string ClientIdPrefix(const std::string& peer_name) {
  return peer_name + "/";
}

std::optional<std::string> RefusalOf(const Role& role, const ClientId& client,
                                     const RequestBody& body) {
  if (const auto* put = std::get_if<Put>(&body)) {
    return RefusalOf(role, client, Operation::kPut, put->tuples);
  }
  if (const auto* complete = std::get_if<Complete>(&body)) {
    return RefusalOf(role, client, Operation::kComplete, complete->results);
  }
  if (const auto* get = std::get_if<Get>(&body)) {
    return RefusalOf(role, client, Operation::kGet, get->pattern);
  }
  if (const auto* read = std::get_if<Read>(&body)) {
    for (const Pattern& pattern : read->patterns) {
      if (auto refusal = RefusalOf(role, client, Operation::kRead, pattern)) return refusal;
    }
    return std::nullopt;
  }
  if (const auto* list = std::get_if<List>(&body)) {
    return RefusalOf(role, client, Operation::kRead, list->pattern);
  }
  if (const auto* count = std::get_if<Count>(&body)) {
    return RefusalOf(role, client, Operation::kRead, count->pattern);
  }
  if (const auto* retire = std::get_if<Retire>(&body)) {
    return RefusalOf(role, client, retire->watermark ? Operation::kWatermark : Operation::kRetire,
                     retire->pattern);
  }
  return std::nullopt;  // a Supply, for one, is of tuples that this client was allowed to put
}

}  // namespace tuplespace
