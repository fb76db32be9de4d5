#include "holders.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tuplespace::internal {

// Holding is a hint, unless the payload stays with the client: copies beyond
// limits.held_keys_per_client, or beyond held_keys_of_key of the client's role, are not remembered.
void Holders::Add(ClientState& client, Record* record, bool always) {
  assert(record->stored());
  if (client.held.contains(record)) return;
  const auto of_key = of_keys_.find(client.principal);
  const std::uint64_t held_by_key = of_key != of_keys_.end() ? of_key->second : 0;
  const bool has_room = client.held.size() < state_.limits.held_keys_per_client &&
                        held_by_key < client.limits.held_keys_of_key;
  if (!always && !has_room) return;
  const auto at = client.held.try_emplace(record).first;
  Holding& holding = at->second;
  holding.client = &client;
  holding.record = record;
  record->holders.PushBack(&holding);
  ++of_keys_[client.principal];
  ++state_.gauges.held_keys;
  ready_.RequeueAffine(record);
}

void Holders::Remove(ClientState& client, Record* record) {
  const auto at = client.held.find(record);
  assert(at != client.held.end());
  record->holders.Remove(&at->second);
  client.held.erase(at);
  Uncount(client);
  ready_.RequeueAffine(record);
}

void Holders::Uncount(const ClientState& client) {
  --state_.gauges.held_keys;
  const auto of_key = of_keys_.find(client.principal);
  assert(of_key != of_keys_.end() && of_key->second > 0);
  if (--of_key->second == 0) of_keys_.erase(of_key);
}

void Holders::RemoveAllOf(ClientState& client) {
  std::vector<Record*> held;
  for (const auto& [record, holding] : client.held) held.push_back(holding.record);
  std::sort(held.begin(), held.end(),
            [](const Record* a, const Record* b) { return a->sequence < b->sequence; });
  for (Record* record : held) Remove(client, record);
}

void Holders::RemoveAllOf(Record* record) {
  while (const Holding* holding = record->holders.first()) {
    ClientState& client = *holding->client;
    record->holders.Remove(record->holders.first());
    client.held.erase(record);
    Uncount(client);
  }
}

}  // namespace tuplespace::internal
