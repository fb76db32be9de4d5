#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "wire.h"
#include "wire_generated.h"
#include "wire_reader.h"
#include "wire_stats.h"

namespace tuplespace {

namespace {

constexpr flatbuffers::uoffset_t kMaxDepth = 12;  // the schema nests 8 deep
// Of an envelope to the broker: a message has up to four, a tuple with its task up to six.
constexpr std::size_t kMaxTables = 4 * kMaxMessages + 6 * kMaxItems;

template <typename Body>
const Body& As(const wire::Message& message) {
  const auto* body = static_cast<const Body*>(message.body());
  if (body == nullptr) {
    Refuse("a message of type {} has no body", wire::EnumNameBody(message.body_type()));
  }
  return *body;
}

Get DecodeGet(FrameReader& in, const wire::Get& wire) {
  Get get;
  get.pattern = in.OnePattern(wire.pattern());
  get.offer_bytes = wire.offer_bytes();
  get.max_count = wire.max_count();
  get.with_inputs = wire.with_inputs();
  get.lease_us = in.NotNegative(wire.lease_us(), "lease_us");
  get.wait_us = in.NotNegative(wire.wait_us(), "wait_us");
  get.share = wire.share();
  get.ns_per_kib = wire.ns_per_kib();
  get.direct = wire.direct();
  get.holds_from_bytes = wire.holds_from_bytes();
  return get;
}

void DecodeRequest(FrameReader& in, const wire::Message& message, Request& request) {
  using wire::Body;
  request.id = message.id();
  const Body type = message.body_type();
  if (type == Body::Put) {
    const auto& body = As<wire::Put>(message);
    auto& put = request.body.emplace<Put>();
    put.tuples = in.Tuples(body.tuples());
    if (body.under() != nullptr) put.under = in.Lease(body.under());
  } else if (type == Body::Read) {
    const auto& body = As<wire::Read>(message);
    auto& read = request.body.emplace<Read>();
    if (body.patterns() != nullptr) {
      in.CountItems(body.patterns()->size());
      read.patterns.reserve(body.patterns()->size());
      for (const wire::Pattern* one : *body.patterns()) {
        read.patterns.push_back(in.OnePattern(one));
      }
    }
    read.all = body.all();
    read.metadata_only = body.metadata_only();
    read.wait_us = in.NotNegative(body.wait_us(), "wait_us");
    read.in_space = body.in_space();
    read.direct = body.direct();
  } else if (type == Body::List) {
    const auto& body = As<wire::List>(message);
    request.body = List{in.OnePattern(body.pattern()), body.limit(), body.metadata_only()};
  } else if (type == Body::Count) {
    request.body = Count{in.OnePattern(As<wire::Count>(message).pattern())};
  } else if (type == Body::Get) {
    request.body = DecodeGet(in, As<wire::Get>(message));
  } else if (type == Body::Complete) {
    const auto& body = As<wire::Complete>(message);
    auto& complete = request.body.emplace<Complete>();
    complete.results = in.Tuples(body.results());  // first, as they may be in segments
    complete.lease = in.Lease(body.lease());
  } else if (type == Body::Extend) {
    const auto& body = As<wire::Extend>(message);
    request.body = Extend{in.Lease(body.lease()), in.NotNegative(body.lease_us(), "lease_us")};
  } else if (type == Body::Release) {
    request.body = Release{in.Lease(As<wire::Release>(message).lease())};
  } else if (type == Body::Fail) {
    const auto& body = As<wire::Fail>(message);
    request.body = Fail{in.Lease(body.lease()), in.Text(body.cause(), kMaxTextBytes, "cause")};
  } else if (type == Body::Retire) {
    const auto& body = As<wire::Retire>(message);
    auto& retire = request.body.emplace<Retire>();
    retire.pattern = in.OnePattern(body.pattern());
    retire.watermark = body.watermark();
    if (body.under() != nullptr) retire.under = in.Lease(body.under());
  } else if (type == Body::Hold) {
    const auto& body = As<wire::Hold>(message);
    request.body = Hold{in.Keys(body.held(), "held"), in.Keys(body.dropped(), "dropped")};
  } else if (type == Body::Cancel) {
    request.body = Cancel{As<wire::Cancel>(message).request()};
  } else if (type == Body::GetStats) {
    request.body = GetStats{};
  } else if (type == Body::Supply) {
    request.body.emplace<Supply>().tuples = in.Tuples(As<wire::Supply>(message).tuples());
  } else {
    Refuse("message type {} is not one that a client sends", static_cast<int>(type));
  }
  if (request.id == 0) Refuse("a request has the id 0; ids begin with 1");
}

void DecodeClientMessage(FrameReader& in, const wire::Message& message, ClientMessage& out) {
  if (message.body_type() == wire::Body::Hello) {
    const auto& body = As<wire::Hello>(message);
    out = Hello{body.nonce(), in.Text(body.name(), kMaxNameBytes, "name"), in.Offer(body.sharing()),
                body.decompresses()};
  } else if (message.body_type() == wire::Body::Ping) {
    out = Ping{};
  } else if (message.body_type() == wire::Body::Bye) {
    out = Bye{};
  } else if (message.body_type() == wire::Body::ClientSegments) {
    const auto& body = As<wire::ClientSegments>(message);
    out = ClientSegments{in.Secret(body.sees()), in.Numbers(body.returned()),
                         in.Numbers(body.dropped())};
  } else if (message.body_type() == wire::Body::Listening) {
    const auto& body = As<wire::Listening>(message);
    out = Listening{in.Text(body.endpoint(), kMaxEndpointBytes, "endpoint"),
                    in.Text(body.public_key(), kMaxPublicKeyBytes, "public_key"),
                    in.Secret(body.secret())};
  } else {
    DecodeRequest(in, message, out.emplace<Request>());
  }
}

void DecodeGrant(FrameReader& in, const wire::Grant& wire, Grant& grant) {
  grant.key = in.OneKey(wire.key(), "a granted key");
  grant.payload = in.CheckedContent(wire, &grant.damaged);
  grant.fence = wire.fence();
  grant.lease_us = in.NotNegative(wire.lease_us(), "lease_us");
  in.Task(wire.task(), &grant.task);
  grant.inputs = in.FoundTuples(wire.inputs());
  for (const char sent : in.View(wire.input_sent())) grant.input_sent.push_back(sent != 0);
  if (grant.input_sent.size() != grant.inputs.size()) {
    Refuse("a grant has {} inputs, but input_sent for {}", grant.inputs.size(),
           grant.input_sent.size());
  }
}

Stats DecodeStats(const wire::Stats& wire) {
  Stats stats;
#define TUPLESPACE_COUNTER(name) stats.counters.name = wire.name();
#define TUPLESPACE_GAUGE(name) stats.name = wire.name();
  TUPLESPACE_STATS(TUPLESPACE_COUNTER, TUPLESPACE_GAUGE)
#undef TUPLESPACE_COUNTER
#undef TUPLESPACE_GAUGE
  return stats;
}

RequestError DecodeError(FrameReader& in, const wire::Error& wire) {
  if (wire.code() > wire::ErrorCode::MAX) Refuse("error code {}", static_cast<int>(wire.code()));
  return {static_cast<ErrorCode>(wire.code()), in.Text(wire.text(), kMaxTextBytes, "text")};
}

void DecodeReply(FrameReader& in, const wire::Message& message, ReplyBody& out) {
  using wire::Body;
  const Body type = message.body_type();
  if (type == Body::PutReply) {
    out.emplace<PutReply>().status = in.Statuses(As<wire::PutReply>(message).status());
  } else if (type == Body::Found) {
    const auto& body = As<wire::Found>(message);
    out = Found{in.FoundTuples(body.tuples()), body.timed_out(), body.truncated()};
  } else if (type == Body::CountReply) {
    const auto& body = As<wire::CountReply>(message);
    CountReply& reply = out.emplace<CountReply>();
    reply.count = body.count();
    if (body.tasks_ready() && body.tasks_leased()) {
      reply.tasks = {*body.tasks_ready(), *body.tasks_leased()};
    }
  } else if (type == Body::Grants) {
    std::vector<Grant>& grants = out.emplace<Grants>().grants;
    if (const auto* list = As<wire::Grants>(message).grants()) {
      grants.reserve(list->size());
      for (const wire::Grant* one : *list) DecodeGrant(in, *one, grants.emplace_back());
    }
  } else if (type == Body::CompleteReply) {
    const auto& body = As<wire::CompleteReply>(message);
    out = CompleteReply{in.OneLeaseStatus(body.lease()), in.Statuses(body.results())};
  } else if (type == Body::LeaseReply) {
    out = LeaseReply{in.OneLeaseStatus(As<wire::LeaseReply>(message).lease())};
  } else if (type == Body::RetireReply) {
    const auto& body = As<wire::RetireReply>(message);
    out = RetireReply{body.removed(), in.OneLeaseStatus(body.lease())};
  } else if (type == Body::Ok) {
    out = Ok{};
  } else if (type == Body::Stats) {
    out = DecodeStats(As<wire::Stats>(message));
  } else if (type == Body::Error) {
    out = DecodeError(in, As<wire::Error>(message));
  } else {
    Refuse("message type {} is not one that a broker sends", static_cast<int>(type));
  }
}

BrokerSegments DecodeSegments(FrameReader& in, const wire::BrokerSegments& wire) {
  const std::vector<std::uint64_t> freed = in.Numbers(wire.freed());
  const std::vector<std::uint64_t> spoilt = in.Numbers(wire.spoilt());
  const std::vector<std::uint64_t> counts = in.Numbers(wire.counts());
  if (counts.size() != freed.size() + spoilt.size()) {
    Refuse("{} counts came for {} segments", counts.size(), freed.size() + spoilt.size());
  }
  BrokerSegments segments;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool is_spoilt = i >= freed.size();
    segments.freed.push_back(
        {is_spoilt ? spoilt[i - freed.size()] : freed[i], counts[i], is_spoilt});
  }
  segments.refused = in.Numbers(wire.refused());
  segments.gone = in.Numbers(wire.gone());
  return segments;
}

void DecodeBrokerMessage(FrameReader& in, const wire::Message& message, BrokerMessage& out) {
  using wire::Body;
  const Body type = message.body_type();
  if (type == Body::Notice) {
    const auto& body = As<wire::Notice>(message);
    if (body.kind() > wire::NoticeKind::MAX) {
      Refuse("notice kind {}", static_cast<int>(body.kind()));
    }
    out = Notice{static_cast<Notice::Kind>(body.kind()), in.OneKey(body.key(), "a notice's key"),
                 in.Text(body.by(), kMaxClientIdBytes, "by"),
                 in.Text(body.text(), kMaxTextBytes, "text")};
  } else if (type == Body::Welcome) {
    const auto& body = As<wire::Welcome>(message);
    out = Welcome{body.nonce(),
                  body.session(),
                  in.NotNegative(body.silence_us(), "silence_us"),
                  body.control_frame_bytes(),
                  body.message_bytes(),
                  in.Offer(body.sharing()),
                  in.NotNegative(body.broker_us(), "broker_us"),
                  body.decompresses(),
                  body.life()};
  } else if (type == Body::Pong) {
    out = Pong{in.NotNegative(As<wire::Pong>(message).broker_us(), "broker_us")};
  } else if (type == Body::Done) {
    out = Done{in.Numbers(As<wire::Done>(message).requests())};
  } else if (type == Body::BrokerSegments) {
    out = DecodeSegments(in, As<wire::BrokerSegments>(message));
  } else if (type == Body::Goodbye) {
    out = Goodbye{};
  } else if (type == Body::Error && message.id() == 0) {
    out = DecodeError(in, As<wire::Error>(message));
  } else {
    auto& reply = out.emplace<Reply>();
    reply.id = message.id();
    DecodeReply(in, message, reply.body);
    if (reply.id == 0) Refuse("a reply has the id 0");
  }
}

// FlatBuffers reads scalars in place, so the frame has to be aligned; frames from a socket are not.
class Aligned {
 public:
  explicit Aligned(std::span<const std::byte> bytes) : bytes_(bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint64_t) == 0) return;
    copy_.resize((bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    if (!bytes.empty()) std::memcpy(copy_.data(), bytes.data(), bytes.size());
    bytes_ = std::as_bytes(std::span(copy_)).first(bytes.size());
  }
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(bytes_.data()); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::uint64_t> copy_;
  std::span<const std::byte> bytes_;
};

std::optional<std::uint32_t> VersionOf(const Aligned& bytes, flatbuffers::uoffset_t max_tables) {
  flatbuffers::Verifier prefix(bytes.data(), bytes.size(), kMaxDepth, max_tables);
  if (!prefix.VerifyBuffer<wire::Prefix>(wire::EnvelopeIdentifier())) return std::nullopt;
  return flatbuffers::GetRoot<wire::Prefix>(bytes.data())->version();
}

RequestError OtherVersion(std::uint32_t version) {
  return {ErrorCode::kVersion, fmt::format("the peer speaks protocol version {}, this program "
                                           "speaks version {}: use the same release",
                                           version, kProtocolVersion)};
}

std::variant<const wire::Envelope*, RequestError> Open(const Aligned& control, std::size_t frames,
                                                       std::uint64_t limit_bytes,
                                                       std::size_t most_tables) {
  if (control.size() > limit_bytes) {
    return RequestError{
        ErrorCode::kTooLarge,
        fmt::format("the control frame has {} bytes, at most {}", control.size(), limit_bytes)};
  }
  if (frames > kMaxPayloadFrames) {
    return RequestError{ErrorCode::kTooLarge,
                        fmt::format("{} payload frames, at most {}", frames, kMaxPayloadFrames)};
  }
  // At least as many as an honest frame of this size can hold: a table with its offset takes 8
  // bytes.
  const auto max_tables =
      static_cast<flatbuffers::uoffset_t>(std::min(control.size() / 8 + 16, most_tables));
  flatbuffers::Verifier whole(control.data(), control.size(), kMaxDepth, max_tables);
  if (wire::VerifyEnvelopeBuffer(whole)) {
    const wire::Envelope* const envelope = wire::GetEnvelope(control.data());
    if (envelope->version() != kProtocolVersion) return OtherVersion(envelope->version());
    return envelope;
  }
  // A frame of another version may differ in everything except the version field.
  const auto version = VersionOf(control, max_tables);
  if (!version) {
    return RequestError{ErrorCode::kBadRequest,
                        fmt::format("the control frame of {} bytes is not an \"{}\" FlatBuffer",
                                    control.size(), wire::EnvelopeIdentifier())};
  }
  if (*version != kProtocolVersion) return OtherVersion(*version);
  return RequestError{ErrorCode::kBadRequest,
                      fmt::format("the control frame of {} bytes is damaged, or it has more than "
                                  "{} tables",
                                  control.size(), max_tables)};
}

// The lease of a Complete that cannot be decoded because a result does not have its hash.
std::optional<LeaseRef> LeaseOfDamaged(FrameReader& in, const wire::Message& message,
                                       const BadField& bad) {
  if (bad.code != ErrorCode::kDamaged || message.body_type() != wire::Body::Complete) {
    return std::nullopt;
  }
  try {
    return in.Lease(As<wire::Complete>(message).lease());
  } catch (const BadField&) {
    return std::nullopt;
  }
}

void CheckFrames(const FrameReader& in) {
  if (in.AllFramesUsed()) return;
  throw BadFrame{
      fmt::format("{} payload frames came, but not all of them are named", in.frame_count())};
}

}  // namespace

std::optional<RequestError> VersionProblem(std::span<const std::byte> bytes) {
  constexpr flatbuffers::uoffset_t kPrefixTables = 2;
  const auto version = VersionOf(Aligned(bytes), kPrefixTables);
  if (!version || *version == kProtocolVersion) return std::nullopt;
  return OtherVersion(*version);
}

std::variant<ToBroker, RequestError> DecodeToBroker(std::span<const std::byte> control,
                                                    std::span<const Payload> frames,
                                                    std::uint64_t control_frame_bytes,
                                                    SegmentOpener* opener, bool check_payloads) {
  const Aligned aligned(control);
  const auto opened = Open(aligned, frames.size(), control_frame_bytes, kMaxTables);
  if (const auto* error = std::get_if<RequestError>(&opened)) return *error;
  const wire::Envelope& envelope = *std::get<const wire::Envelope*>(opened);
  ToBroker decoded;
  decoded.session = envelope.session();
  if (envelope.messages() == nullptr) return decoded;
  if (const std::size_t count = envelope.messages()->size(); count > kMaxMessages) {
    return RequestError{ErrorCode::kTooLarge, fmt::format("{} messages in one envelope, at most {}",
                                                          count, kMaxMessages)};
  }
  FrameReader in(control.size(), frames, envelope.session(), opener, check_payloads);
  decoded.messages.reserve(envelope.messages()->size());
  try {
    std::size_t malformed = 0;
    bool complete = true;
    for (const wire::Message* message : *envelope.messages()) {
      if (malformed > kMaxMalformed) break;
      ClientMessage& one = decoded.messages.emplace_back();
      try {
        DecodeClientMessage(in, *message, one);
        in.CheckOpened();
      } catch (BadField& bad) {
        ++malformed;
        complete = false;
        in.ForgetUnopened();
        std::optional<LeaseRef> lease = LeaseOfDamaged(in, *message, bad);
        one = Malformed{message->id(), std::move(bad.text), bad.code, std::move(lease)};
      } catch (Unopened& unopened) {
        complete = false;
        one = Malformed{message->id(), std::move(unopened.text), ErrorCode::kBusy};
      }
    }
    if (complete) CheckFrames(in);
  } catch (BadFrame& bad) {
    return RequestError{ErrorCode::kBadRequest, std::move(bad.text)};
  }
  return decoded;
}

std::variant<ToClient, RequestError> DecodeToClient(std::span<const std::byte> control,
                                                    std::span<const Payload> frames,
                                                    SegmentOpener* opener) {
  const Aligned aligned(control);
  const auto opened =
      Open(aligned, frames.size(), FLATBUFFERS_MAX_BUFFER_SIZE - 1, FLATBUFFERS_MAX_BUFFER_SIZE);
  if (const auto* error = std::get_if<RequestError>(&opened)) return *error;
  const wire::Envelope& envelope = *std::get<const wire::Envelope*>(opened);
  ToClient decoded;
  decoded.session = envelope.session();
  if (envelope.messages() == nullptr) return decoded;
  FrameReader in(control.size(), frames, envelope.session(), opener);
  decoded.messages.reserve(envelope.messages()->size());
  try {
    for (const wire::Message* message : *envelope.messages()) {
      DecodeBrokerMessage(in, *message, decoded.messages.emplace_back());
      in.CheckOpened();
    }
    CheckFrames(in);
  } catch (BadFrame& bad) {
    return RequestError{ErrorCode::kBadRequest, std::move(bad.text)};
  } catch (Unopened& unopened) {
    return RequestError{ErrorCode::kBusy, std::move(unopened.text)};
  } catch (BadField& bad) {
    return RequestError{ErrorCode::kBadRequest, std::move(bad.text)};
  }
  return decoded;
}

}  // namespace tuplespace
