#include "acan/manager/contributors.h"

#include "tuplespace/messages.h"

namespace acan {

using tuplespace::KeyPrefixOf;

// No client id has a tab.
std::string Contributors::AllClientsOf(const std::string& client) {
  return std::string(KeyPrefixOf(client)) + '\t';
}

void Contributors::Add(const std::string& name) {
  const std::string key(KeyPrefixOf(name)), all = AllClientsOf(name);
  if (name == key) {
    names_.insert(name);
    return;
  }
  if (names_.contains(all)) return;
  if (name != all) {
    if (!names_.insert(name).second) return;
    if (++clients_[key] <= kMostOfKey) return;
  }
  std::erase_if(names_,
                [&](const std::string& one) { return one != key && KeyPrefixOf(one) == key; });
  clients_.erase(key);
  names_.insert(all);
}

void Contributors::AddAll(const std::set<std::string>& names) {
  for (const std::string& name : names) Add(name);
}

}  // namespace acan
