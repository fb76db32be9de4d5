#include "unfinished_messages.h"

#include <iterator>

namespace tuplespace {

Assembly::Result UnfinishedMessages::Add(const std::string& peer, const std::string& user,
                                         std::span<const std::byte> part) {
  // Most messages come in one part.
  const auto open = messages_.empty() ? messages_.end() : messages_.find(peer);
  if (open == messages_.end()) {
    Assembly fresh(limits_);
    Assembly::Result result = fresh.Add(part);
    if (fresh.empty()) return result;
    const std::uint64_t bytes = fresh.received_bytes();
    SetBytes(messages_.emplace(peer, Message{std::move(fresh), user}).first->second, bytes);
    if (IsOver(user)) DropLargest(user);
    return result;
  }
  Message& message = open->second;
  Assembly::Result result = message.assembly.Add(part);
  SetBytes(message, message.assembly.received_bytes());
  if (message.assembly.empty()) {
    messages_.erase(open);
  } else if (IsOver(user)) {
    DropLargest(user);
  }
  return result;
}

void UnfinishedMessages::SetBytesOfUser(std::uint64_t bytes) {
  const bool is_less = bytes < bytes_of_user_;
  bytes_of_user_ = bytes;
  if (!is_less || bytes_.empty()) return;
  std::vector<std::string> over;
  for (const auto& [user, of_user] : bytes_) {
    if (of_user > bytes) over.push_back(user);
  }
  for (const std::string& user : over) {
    while (IsOver(user)) DropLargest(user);
  }
}

void UnfinishedMessages::Forget(const std::string& peer) {
  const auto open = messages_.find(peer);
  if (open == messages_.end()) return;
  SetBytes(open->second, 0);
  messages_.erase(open);
}

void UnfinishedMessages::SetBytes(Message& message, std::uint64_t bytes) {
  if (message.user.empty()) return;
  std::uint64_t& of_user = bytes_[message.user];
  of_user = of_user - message.bytes + bytes;
  message.bytes = bytes;
  if (of_user == 0) bytes_.erase(message.user);
}

bool UnfinishedMessages::IsOver(const std::string& user) const {
  const auto of_user = bytes_.find(user);
  return of_user != bytes_.end() && of_user->second > bytes_of_user_;
}

void UnfinishedMessages::DropLargest(const std::string& user) {
  auto largest = messages_.end();
  for (auto it = messages_.begin(); it != messages_.end(); ++it) {
    if (it->second.user != user) continue;
    if (largest == messages_.end() || it->second.bytes > largest->second.bytes) largest = it;
  }
  dropped_.push_back(largest->first);
  Forget(largest->first);
}

}  // namespace tuplespace
