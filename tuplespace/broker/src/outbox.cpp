#include "outbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tuplespace {

SendResult Outbox::SendNow(const ClientId& client, std::uint64_t session,
                           std::span<const std::byte> control, std::span<const Payload> payloads,
                           SendProgress& progress) {
  Channel* const channel = channels_.To(client, session);
  // What has begun in the socket goes on there.
  if (channel != nullptr && progress.bytes == 0 && Channel::Fits(control, payloads)) {
    return channel->Send(control, payloads) ? SendResult::kSent : SendResult::kFull;
  }
  used_socket_ = true;
  const SendResult result = tuplespace::Send(router_, &client, control, payloads, progress);
  if (result == SendResult::kSent) channels_.CountSent(client, session);
  return result;
}

std::optional<std::string> Outbox::Send(const ClientId& client, std::uint64_t session,
                                        std::span<const std::byte> control,
                                        std::vector<Payload> payloads) {
  const auto it = waiting_.find(client);
  SendResult result = SendResult::kFull;
  SendProgress progress;
  if (it == waiting_.end()) result = SendNow(client, session, control, payloads, progress);
  if (result == SendResult::kUnroutable) return "its connection ended";
  if (result == SendResult::kSent || session == 0) return std::nullopt;
  Queue& queue = it == waiting_.end() ? waiting_[client] : it->second;
  // One message may be as large as it likes, or a client that reads would never get it.
  if (const std::uint64_t unsent = queue.UnsentBytes(); unsent > limit_bytes_) {
    return fmt::format(
        "it does not read: {} bytes wait for it, over the limit client_queue_bytes = {}", unsent,
        limit_bytes_);
  }
  Multipart multipart{std::vector<std::byte>(control.begin(), control.end()), std::move(payloads),
                      progress};
  queue.bytes += multipart.Bytes();
  queue.messages.push_back({session, std::move(multipart)});
  return std::nullopt;
}

std::uint64_t Outbox::Queue::UnsentBytes() const {
  if (messages.empty()) return 0;
  return bytes - std::min(messages.front().multipart.progress.bytes, bytes);
}

std::vector<ClientId> Outbox::Retry(const std::function<bool(const ClientId&)>& knows) {
  std::vector<ClientId> gone;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Queue& queue = it->second;
    bool lost = !knows(it->first);
    while (!lost && !queue.messages.empty()) {
      Message& front = queue.messages.front();
      const SendResult result = SendNow(it->first, front.session, front.multipart.control,
                                        front.multipart.payloads, front.multipart.progress);
      if (result == SendResult::kFull) break;
      lost = result == SendResult::kUnroutable;
      queue.bytes -= front.multipart.Bytes();
      queue.messages.pop_front();
    }
    if (lost) gone.push_back(it->first);
    it = lost || queue.messages.empty() ? waiting_.erase(it) : std::next(it);
  }
  return gone;
}

}  // namespace tuplespace
