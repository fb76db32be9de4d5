#include "acan/manager/idle_handlers.h"

#include "acan/manager/excluded.h"

namespace acan {

using tuplespace::ClientId;
using tuplespace::KeyPrefixOf;

void IdleHandlers::SetPresent(const std::map<std::string, Capacity>& handlers) {
  const auto is_gone = [&](const ClientId& client) { return !handlers.contains(client); };
  std::erase_if(workers_, is_gone);
  // A key may come back with other clients; there are no more keys than the broker lists.
  std::erase_if(
      owners_, [&](const ClientId& owner) { return KeyPrefixOf(owner).empty() && is_gone(owner); });
}

void IdleHandlers::LeaveOut(const std::map<std::string, Capacity>& handlers) {
  std::set<ClientId> idle;
  for (const auto& [id, capacity] : handlers) idle.insert(OwnerOf(id));
  std::erase_if(workers_, [&](const ClientId& worker) { return HasClient(idle, worker); });
  owners_.merge(idle);
}

void IdleHandlers::LetCount(const std::map<std::string, Capacity>& handlers) {
  for (const auto& [id, capacity] : handlers) workers_.insert(id);
}

bool IdleHandlers::IsLeftOut(const ClientId& client) const {
  return owners_.contains(OwnerOf(client)) && !workers_.contains(client);
}

}  // namespace acan
