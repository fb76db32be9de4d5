#include "access_control.h"

#include <fmt/format.h>

#include <ctime>
#include <stdexcept>
#include <utility>

namespace tuplespace {

namespace {

constexpr std::int64_t kLookAtKeysUs = 1'000'000;  // how often to check whether a key has ended

std::optional<AccessList> ListOf(const std::optional<BrokerAccess>& access) {
  if (!access) return std::nullopt;
  if (const auto problem = KeyPairProblem(access->keys)) {
    throw std::invalid_argument("the broker's keys: " + *problem);
  }
  return AccessList(access->roles, access->peers);
}

}  // namespace

AccessControl::AccessControl(const std::optional<BrokerAccess>& access)
    : access_(access), list_(ListOf(access)) {}

const AccessList::Entry* AccessControl::Find(const std::string& user, const ClientId& client,
                                             std::string* why) const {
  const AccessList::Entry* who = list_->Find(user);
  if (who == nullptr) {
    *why = list_->IsEnded(user) ? list_->WhyNot(user)
                                : "this key is not on the broker's list any more";
  } else if (!client.starts_with(ClientIdPrefix(who->peer.name))) {
    *why = fmt::format("the client ids of key \"{}\" begin with \"{}\"", who->peer.name,
                       ClientIdPrefix(who->peer.name));
    who = nullptr;
  }
  return who;
}

void AccessControl::SetPeers(const std::vector<AllowedPeer>& peers) {
  if (!access_) throw std::invalid_argument("SetPeers: this broker has no keys");
  AccessList checked(access_->roles, peers);
  const std::lock_guard lock(mutex_);
  new_list_ = std::move(checked);
}

bool AccessControl::TakeNewPeers() {
  std::optional<AccessList> list;
  {
    const std::lock_guard lock(mutex_);
    list.swap(new_list_);
  }
  if (!list) return false;
  list_ = std::move(list);
  list_->EndKeys(std::time(nullptr));
  return true;
}

bool AccessControl::EndKeys(std::int64_t now_us) {
  if (now_us < NextLookUs()) return false;
  look_at_us_ = now_us + kLookAtKeysUs;
  return list_->EndKeys(std::time(nullptr));
}

std::int64_t AccessControl::NextLookUs() const {
  return list_ && list_->HasEnds() ? look_at_us_ : kForeverUs;
}

}  // namespace tuplespace
