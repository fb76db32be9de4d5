// ClientSession: what happens to an answer: it is delivered, requested again, or released.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client_session.h"
#include "tuplespace/client.h"

namespace tuplespace {

namespace {

// A payload that is damaged this often in a row is damaged at its source, so asking again is
// useless.
constexpr int kMaxDamaged = 3;

std::string DamageText(const Key& key, const ClientId& put_by, std::uint64_t bytes) {
  std::string what = "the payload of " + key.ToString();
  if (!put_by.empty()) what += fmt::format(" ({} bytes, put by \"{}\")", bytes, put_by);
  return what + " does not have the hash that came with it";
}

}  // namespace

void ClientSession::OnDone(RequestId id, std::int64_t now_us) {
  if (state_ != State::kJoined) return;
  const auto it = requests_.pending.find(id);
  if (it == requests_.pending.end()) return;
  if (auto body = DoneReply(it->second.request.body)) {
    OnReply({id, *std::move(body)}, now_us);
  } else {
    Fail({ErrorCode::kBadRequest, fmt::format("request {} is said to be done, which answers no "
                                              "request of its kind",
                                              id)});
  }
}

void ClientSession::OnReply(Reply&& reply, std::int64_t now_us) {
  const auto it = requests_.pending.find(reply.id);
  if (it == requests_.pending.end()) {
    PutBack(reply.body, now_us);
    return;
  }
  Pending& pending = it->second;
  const auto* error = std::get_if<RequestError>(&reply.body);
  if (error != nullptr && error->code == ErrorCode::kBusy) {
    NoteBusy(pending.busy_delay_us,
             "it has had no room for a request for several seconds: " + error->text, now_us);
    return TryLater(pending, now_us);
  }
  if (error != nullptr && error->code == ErrorCode::kDamaged) {
    events_.emplace_back(PayloadDamaged{error->text});
    if (++pending.damaged < kMaxDamaged) return TryLater(pending, now_us);
  }
  if (AsksAgain(reply, pending, now_us)) return Queue(reply.id, pending);
  // A Get that was replaced while its answer was in flight is open again at the broker.
  const bool open_again = pending.sent > 1 && std::holds_alternative<Get>(pending.request.body);
  const bool internal = pending.internal;
  Erase(requests_.pending.find(
      reply.id));  // insertions in the meantime may have invalidated iterators
  if (open_again) Insert(Cancel{reply.id}, /*internal=*/true, now_us);
  if (!internal) events_.emplace_back(std::move(reply));
}

void ClientSession::TryLater(Pending& pending, std::int64_t now_us) {
  if (pending.backing_off || pending.queued) return;
  pending.busy_delay_us =
      std::clamp(2 * pending.busy_delay_us, options_.min_busy_delay_us, options_.max_busy_delay_us);
  pending.backing_off = true;
  pending.sent = 0;  // it is not open at the broker
  requests_.retries.emplace(now_us + pending.busy_delay_us, pending.request.id);
}

// Whether an answer has damaged payloads and must be requested again. A payload damaged at its
// source becomes a RequestError. A damaged input of a granted task counts as one that was not sent.
bool ClientSession::AsksAgain(Reply& reply, Pending& pending, std::int64_t now_us) {
  if (auto* grants = std::get_if<Grants>(&reply.body)) {
    return DropDamaged(*grants, pending, now_us);
  }
  const auto* found = std::get_if<Found>(&reply.body);
  if (found == nullptr) return false;
  const auto at = std::find_if(found->tuples.begin(), found->tuples.end(),
                               [](const FoundTuple& tuple) { return tuple.damaged; });
  if (at == found->tuples.end()) return false;
  std::string text = DamageText(at->key, at->put_by, at->payload_bytes);
  events_.emplace_back(PayloadDamaged{text});
  if (++pending.damaged < kMaxDamaged) return true;
  reply.body = RequestError{ErrorCode::kDamaged, std::move(text)};
  return false;
}

bool ClientSession::DropDamaged(Grants& grants, Pending& pending, std::int64_t now_us) {
  const bool had = !grants.grants.empty();
  for (Grant& grant : grants.grants) {
    for (std::size_t i = 0; i < grant.inputs.size(); ++i) {
      FoundTuple& input = grant.inputs[i];
      if (!std::exchange(input.damaged, false)) continue;
      grant.input_sent[i] = false;
      events_.emplace_back(
          PayloadDamaged{DamageText(input.key, input.put_by, input.payload_bytes)});
    }
    if (!grant.damaged) continue;
    const std::string text = DamageText(grant.key, "", 0);
    events_.emplace_back(PayloadDamaged{text});
    const LeaseRef lease{grant.key, grant.fence};
    if (++pending.damaged < kMaxDamaged) {
      Insert(Release{lease}, /*internal=*/true, now_us);
    } else {
      Insert(tuplespace::Fail{lease, text}, /*internal=*/true, now_us);
    }
  }
  std::erase_if(grants.grants, [](const Grant& grant) { return grant.damaged; });
  return had && grants.grants.empty();
}

void ClientSession::PutBack(const ReplyBody& body, std::int64_t now_us) {
  const auto* grants = std::get_if<Grants>(&body);
  if (grants == nullptr) return;
  for (const Grant& grant : grants->grants) {
    Insert(Release{{grant.key, grant.fence}}, /*internal=*/true, now_us);
  }
}

}  // namespace tuplespace
