#include "acan/manager/silent_keys.h"

#include <algorithm>

#include "acan/manager/excluded.h"

namespace acan {

using tuplespace::ClientId;
using tuplespace::KeyPrefixOf;

namespace {

constexpr std::uint64_t kMaxOwed = 1 << 20;

}  // namespace

void SilentKeys::SetPresent(const std::map<std::string, Capacity>& handlers) {
  // A key may come back with other clients; there are no more keys than the broker lists.
  const auto is_gone = [&](const ClientId& owner) {
    return KeyPrefixOf(owner).empty() && !handlers.contains(owner);
  };
  std::erase_if(work_, is_gone);
  std::erase_if(debts_, [&](const auto& debt) { return is_gone(debt.first); });
}

void SilentKeys::OnResultOf(const ClientId& client) {
  const ClientId owner = OwnerOf(client);
  work_.insert(owner);
  const auto debt = debts_.find(owner);
  if (debt != debts_.end() && debt->second.results > 0) --debt->second.results;
}

void SilentKeys::Add(const ClientId& client) {
  Debt& debt = debts_[OwnerOf(client)];
  debt.results = debt.next;
  debt.next = std::min(4 * debt.next, kMaxOwed);
}

bool SilentKeys::Works(const ClientId& client) const {
  return work_.contains(OwnerOf(client));
}

bool SilentKeys::Has(const ClientId& client) const {
  if (debts_.empty()) return false;
  const auto debt = debts_.find(OwnerOf(client));
  return debt != debts_.end() && debt->second.results > 0;
}

}  // namespace acan
