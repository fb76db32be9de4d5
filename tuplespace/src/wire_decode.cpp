#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "wire.h"
#include "wire_generated.h"
#include "wire_stats.h"

namespace tuplespace {

namespace {

constexpr std::uint32_t kNoFrame = UINT32_MAX;
constexpr flatbuffers::uoffset_t kMaxDepth = 12;  // the schema nests 8 deep

// Private to decoding: thrown where a field is found to be wrong, caught per message or frame.
struct BadField {
  std::string text;
};
struct BadFrame {
  std::string text;
};

template <typename... Args>
[[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw BadField{fmt::format(format, std::forward<Args>(args)...)};
}

using WireBytes = flatbuffers::Vector<std::uint8_t>;

class Reader {
 public:
  Reader(std::size_t control_bytes, std::span<const Payload> frames)
      : bytes_left_(control_bytes), frames_(frames), used_(frames.size(), false) {}

  // Every variable part of an honest frame lies in it once, so all together are no longer than the
  // frame; parts that share their bytes could ask for any amount of memory.
  void Spend(std::size_t bytes) {
    if (bytes > bytes_left_) throw BadFrame{"parts of the control frame overlap"};
    bytes_left_ -= bytes;
  }

  std::string_view View(const WireBytes* bytes) {
    if (bytes == nullptr) return {};
    Spend(bytes->size());
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }

  std::string Text(const flatbuffers::String* text, std::size_t limit, const char* what) {
    if (text == nullptr) return {};
    Spend(text->size());
    if (text->size() > limit) Refuse("{} has {} bytes, at most {}", what, text->size(), limit);
    return text->str();
  }

  Key OneKey(std::string_view bytes, const char* what) {
    std::optional<Key> key = Key::FromBytes(bytes);
    if (!key) Refuse("{} is not a canonical key ({} bytes)", what, bytes.size());
    return *std::move(key);
  }
  Key OneKey(const WireBytes* bytes, const char* what) { return OneKey(View(bytes), what); }

  std::vector<Key> Keys(const wire::Keys* wire, const char* what) {
    std::vector<Key> keys;
    if (wire == nullptr) return keys;
    const std::string_view bytes = View(wire->bytes());
    std::size_t begin = 0;
    if (wire->ends() != nullptr) {
      Spend(wire->ends()->size() * sizeof(std::uint32_t));
      keys.reserve(wire->ends()->size());
      for (const std::uint32_t end : *wire->ends()) {
        if (end <= begin || end > bytes.size()) {
          Refuse("{}: key {} ends at byte {}, outside of {}..{}", what, keys.size(), end, begin + 1,
                 bytes.size());
        }
        keys.push_back(OneKey(bytes.substr(begin, end - begin), what));
        begin = end;
      }
    }
    if (begin != bytes.size()) {
      Refuse("{}: {} bytes behind the last key", what, bytes.size() - begin);
    }
    return keys;
  }

  Payload Content(const WireBytes* inlined, std::uint32_t frame) {
    if (frame != kNoFrame) {
      if (frame >= frames_.size()) {
        Refuse("payload frame {} is named, but {} came", frame, frames_.size());
      }
      used_[frame] = true;
      if (inlined != nullptr) Refuse("a payload is both inline and in frame {}", frame);
      return frames_[frame];
    }
    const std::string_view bytes = View(inlined);
    if (bytes.size() > kInlinePayloadBytes) {
      Refuse("an inline payload has {} bytes, at most {}; longer ones need a frame", bytes.size(),
             kInlinePayloadBytes);
    }
    if (bytes.empty()) return {};
    auto owner = std::make_shared_for_overwrite<std::byte[]>(bytes.size());
    std::memcpy(owner.get(), bytes.data(), bytes.size());
    const std::byte* data = owner.get();
    return Payload(std::move(owner), data, bytes.size());
  }

  std::optional<TaskSpec> Task(const wire::TaskSpec* wire) {
    if (wire == nullptr) return std::nullopt;
    TaskSpec task;
    task.inputs = Keys(wire->inputs(), "task inputs");
    task.need_bytes = wire->need_bytes();
    task.priority = wire->priority();
    task.lease_us = NotNegative(wire->lease_us(), "lease_us");
    task.affinity = wire->affinity();
    if (task.affinity < -1 || task.affinity >= static_cast<std::int64_t>(task.inputs.size())) {
      Refuse("affinity {} is neither -1 nor an index into {} inputs", task.affinity,
             task.inputs.size());
    }
    return task;
  }

  using WireTuples = flatbuffers::Vector<flatbuffers::Offset<wire::Tuple>>;
  std::vector<Tuple> Tuples(const WireTuples* wire) {
    std::vector<Tuple> tuples;
    if (wire == nullptr) return tuples;
    tuples.reserve(wire->size());
    for (const wire::Tuple* one : *wire) {
      Tuple& tuple = tuples.emplace_back();
      tuple.key = OneKey(one->key(), "a tuple's key");
      tuple.payload = Content(one->payload(), one->frame());
      tuple.task = Task(one->task());
      tuple.ephemeral = one->ephemeral();
      tuple.held = one->held();
    }
    return tuples;
  }

  using WireFound = flatbuffers::Vector<flatbuffers::Offset<wire::FoundTuple>>;
  std::vector<FoundTuple> FoundTuples(const WireFound* wire) {
    std::vector<FoundTuple> tuples;
    if (wire == nullptr) return tuples;
    tuples.reserve(wire->size());
    for (const wire::FoundTuple* one : *wire) {
      FoundTuple& tuple = tuples.emplace_back();
      tuple.key = OneKey(one->key(), "a found key");
      tuple.payload = Content(one->payload(), one->frame());
      tuple.payload_bytes = one->payload_bytes();
      tuple.put_by = Text(one->put_by(), kMaxClientIdBytes, "put_by");
    }
    return tuples;
  }

  FieldPattern OneField(const wire::FieldPattern& wire) {
    FieldPattern field;
    if (wire.op() > wire::Op::MAX) {
      Refuse("a field pattern has op {}, at most {}", static_cast<int>(wire.op()),
             static_cast<int>(wire::Op::MAX));
    }
    field.op = static_cast<FieldPattern::Op>(wire.op());
    if (wire.text() != nullptr) {
      if (wire.integer() != 0) Refuse("a field pattern has an integer and a string");
      field.value = std::string(View(wire.text()));
    } else {
      field.value = wire.integer();
    }
    if (field.op == FieldPattern::Op::kAny && (wire.text() != nullptr || wire.integer() != 0)) {
      Refuse("a field pattern for any value has a value");
    }
    return field;
  }

  Pattern OnePattern(const wire::Pattern* wire) {
    if (wire == nullptr) Refuse("the pattern is missing");
    Pattern pattern;
    if (wire->fields() != nullptr) {
      if (wire->fields()->size() > kMaxKeyFields) {
        Refuse("a pattern has {} fields, at most {}", wire->fields()->size(), kMaxKeyFields);
      }
      for (const wire::FieldPattern* field : *wire->fields()) {
        pattern.fields.push_back(OneField(*field));
      }
    }
    pattern.open = wire->open();
    if (const auto problem = pattern.Problem()) Refuse("bad pattern: {}", *problem);
    return pattern;
  }

  LeaseRef Lease(const wire::Lease* wire) {
    if (wire == nullptr) Refuse("the lease is missing");
    return {OneKey(wire->key(), "the lease's key"), wire->fence()};
  }

  std::vector<PutStatus> Statuses(const WireBytes* wire) {
    std::vector<PutStatus> statuses;
    for (const char raw : View(wire)) {
      const auto value = static_cast<std::uint8_t>(raw);
      if (value > static_cast<std::uint8_t>(PutStatus::kRetired)) Refuse("put status {}", value);
      statuses.push_back(static_cast<PutStatus>(value));
    }
    return statuses;
  }

  LeaseStatus OneLeaseStatus(wire::LeaseStatus wire) {
    if (wire > wire::LeaseStatus::MAX) Refuse("lease status {}", static_cast<int>(wire));
    return static_cast<LeaseStatus>(wire);
  }

  std::int64_t NotNegative(std::int64_t value, const char* what) {
    if (value < 0) Refuse("{} is {}, not a duration", what, value);
    return value;
  }

  bool AllFramesUsed() const { return std::find(used_.begin(), used_.end(), false) == used_.end(); }
  std::size_t frame_count() const { return frames_.size(); }

 private:
  std::size_t bytes_left_;
  std::span<const Payload> frames_;
  std::vector<bool> used_;
};

template <typename Body>
const Body& As(const wire::Message& message) {
  const auto* body = static_cast<const Body*>(message.body());
  if (body == nullptr) {
    Refuse("a message of type {} has no body", wire::EnumNameBody(message.body_type()));
  }
  return *body;
}

Request DecodeRequest(Reader& in, const wire::Message& message) {
  using wire::Body;
  Request request;
  request.id = message.id();
  const Body type = message.body_type();
  if (type == Body::Put) {
    request.body = Put{in.Tuples(As<wire::Put>(message).tuples())};
  } else if (type == Body::Read) {
    const auto& body = As<wire::Read>(message);
    Read read;
    if (body.patterns() != nullptr) {
      for (const wire::Pattern* one : *body.patterns()) {
        read.patterns.push_back(in.OnePattern(one));
      }
    }
    read.all = body.all();
    read.metadata_only = body.metadata_only();
    read.wait_us = in.NotNegative(body.wait_us(), "wait_us");
    request.body = std::move(read);
  } else if (type == Body::List) {
    const auto& body = As<wire::List>(message);
    request.body = List{in.OnePattern(body.pattern()), body.limit(), body.metadata_only()};
  } else if (type == Body::Count) {
    request.body = Count{in.OnePattern(As<wire::Count>(message).pattern())};
  } else if (type == Body::Get) {
    const auto& body = As<wire::Get>(message);
    request.body = Get{in.OnePattern(body.pattern()),
                       body.offer_bytes(),
                       body.max_count(),
                       body.with_inputs(),
                       in.NotNegative(body.lease_us(), "lease_us"),
                       in.NotNegative(body.wait_us(), "wait_us")};
  } else if (type == Body::Complete) {
    const auto& body = As<wire::Complete>(message);
    request.body = Complete{in.Lease(body.lease()), in.Tuples(body.results())};
  } else if (type == Body::Extend) {
    const auto& body = As<wire::Extend>(message);
    request.body = Extend{in.Lease(body.lease()), in.NotNegative(body.lease_us(), "lease_us")};
  } else if (type == Body::Store) {
    request.body = Store{in.Lease(As<wire::Store>(message).lease())};
  } else if (type == Body::Fail) {
    const auto& body = As<wire::Fail>(message);
    request.body = Fail{in.Lease(body.lease()), in.Text(body.cause(), kMaxTextBytes, "cause")};
  } else if (type == Body::Retire) {
    const auto& body = As<wire::Retire>(message);
    request.body = Retire{in.OnePattern(body.pattern()), body.watermark()};
  } else if (type == Body::Hold) {
    const auto& body = As<wire::Hold>(message);
    request.body = Hold{in.Keys(body.held(), "held"), in.Keys(body.dropped(), "dropped")};
  } else if (type == Body::Cancel) {
    request.body = Cancel{As<wire::Cancel>(message).request()};
  } else if (type == Body::GetStats) {
    request.body = GetStats{};
  } else {
    Refuse("message type {} is not one that a client sends", static_cast<int>(type));
  }
  if (request.id == 0) Refuse("a request has the id 0; ids begin with 1");
  return request;
}

ClientMessage DecodeClientMessage(Reader& in, const wire::Message& message) {
  if (message.body_type() == wire::Body::Hello) {
    const auto& body = As<wire::Hello>(message);
    return Hello{body.nonce(), in.Text(body.name(), kMaxNameBytes, "name")};
  }
  if (message.body_type() == wire::Body::Ping) return Ping{};
  if (message.body_type() == wire::Body::Bye) return Bye{};
  return DecodeRequest(in, message);
}

Grant DecodeGrant(Reader& in, const wire::Grant& wire) {
  Grant grant;
  grant.key = in.OneKey(wire.key(), "a granted key");
  grant.payload = in.Content(wire.payload(), wire.frame());
  grant.fence = wire.fence();
  grant.lease_us = in.NotNegative(wire.lease_us(), "lease_us");
  grant.task = in.Task(wire.task());
  grant.inputs = in.FoundTuples(wire.inputs());
  for (const char sent : in.View(wire.input_sent())) grant.input_sent.push_back(sent != 0);
  if (grant.input_sent.size() != grant.inputs.size()) {
    Refuse("a grant has {} inputs, but input_sent for {}", grant.inputs.size(),
           grant.input_sent.size());
  }
  return grant;
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

Error DecodeError(Reader& in, const wire::Error& wire) {
  if (wire.code() > wire::ErrorCode::MAX) Refuse("error code {}", static_cast<int>(wire.code()));
  return {static_cast<ErrorCode>(wire.code()), in.Text(wire.text(), kMaxTextBytes, "text")};
}

ReplyBody DecodeReply(Reader& in, const wire::Message& message) {
  using wire::Body;
  const Body type = message.body_type();
  if (type == Body::PutReply) {
    return PutReply{in.Statuses(As<wire::PutReply>(message).status())};
  }
  if (type == Body::Found) {
    const auto& body = As<wire::Found>(message);
    return Found{in.FoundTuples(body.tuples()), body.timed_out(), body.truncated()};
  }
  if (type == Body::CountReply) return CountReply{As<wire::CountReply>(message).count()};
  if (type == Body::Grants) {
    Grants grants;
    const auto* list = As<wire::Grants>(message).grants();
    if (list != nullptr) {
      for (const wire::Grant* one : *list) grants.grants.push_back(DecodeGrant(in, *one));
    }
    return grants;
  }
  if (type == Body::CompleteReply) {
    const auto& body = As<wire::CompleteReply>(message);
    return CompleteReply{in.OneLeaseStatus(body.lease()), in.Statuses(body.results())};
  }
  if (type == Body::LeaseReply) {
    return LeaseReply{in.OneLeaseStatus(As<wire::LeaseReply>(message).lease())};
  }
  if (type == Body::RetireReply) return RetireReply{As<wire::RetireReply>(message).removed()};
  if (type == Body::Ok) return Ok{};
  if (type == Body::Stats) return DecodeStats(As<wire::Stats>(message));
  if (type == Body::Error) return DecodeError(in, As<wire::Error>(message));
  Refuse("message type {} is not one that a broker sends", static_cast<int>(type));
}

BrokerMessage DecodeBrokerMessage(Reader& in, const wire::Message& message) {
  using wire::Body;
  const Body type = message.body_type();
  if (type == Body::Notice) {
    const auto& body = As<wire::Notice>(message);
    if (body.kind() > wire::NoticeKind::MAX) {
      Refuse("notice kind {}", static_cast<int>(body.kind()));
    }
    return Notice{static_cast<Notice::Kind>(body.kind()), in.OneKey(body.key(), "a notice's key"),
                  in.Text(body.by(), kMaxClientIdBytes, "by"),
                  in.Text(body.text(), kMaxTextBytes, "text")};
  }
  if (type == Body::Welcome) {
    const auto& body = As<wire::Welcome>(message);
    return Welcome{body.nonce(), body.session(), in.NotNegative(body.silence_us(), "silence_us"),
                   body.control_frame_bytes(), body.message_bytes()};
  }
  if (type == Body::Pong) return Pong{};
  if (type == Body::Goodbye) return Goodbye{};
  if (type == Body::Error && message.id() == 0) return DecodeError(in, As<wire::Error>(message));
  Reply reply{message.id(), DecodeReply(in, message)};
  if (reply.id == 0) Refuse("a reply has the id 0");
  return reply;
}

// FlatBuffers reads scalars in place, so the frame has to be aligned; frames from a socket are not.
class Aligned {
 public:
  explicit Aligned(std::span<const std::byte> bytes) : bytes_(bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint64_t) == 0) return;
    copy_.resize((bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    std::memcpy(copy_.data(), bytes.data(), bytes.size());
    bytes_ = std::as_bytes(std::span(copy_)).first(bytes.size());
  }
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(bytes_.data()); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::uint64_t> copy_;
  std::span<const std::byte> bytes_;
};

std::variant<const wire::Envelope*, Error> Open(const Aligned& control, std::size_t frames,
                                                std::uint64_t limit_bytes) {
  if (control.size() > limit_bytes) {
    return Error{ErrorCode::kTooLarge, fmt::format("the control frame has {} bytes, at most {}",
                                                   control.size(), limit_bytes)};
  }
  if (frames > kMaxPayloadFrames) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("{} payload frames, at most {}", frames, kMaxPayloadFrames)};
  }
  // Not fewer than any honest frame of this size can hold: a table with its offset takes 8 bytes.
  const auto max_tables = static_cast<flatbuffers::uoffset_t>(control.size() / 8 + 16);
  flatbuffers::Verifier prefix(control.data(), control.size(), kMaxDepth, max_tables);
  if (!prefix.VerifyBuffer<wire::Prefix>(wire::EnvelopeIdentifier())) {
    return Error{ErrorCode::kBadRequest,
                 fmt::format("the control frame of {} bytes is not an \"{}\" FlatBuffer",
                             control.size(), wire::EnvelopeIdentifier())};
  }
  const std::uint32_t version = flatbuffers::GetRoot<wire::Prefix>(control.data())->version();
  if (version != kProtocolVersion) {
    return Error{ErrorCode::kVersion, fmt::format("the peer speaks protocol version {}, this "
                                                  "program speaks version {}: use the same release",
                                                  version, kProtocolVersion)};
  }
  flatbuffers::Verifier whole(control.data(), control.size(), kMaxDepth, max_tables);
  if (!wire::VerifyEnvelopeBuffer(whole)) {
    return Error{ErrorCode::kBadRequest,
                 fmt::format("the control frame of {} bytes is damaged", control.size())};
  }
  return wire::GetEnvelope(control.data());
}

void CheckFrames(const Reader& in) {
  if (in.AllFramesUsed()) return;
  throw BadFrame{
      fmt::format("{} payload frames came, but not all of them are named", in.frame_count())};
}

}  // namespace

std::variant<ToBroker, Error> DecodeToBroker(std::span<const std::byte> control,
                                             std::span<const Payload> frames,
                                             std::uint64_t control_frame_bytes) {
  const Aligned aligned(control);
  const auto opened = Open(aligned, frames.size(), control_frame_bytes);
  if (const auto* error = std::get_if<Error>(&opened)) return *error;
  const wire::Envelope& envelope = *std::get<const wire::Envelope*>(opened);
  ToBroker decoded;
  decoded.session = envelope.session();
  if (envelope.messages() == nullptr) return decoded;
  Reader in(control.size(), frames);
  decoded.messages.reserve(envelope.messages()->size());
  try {
    bool malformed = false;
    for (const wire::Message* message : *envelope.messages()) {
      try {
        decoded.messages.push_back(DecodeClientMessage(in, *message));
      } catch (BadField& bad) {
        malformed = true;
        decoded.messages.push_back(Malformed{message->id(), std::move(bad.text)});
      }
    }
    if (!malformed) CheckFrames(in);
  } catch (BadFrame& bad) {
    return Error{ErrorCode::kBadRequest, std::move(bad.text)};
  }
  return decoded;
}

std::variant<ToClient, Error> DecodeToClient(std::span<const std::byte> control,
                                             std::span<const Payload> frames) {
  const Aligned aligned(control);
  const auto opened = Open(aligned, frames.size(), FLATBUFFERS_MAX_BUFFER_SIZE - 1);
  if (const auto* error = std::get_if<Error>(&opened)) return *error;
  const wire::Envelope& envelope = *std::get<const wire::Envelope*>(opened);
  ToClient decoded;
  decoded.session = envelope.session();
  if (envelope.messages() == nullptr) return decoded;
  Reader in(control.size(), frames);
  decoded.messages.reserve(envelope.messages()->size());
  try {
    for (const wire::Message* message : *envelope.messages()) {
      decoded.messages.push_back(DecodeBrokerMessage(in, *message));
    }
    CheckFrames(in);
  } catch (BadFrame& bad) {
    return Error{ErrorCode::kBadRequest, std::move(bad.text)};
  } catch (BadField& bad) {
    return Error{ErrorCode::kBadRequest, std::move(bad.text)};
  }
  return decoded;
}

}  // namespace tuplespace
