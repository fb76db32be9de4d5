#include "holders.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tuplespace::internal {

// Holding is a hint, unless the payload stays with the client: copies beyond
// limits.held_keys_per_client are not remembered.
void Holders::Add(ClientState& client, Record* record, bool always) {
  assert(record->stored());
  if (!always && client.held.size() >= state_.limits.held_keys_per_client) return;
  const auto [at, is_new] = client.held.try_emplace(record);
  if (!is_new) return;
  Holding& holding = at->second;
  holding.client = &client;
  holding.record = record;
  record->holders.PushBack(&holding);
  ++state_.gauges.held_keys;
  ready_.RequeueAffine(record);
}

void Holders::Remove(ClientState& client, Record* record) {
  const auto at = client.held.find(record);
  assert(at != client.held.end());
  record->holders.Remove(&at->second);
  client.held.erase(at);
  --state_.gauges.held_keys;
  ready_.RequeueAffine(record);
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
    record->holders.Remove(record->holders.first());
    holding->client->held.erase(record);
    --state_.gauges.held_keys;
  }
}

}  // namespace tuplespace::internal
