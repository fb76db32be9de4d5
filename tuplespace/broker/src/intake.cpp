#include "intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "wire.h"

namespace tuplespace {

namespace {

// Limits of what is received from the socket, and from each channel, before answers are sent, and
// of the time for the socket. A client that sends without a pause must not keep others from their
// answers.
constexpr int kTurnMessages = 256;
constexpr std::int64_t kTurnUs = 300;

}  // namespace

int Intake::ReceiveTurn() {
  int received = 0;
  const std::int64_t end_us = sockets_.has_input() ? MonotonicUs() + kTurnUs : 0;
  while (received < kTurnMessages && sockets_.has_input()) {
    if (received > 0 && MonotonicUs() >= end_us) break;
    const ReceiveResult result = sockets_.Receive(message_);
    if (result == ReceiveResult::kNothing) {
      connections_.Drained();
      break;
    }
    ++received;
    if (result == ReceiveResult::kPart) {
      OnPart();
      continue;
    }
    // Messages that the same client sent earlier.
    received +=
        channels_.Read(message_.routing_id, [this](auto& earlier) { OnChannelMessage(earlier); });
    OnMessage();
  }
  received += channels_.ReadAll(kTurnMessages, [this](auto& nearby) { OnChannelMessage(nearby); });
  if (received > 0) BoundUnfinished();
  return received;
}

void Intake::ReceiveLast(const ClientId& client) {
  channels_.Read(client, [this](auto& nearby) { OnChannelMessage(nearby); });
}

// What the sender may do. Null: it is not allowed here, which has been handled completely.
const AccessList::Entry* Intake::Authorized(const ReceivedMultipart& from, std::int64_t now_us) {
  std::string why;
  const AccessList::Entry* who = access_.Find(from.user, from.routing_id, &why);
  if (who != nullptr) return who;
  core_.ReceiveBad(from.routing_id, {ErrorCode::kForbidden, why}, now_us);
  connections_.DropSoon(from.connection, now_us);
  return nullptr;
}

// Part of a message has come through the socket; `message_` says from whom. Only clients that have
// joined may make the broker keep it.
void Intake::OnPart() {
  const std::int64_t now_us = clock_.NowUs();
  const ClientId& client = message_.routing_id;
  const AccessList::Entry* who = access_.has_keys() ? Authorized(message_, now_us) : nullptr;
  connections_.Heard(message_.connection, who != nullptr ? client : "", message_.socket_bytes);
  if ((access_.has_keys() && who == nullptr) ||
      !core_.Heard(client, message_.socket_bytes, now_us)) {
    sockets_.ForgetUnfinished(client);
  }
  BoundUnfinished();
}

// Bounds the memory of unfinished messages by the room in the space, into which most of them go.
// The clients whose messages were dropped, because those of their key were too large together, join
// again and send what is unanswered.
void Intake::BoundUnfinished() {
  const std::uint64_t most =
      std::min(limits_.unfinished_bytes_of_key,
               std::max(limits_.least_unfinished_bytes_of_key, core_.PayloadRoom()));
  sockets_.SetUnfinishedBytesOfKey(most);
  for (const ClientId& client : sockets_.TakeDropped()) {
    if (!core_.Knows(client)) continue;
    core_.GiveUp(client,
                 fmt::format("the unfinished messages of its key have more than {} bytes "
                             "(unfinished_bytes_of_key, or what the space has room for)",
                             most),
                 clock_.NowUs());
  }
}

// A whole message of an allowed client cannot be decoded. Its session is unknown, so records in the
// client's channel might wait for it for ever. The segments that it named are also unknown, so
// these would stay lent. A session with a channel or segments cannot continue.
void Intake::OnUnreadable(const ClientId& client, const RequestError& error, std::int64_t now_us) {
  const bool ends = segments_.Opens(client) && core_.Knows(client);
  core_.ReceiveBad(client, error, now_us, ends);
  if (!ends) return;
  core_.GiveUp(client, "a message of it cannot be read: " + error.text, now_us);
}

// `message_` has come through the socket.
void Intake::OnMessage() {
  const std::int64_t now_us = clock_.NowUs();
  const ClientId& client = message_.routing_id;
  const AccessList::Entry* who = access_.has_keys() ? Authorized(message_, now_us) : nullptr;
  connections_.Heard(message_.connection, who != nullptr ? client : "", message_.socket_bytes);
  if (access_.has_keys() && who == nullptr) return;
  if (client.size() > kMaxClientIdBytes) {
    core_.ReceiveBad(client,
                     {ErrorCode::kBadRequest, fmt::format("the client id has {} bytes, at most {}",
                                                          client.size(), kMaxClientIdBytes)},
                     now_us);
    return;
  }
  if (message_.problem) return OnUnreadable(client, *message_.problem, now_us);
  Understand(message_, who, now_us);
}

// `nearby` has come through the sender's channel.
void Intake::OnChannelMessage(const ReceivedMultipart& nearby) {
  const std::int64_t now_us = clock_.NowUs();
  const AccessList::Entry* who = access_.has_keys() ? Authorized(nearby, now_us) : nullptr;
  if (access_.has_keys() && who == nullptr) return;
  connections_.HeardBeside(nearby.connection, who != nullptr ? nearby.routing_id : "");
  Understand(nearby, who, now_us);
}

void Intake::Understand(const ReceivedMultipart& from, const AccessList::Entry* who,
                        std::int64_t now_us) {
  const ClientId& client = from.routing_id;
  const auto control = decompressor_.Open(from.control(), control_frame_bytes_);
  if (const auto* error = std::get_if<RequestError>(&control))
    return OnUnreadable(client, *error, now_us);
  const bool checks = check_payloads_ || (who != nullptr && who->role->limits.checks_payloads);
  auto decoded = DecodeToBroker(std::get<0>(control), from.payloads, control_frame_bytes_,
                                segments_.From(client), checks);
  if (const auto* error = std::get_if<RequestError>(&decoded))
    return OnUnreadable(client, *error, now_us);
  auto& envelope = std::get<ToBroker>(decoded);
  if (&from == &message_) channels_.CountReceived(client, envelope.session);
  NoteSharing(from, envelope);
  core_.Receive(client, std::move(envelope), now_us, who);
}

void Intake::NoteSharing(const ReceivedMultipart& from, ToBroker& envelope) {
  const ClientId& client = from.routing_id;
  for (ClientMessage& one : envelope.messages) {
    if (auto* hello = std::get_if<Hello>(&one))
      sender_.NoteOffer(client, std::move(hello->sharing));
    const auto* used = std::get_if<ClientSegments>(&one);
    if (used == nullptr) continue;
    segments_.Receive(client, envelope.session, *used);
    if (segments_.To(client) != nullptr) channels_.Proven(client, from.user, from.connection);
  }
}

}  // namespace tuplespace
