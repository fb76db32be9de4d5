#include <fmt/format.h>

#include <algorithm>

#include "wire.h"

namespace tuplespace {

namespace {

// An upper bound of what FlatBuffers spends on one of our tables, with its offsets, padding and
// share of a vtable.
constexpr std::size_t kTableBytes = 128;

std::size_t Inlined(const Payload& payload) {
  return payload.size() <= kInlinePayloadBytes ? payload.size() : 0;
}

std::size_t Bound(const std::vector<Key>& keys) {
  std::size_t bytes = kTableBytes;
  for (const Key& key : keys) bytes += key.bytes().size() + sizeof(std::uint32_t);
  return bytes;
}

std::size_t Bound(const std::optional<TaskSpec>& task) {
  if (!task) return 0;
  std::size_t bytes =
      2 * kTableBytes + Bound(task->inputs) + Bound(task->results) + task->prefers.size();
  bytes += sizeof(std::uint32_t) * (1 + task->due.size());
  for (const ClientId& client : task->not_by) {
    bytes += 2 * client.size() + 3 + sizeof(std::uint32_t);  // at most: a byte 0 takes two
  }
  return bytes;
}

std::size_t Bound(const std::vector<Tuple>& tuples) {
  std::size_t bytes = kTableBytes;
  for (const Tuple& tuple : tuples) {
    bytes += kTableBytes + tuple.key.bytes().size() + Inlined(tuple.payload) + Bound(tuple.task);
  }
  return bytes;
}

std::size_t Bound(const std::vector<FoundTuple>& tuples) {
  std::size_t bytes = kTableBytes;
  for (const FoundTuple& tuple : tuples) {
    bytes += kTableBytes + tuple.key.bytes().size() + Inlined(tuple.payload) +
             std::min(tuple.put_by.size(), kMaxClientIdBytes);
    if (tuple.place) {
      bytes += kTableBytes + kMaxEndpointBytes + kMaxPublicKeyBytes + tuple.place->ticket.size();
    }
  }
  return bytes;
}

std::size_t Bound(const Pattern& pattern) {
  std::size_t bytes = kTableBytes;
  for (const FieldPattern& field : pattern.fields) {
    const auto* text = std::get_if<std::string>(&field.value);
    // At most: a byte 0 takes two.
    bytes += kTableBytes + (text != nullptr ? 2 * text->size() : 0);
  }
  return bytes;
}

std::size_t Bound(const LeaseRef& lease) {
  return kTableBytes + lease.key.bytes().size();
}

std::size_t BodyBound(const Put& put) {
  return Bound(put.tuples) + (put.under ? Bound(*put.under) : 0);
}
std::size_t BodyBound(const Read& read) {
  std::size_t bytes = 0;
  for (const Pattern& pattern : read.patterns) bytes += Bound(pattern);
  return bytes;
}
std::size_t BodyBound(const List& list) {
  return Bound(list.pattern);
}
std::size_t BodyBound(const Count& count) {
  return Bound(count.pattern);
}
std::size_t BodyBound(const Get& get) {
  return Bound(get.pattern);
}
std::size_t BodyBound(const Complete& complete) {
  return Bound(complete.lease) + Bound(complete.results);
}
std::size_t BodyBound(const Extend& extend) {
  return Bound(extend.lease);
}
std::size_t BodyBound(const Release& release) {
  return Bound(release.lease);
}
std::size_t BodyBound(const Fail& fail) {
  return Bound(fail.lease) + std::min(fail.cause.size(), kMaxTextBytes);
}
std::size_t BodyBound(const Retire& retire) {
  return Bound(retire.pattern) + (retire.under ? Bound(*retire.under) : 0);
}
std::size_t BodyBound(const Hold& hold) {
  return Bound(hold.held) + Bound(hold.dropped);
}
std::size_t BodyBound(const Supply& supply) {
  return Bound(supply.tuples);
}
std::size_t BodyBound(const PutReply& reply) {
  return reply.status.size();
}
std::size_t BodyBound(const Found& found) {
  return Bound(found.tuples);
}
std::size_t BodyBound(const Grants& grants) {
  std::size_t bytes = 0;
  for (const Grant& grant : grants.grants) {
    bytes += kTableBytes + grant.key.bytes().size() + Inlined(grant.payload) + Bound(grant.task) +
             Bound(grant.inputs) + grant.input_sent.size();
  }
  return bytes;
}
std::size_t BodyBound(const CompleteReply& reply) {
  return reply.results.size();
}
std::size_t BodyBound(const Stats&) {
  return 5 * kTableBytes;
}
std::size_t BodyBound(const RequestError& error) {
  return std::min(error.text.size(), kMaxTextBytes);
}
template <typename Small>  // bodies of a few scalars
std::size_t BodyBound(const Small&) {
  return 0;
}

std::size_t Frames(const Payload& payload) {
  return payload.size() > kInlinePayloadBytes ? 1 : 0;
}

template <typename WithPayload>
std::size_t Frames(const std::vector<WithPayload>& tuples) {
  std::size_t frames = 0;
  for (const WithPayload& tuple : tuples) frames += Frames(tuple.payload);
  return frames;
}

}  // namespace

std::size_t ControlBytesBound(const RequestBody& body) {
  return 2 * kTableBytes + std::visit([](const auto& one) { return BodyBound(one); }, body);
}

std::size_t ControlBytesBound(const ReplyBody& body) {
  return 2 * kTableBytes + std::visit([](const auto& one) { return BodyBound(one); }, body);
}

std::size_t PayloadFramesBound(const RequestBody& body) {
  if (const auto* put = std::get_if<Put>(&body)) return Frames(put->tuples);
  if (const auto* complete = std::get_if<Complete>(&body)) return Frames(complete->results);
  if (const auto* supply = std::get_if<Supply>(&body)) return Frames(supply->tuples);
  return 0;
}

std::size_t PayloadFramesBound(const ReplyBody& body) {
  if (const auto* found = std::get_if<Found>(&body)) return Frames(found->tuples);
  const auto* grants = std::get_if<Grants>(&body);
  if (grants == nullptr) return 0;
  std::size_t frames = Frames(grants->grants);
  for (const Grant& grant : grants->grants) frames += Frames(grant.inputs);
  return frames;
}

std::optional<RequestError> ProblemOfSending(const ReplyBody& body) {
  const std::size_t bytes = ControlBytesBound(body);
  if (bytes > kMaxControlBytes) {
    return RequestError{ErrorCode::kTooLarge,
                        fmt::format("the answer needs up to {} bytes of control frame, at most "
                                    "{}: ask for less at once",
                                    bytes, kMaxControlBytes)};
  }
  if (bytes <= kMaxPayloadFrames) return std::nullopt;  // no frame without bytes that name it
  const std::size_t frames = PayloadFramesBound(body);
  if (frames <= kMaxPayloadFrames) return std::nullopt;
  return RequestError{
      ErrorCode::kTooLarge,
      fmt::format("the answer has up to {} payload frames, at most {}: ask for less at once",
                  frames, kMaxPayloadFrames)};
}

}  // namespace tuplespace
