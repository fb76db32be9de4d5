#include "outbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tuplespace {

namespace {

constexpr std::int64_t kLookUs = 1'000'000;
constexpr std::uint64_t kMessagesPerLook =
    65'536;  // so that looking takes a small part of the time

std::string TooMuchOfKey(std::uint64_t limit_bytes) {
  return fmt::format(
      "the clients of its key do not read: their answers take {} bytes, the limit for a key "
      "(unread_bytes_of_key)",
      limit_bytes);
}

}  // namespace

Channel* Outbox::ChannelFor(const ClientId& client, std::uint64_t session,
                            std::span<const std::byte> control, std::span<const Payload> payloads,
                            const SendProgress& progress) {
  // A message that has begun in the socket continues there.
  if (progress.bytes != 0 || !Channel::Fits(control, payloads)) return nullptr;
  return channels_.To(client, session);
}

SendResult Outbox::SendNow(const ClientId& client, std::uint64_t session,
                           std::span<const std::byte> control, std::span<const Payload> payloads,
                           SendProgress& progress) {
  if (Channel* const channel = ChannelFor(client, session, control, payloads, progress)) {
    return channel->Send(control, payloads) ? SendResult::kSent : SendResult::kFull;
  }
  used_socket_ = true;
  const SendResult result = tuplespace::Send(router_, &client, control, payloads, progress);
  if (result == SendResult::kSent) channels_.CountSent(client, session);
  return result;
}

std::optional<std::string> Outbox::Send(const ClientId& client, std::uint64_t session,
                                        std::span<const std::byte> control,
                                        std::vector<Payload> payloads, const Group& group) {
  const auto it = waiting_.find(client);
  SendResult result = SendResult::kFull;
  SendProgress progress;
  if (it == waiting_.end()) result = SendNow(client, session, control, payloads, progress);
  if (result == SendResult::kUnroutable) return "its connection ended";
  if (result == SendResult::kSent || session == 0) return std::nullopt;
  Multipart multipart{std::vector<std::byte>(control.begin(), control.end()), std::move(payloads),
                      progress};
  const std::uint64_t bytes = multipart.Bytes();
  if (IsOver(group, bytes)) return TooMuchOfKey(group.limit_bytes);
  Queue& queue = it == waiting_.end() ? waiting_[client] : it->second;
  // A single message may have any size, otherwise a client that reads would never get it.
  if (const std::uint64_t unsent = queue.UnsentBytes(); unsent > limit_bytes_) {
    return fmt::format(
        "it does not read: {} bytes wait for it, over the limit client_queue_bytes = {}", unsent,
        limit_bytes_);
  }
  Charge(queue, group, bytes);
  queue.messages.push_back({session, std::move(multipart)});
  return std::nullopt;
}

std::uint64_t Outbox::Queue::UnsentBytes() const {
  if (messages.empty()) return 0;
  return bytes - std::min(messages.front().multipart.progress.bytes, bytes);
}

bool Outbox::IsOver(const Group& group, std::uint64_t bytes) {
  if (group.name.empty()) return false;
  const std::string name(group.name);
  const auto it = groups_.find(name);
  const std::uint64_t waits = it == groups_.end() ? 0 : it->second.bytes;
  if (waits + bytes <= group.limit_bytes) return false;
  // Most of these bytes may belong to the space.
  constexpr std::uint64_t kLooksPerLimit = 16;
  if (it == groups_.end() || it->second.since_look < group.limit_bytes / kLooksPerLimit)
    return false;
  if (MemoryOf(name) > group.limit_bytes) return true;
  it->second.since_look = 0;
  return false;
}

// The memory of a payload is divided equally among its owners: the space, and each message with it.
std::uint64_t Outbox::MemoryOf(const std::string& group) const {
  std::uint64_t bytes = 0;
  for (const auto& [client, queue] : waiting_) {
    if (queue.group == group) bytes += MemoryOf(queue);
  }
  return bytes;
}

std::uint64_t Outbox::MemoryOf(const Queue& queue) {
  std::uint64_t bytes = 0;
  for (const Message& message : queue.messages) {
    bytes += sizeof(Message) + message.multipart.control.size();
    for (const Payload& payload : message.multipart.payloads) {
      const auto owners = static_cast<std::uint64_t>(payload.owner().use_count());
      bytes += payload.size() / std::max<std::uint64_t>(1, owners);
    }
  }
  return bytes;
}

std::vector<Outbox::Lost> Outbox::TakeOverLimit(std::int64_t now_us) {
  std::vector<Lost> lost;
  if (now_us < next_look_us_) return lost;
  std::uint64_t looked_at = 0;
  for (const auto& [group, account] : groups_) {
    if (account.bytes > account.limit_bytes) {
      AddOverLimit(group, account.limit_bytes, &lost, &looked_at);
    }
  }
  next_look_us_ = now_us + kLookUs * static_cast<std::int64_t>(1 + looked_at / kMessagesPerLook);
  return lost;
}

// A payload that several of these clients wait for is charged to each in part. So losing the first
// ones may free less than computed; then the next look finds more.
void Outbox::AddOverLimit(const std::string& group, std::uint64_t limit_bytes,
                          std::vector<Lost>* lost, std::uint64_t* looked_at) const {
  std::vector<std::pair<std::uint64_t, ClientId>> by_memory;
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
  for (const auto& [client, queue] : waiting_) {
    if (queue.group != group) continue;
    by_memory.emplace_back(MemoryOf(queue), client);
    bytes += by_memory.back().first;
    messages += queue.messages.size();
  }
  *looked_at += messages;
  if (messages == 1) return;  // it may have any size, otherwise the client would never get it
  std::sort(by_memory.begin(), by_memory.end(), std::greater<>());
  for (const auto& [memory, client] : by_memory) {
    if (bytes <= limit_bytes) return;
    lost->push_back({client, TooMuchOfKey(limit_bytes)});
    bytes -= memory;
  }
}

// A client that joins again may use another key while messages of its earlier session wait.
void Outbox::Charge(Queue& queue, const Group& group, std::uint64_t bytes) {
  if (queue.group != group.name) {
    Uncharge(queue, queue.bytes);
    queue.group = group.name;
    bytes += std::exchange(queue.bytes, 0);
  }
  queue.bytes += bytes;
  if (group.name.empty()) return;
  Account& account = groups_[queue.group];
  account.bytes += bytes;
  account.limit_bytes = group.limit_bytes;
  account.since_look += bytes;
}

void Outbox::Uncharge(const Queue& queue, std::uint64_t bytes) {
  const auto it = groups_.find(queue.group);
  if (it == groups_.end()) return;
  it->second.bytes -= bytes;
  if (it->second.bytes == 0) groups_.erase(it);
}

Outbox::Queues::iterator Outbox::Erase(Queues::iterator queue) {
  Uncharge(queue->second, queue->second.bytes);
  return waiting_.erase(queue);
}

void Outbox::Forget(const ClientId& client) {
  if (const auto it = waiting_.find(client); it != waiting_.end()) Erase(it);
}

std::vector<ClientId> Outbox::Retry(const std::function<bool(const ClientId&)>& knows,
                                    std::int64_t now_us) {
  std::vector<ClientId> gone;
  const bool tries_socket = now_us >= next_socket_retry_us_;
  if (tries_socket && !waiting_.empty()) next_socket_retry_us_ = now_us + kSocketRetryUs;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Queue& queue = it->second;
    bool lost = !knows(it->first);
    while (!lost && !queue.messages.empty()) {
      Message& front = queue.messages.front();
      Multipart& multipart = front.multipart;
      if (!tries_socket && ChannelFor(it->first, front.session, multipart.control,
                                      multipart.payloads, multipart.progress) == nullptr) {
        break;
      }
      const SendResult result = SendNow(it->first, front.session, multipart.control,
                                        multipart.payloads, multipart.progress);
      if (result == SendResult::kFull) break;
      lost = result == SendResult::kUnroutable;
      const std::uint64_t bytes = multipart.Bytes();
      queue.bytes -= bytes;
      Uncharge(queue, bytes);
      queue.messages.pop_front();
    }
    if (lost) gone.push_back(it->first);
    it = lost || queue.messages.empty() ? Erase(it) : std::next(it);
  }
  return gone;
}

}  // namespace tuplespace
