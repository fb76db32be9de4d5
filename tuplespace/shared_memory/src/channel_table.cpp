#include "channel_table.h"

#include <algorithm>
#include <utility>

namespace tuplespace {

void ChannelTable::Joined(const ClientId& client, std::uint64_t session, const Sharing& offer,
                          Sharing& answer) {
  Entry* entry = Find(client, session);
  if (entry == nullptr && offer.ring_fd >= 0 && entries_.size() < limit_) {
    const auto files = PeerFiles::Of(offer.pid);
    auto channel = files ? Channel::Make() : nullptr;
    if (channel && channel->Attach(*files, offer.ring_fd, offer.wake_fd)) {
      entry = &entries_[client];
      *entry = {};
      entry->session = session;
      entry->channel = std::move(channel);
    }
  }
  if (entry == nullptr) return;
  answer.ring_fd = entry->channel->fd();
  answer.wake_fd = wake_fd_;
}

ChannelTable::Entry* ChannelTable::Find(const ClientId& client, std::uint64_t session) {
  const auto it = entries_.find(client);
  return it == entries_.end() || it->second.session != session ? nullptr : &it->second;
}

void ChannelTable::Proven(const ClientId& client, const std::string& user, int connection) {
  const auto it = entries_.find(client);
  if (it == entries_.end()) return;
  it->second.proven = true;
  it->second.user = user;
  it->second.connection = connection;
}

void ChannelTable::SessionEnded(const ClientId& client, std::uint64_t session) {
  if (Find(client, session) != nullptr) entries_.erase(client);
}

void ChannelTable::CountReceived(const ClientId& client, std::uint64_t session) {
  if (Entry* entry = Find(client, session)) entry->channel->CountReceived();
}

void ChannelTable::CountSent(const ClientId& client, std::uint64_t session) {
  if (Entry* entry = Find(client, session)) entry->channel->CountSent();
}

Channel* ChannelTable::To(const ClientId& client, std::uint64_t session) {
  Entry* entry = Find(client, session);
  return entry != nullptr && entry->used ? entry->channel.get() : nullptr;
}

std::vector<ClientId> ChannelTable::Broken() const {
  std::vector<ClientId> clients;
  for (const auto& [client, entry] : entries_) {
    if (entry.channel->broken()) clients.push_back(client);
  }
  return clients;
}

void ChannelTable::BeginSleep() {
  for (auto& [client, entry] : entries_) {
    if (entry.proven) entry.channel->BeginSleep();
  }
}

bool ChannelTable::HasInput() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& each) {
    return each.second.proven && each.second.channel->HasInput();
  });
}

void ChannelTable::EndSleep() {
  for (auto& [client, entry] : entries_) {
    if (entry.proven) entry.channel->EndSleep();
  }
}

}  // namespace tuplespace
