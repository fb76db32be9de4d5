#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "key_encoding.h"
#include "wire.h"
#include "wire_generated.h"
#include "wire_stats.h"

namespace tuplespace {

namespace {

using flatbuffers::Offset;
using Bytes = Offset<flatbuffers::Vector<std::uint8_t>>;

constexpr std::uint32_t kNoFrame = UINT32_MAX;

struct WirePayload {
  Bytes inlined;
  std::uint32_t frame = kNoFrame;
  std::optional<wire::Hash> hash;
  std::optional<wire::Segment> segment;
  const wire::Hash* hash_or_null() const { return hash ? &*hash : nullptr; }
  const wire::Segment* shared() const { return segment ? &*segment : nullptr; }
};

std::optional<wire::Hash> ToWire(const std::optional<PayloadHash>& hash) {
  if (!hash) return std::nullopt;
  return wire::Hash(hash->low, hash->high);
}

}  // namespace

struct Encoder::Impl {
  flatbuffers::FlatBufferBuilder builder{4096};
  std::vector<Offset<wire::Message>> messages;
  std::vector<Offset<wire::Grant>> granted;  // of the message in progress
  // Reused for one pattern after the other.
  std::string scratch;
  std::vector<Payload> frames;
  std::uint64_t frame_bytes = 0;
  std::unordered_map<const std::byte*, std::uint32_t> frame_of;  // a shared payload has one frame
  std::uint64_t session = 0;
  SegmentNamer* namer = nullptr;
  std::uint32_t version = kProtocolVersion;
  std::size_t compressed_limit = 0;  // EncodeFor::compressed_limit
  std::size_t message_bound = 0;     // bound of the message in progress (ControlBytesBound)
  bool finished = false;

  void Message(RequestId id, wire::Body type, Offset<void> body) {
    messages.push_back(wire::CreateMessage(builder, id, type, body));
  }

  Bytes Raw(std::string_view bytes) {
    if (bytes.empty()) return 0;
    return builder.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }

  Offset<flatbuffers::String> Text(std::string_view text, std::size_t limit) {
    if (text.empty()) return 0;
    text = text.substr(0, limit);
    return builder.CreateString(text.data(), text.size());
  }

  Offset<flatbuffers::Vector<std::uint64_t>> Numbers(const std::vector<std::uint64_t>& numbers) {
    return numbers.empty() ? 0 : builder.CreateVector(numbers);
  }

  Offset<wire::Sharing> Offer(const std::optional<Sharing>& sharing) {
    if (!sharing) return 0;
    const Bytes proof = Raw(sharing->proof);
    const Bytes sees = Raw(sharing->sees);
    return wire::CreateSharing(builder, sharing->pid, sharing->fd, sharing->ring_fd,
                               sharing->wake_fd, proof, sees);
  }

  Offset<wire::Keys> Keys(const std::vector<Key>& keys) {
    if (keys.empty()) return 0;
    std::size_t size = 0;
    for (const Key& key : keys) size += key.bytes().size();
    std::uint8_t* at = nullptr;
    const Bytes bytes = size == 0 ? Bytes() : builder.CreateUninitializedVector(size, &at);
    for (const Key& key : keys) {
      if (key.empty()) continue;
      std::memcpy(at, key.bytes().data(), key.bytes().size());
      at += key.bytes().size();
    }
    std::uint32_t* next = nullptr;
    const auto ends = builder.CreateUninitializedVector(keys.size(), &next);
    std::uint32_t end = 0;
    for (const Key& key : keys) {
      end += static_cast<std::uint32_t>(key.bytes().size());
      flatbuffers::WriteScalar(next++, end);
    }
    return wire::CreateKeys(builder, bytes, ends);
  }

  // Whether the payload may be compressed as part of the control frame, within the frame's limit.
  bool FitsInline(const Payload& payload) const {
    return payload.size() <= kMaxInlinePayloadBytes &&
           builder.GetSize() + message_bound + payload.size() <= compressed_limit;
  }

  WirePayload Content(const Payload& payload) {
    WirePayload wire;
    wire.hash = ToWire(payload.hash());
    if (payload.size() <= kInlinePayloadBytes || FitsInline(payload)) {
      wire.inlined = Raw(payload.text());
      return wire;
    }
    if (namer != nullptr && payload.region() != nullptr) {
      if (const auto ref = namer->Name(payload)) {
        wire.segment.emplace(ref->id, ref->bytes, ref->fd);
        return wire;
      }
    }
    const auto next = static_cast<std::uint32_t>(frames.size());
    const auto [known, fresh] = frame_of.try_emplace(payload.data(), next);
    if (!fresh && frames[known->second].size() == payload.size()) {
      wire.frame = known->second;
      return wire;
    }
    known->second = next;
    frames.push_back(payload);
    frame_bytes += payload.size();
    wire.frame = next;
    return wire;
  }

  Offset<flatbuffers::Vector<std::uint32_t>> Due(const std::vector<std::uint32_t>& due) {
    return due.empty() ? 0 : builder.CreateVector(due);
  }

  Offset<wire::TaskSpec> Task(const std::optional<TaskSpec>& task) {
    if (!task) return 0;
    std::vector<Key> not_by;
    for (const ClientId& client : task->not_by) not_by.push_back(Key{client});
    const Offset<wire::Keys> inputs = Keys(task->inputs);
    const Offset<flatbuffers::String> prefers =
        task->prefers.empty() ? 0 : builder.CreateString(task->prefers);
    return wire::CreateTaskSpec(builder, inputs, task->need_bytes, task->priority, task->lease_us,
                                task->affinity, Keys(not_by), Keys(task->results), prefers,
                                task->prefer_us, Due(task->due), task->most_result_bytes);
  }

  Offset<flatbuffers::Vector<Offset<wire::Tuple>>> Tuples(const std::vector<Tuple>& tuples) {
    std::vector<Offset<wire::Tuple>> offsets;
    offsets.reserve(tuples.size());
    for (const Tuple& tuple : tuples) {
      const Bytes key = Raw(tuple.key.bytes());
      WirePayload payload = Content(tuple.payload);
      // Only the producer of a payload encodes it as part of a Tuple.
      if (!tuple.payload.empty() && !payload.hash) {
        payload.hash = ToWire(HashOf(tuple.payload.bytes()));
      }
      const Offset<wire::TaskSpec> task = Task(tuple.task);
      offsets.push_back(wire::CreateTuple(builder, key, payload.inlined, payload.frame, task,
                                          tuple.ephemeral, tuple.held, payload.hash_or_null(),
                                          payload.shared(), tuple.resident_bytes));
    }
    return builder.CreateVector(offsets);
  }

  Offset<wire::Place> OnePlace(const Place* place) {
    if (place == nullptr) return 0;
    const auto endpoint = Text(place->endpoint, kMaxEndpointBytes);
    const auto public_key = Text(place->public_key, kMaxPublicKeyBytes);
    return wire::CreatePlace(builder, endpoint, public_key, Raw(place->ticket));
  }

  Offset<flatbuffers::Vector<Offset<wire::FoundTuple>>> FoundTuples(
      const std::vector<FoundTuple>& tuples) {
    if (tuples.empty()) return 0;
    std::vector<Offset<wire::FoundTuple>> offsets;
    offsets.reserve(tuples.size());
    for (const FoundTuple& tuple : tuples) {
      const Bytes key = Raw(tuple.key.bytes());
      const WirePayload payload = Content(tuple.payload);
      const auto put_by = Text(tuple.put_by, kMaxClientIdBytes);
      const std::optional<wire::Hash> hash = ToWire(tuple.hash);
      const Offset<wire::Place> place = OnePlace(tuple.place.get());
      offsets.push_back(wire::CreateFoundTuple(
          builder, key, payload.inlined, payload.frame, tuple.payload_bytes, put_by, tuple.took_us,
          tuple.times_taken, hash ? &*hash : nullptr, payload.shared(), tuple.resident, place));
    }
    return builder.CreateVector(offsets);
  }

  Offset<wire::Pattern> OnePattern(const Pattern& pattern) {
    const auto has_value = [](const FieldPattern& field) {
      return field.op != FieldPattern::Op::kAny;
    };
    std::size_t size = pattern.fields.size();
    for (const FieldPattern& field : pattern.fields) {
      if (has_value(field)) size += internal::FieldBytes(internal::ViewOf(field.value));
    }
    scratch.resize(size);
    char* at = scratch.data();
    for (const FieldPattern& field : pattern.fields) {
      *at++ = static_cast<char>(field.op);
      if (has_value(field)) at = internal::WriteField(internal::ViewOf(field.value), at);
    }
    return wire::CreatePattern(builder, Raw(scratch), pattern.open);
  }

  Offset<wire::Lease> Lease(const LeaseRef& lease) {
    return wire::CreateLease(builder, Raw(lease.key.bytes()), lease.fence);
  }

  Bytes Statuses(const std::vector<PutStatus>& statuses) {
    return Raw({reinterpret_cast<const char*>(statuses.data()), statuses.size()});
  }

  Offset<wire::Grant> OneGrant(const Grant& grant) {
    const Bytes key = Raw(grant.key.bytes());
    const WirePayload payload = Content(grant.payload);
    const Offset<wire::TaskSpec> task = Task(grant.task);
    const auto inputs = FoundTuples(grant.inputs);
    std::string sent;
    for (const bool one : grant.input_sent) sent.push_back(one ? 1 : 0);
    return wire::CreateGrant(builder, key, payload.inlined, payload.frame, grant.fence,
                             grant.lease_us, task, inputs, Raw(sent), payload.hash_or_null(),
                             payload.shared());
  }

  void Body(RequestId id, const Put& put) {
    const auto tuples = Tuples(put.tuples);
    const Offset<wire::Lease> under = put.under ? Lease(*put.under) : Offset<wire::Lease>();
    Message(id, wire::Body::Put, wire::CreatePut(builder, tuples, under).Union());
  }
  void Body(RequestId id, const Read& read) {
    std::vector<Offset<wire::Pattern>> patterns;
    for (const Pattern& pattern : read.patterns) patterns.push_back(OnePattern(pattern));
    const auto list = builder.CreateVector(patterns);
    Message(id, wire::Body::Read,
            wire::CreateRead(builder, list, read.all, read.metadata_only, read.wait_us,
                             read.in_space, read.direct)
                .Union());
  }
  void Body(RequestId id, const List& list) {
    const auto pattern = OnePattern(list.pattern);
    Message(id, wire::Body::List,
            wire::CreateList(builder, pattern, list.limit, list.metadata_only).Union());
  }
  void Body(RequestId id, const Count& count) {
    Message(id, wire::Body::Count, wire::CreateCount(builder, OnePattern(count.pattern)).Union());
  }
  void Body(RequestId id, const Get& get) {
    const auto pattern = OnePattern(get.pattern);
    Message(id, wire::Body::Get,
            wire::CreateGet(builder, pattern, get.offer_bytes, get.max_count, get.with_inputs,
                            get.lease_us, get.wait_us, get.share, get.ns_per_kib, get.direct,
                            get.holds_from_bytes)
                .Union());
  }
  void Body(RequestId id, const Complete& complete) {
    const auto lease = Lease(complete.lease);
    const auto results = Tuples(complete.results);
    Message(id, wire::Body::Complete, wire::CreateComplete(builder, lease, results).Union());
  }
  void Body(RequestId id, const Extend& extend) {
    const auto lease = Lease(extend.lease);
    Message(id, wire::Body::Extend, wire::CreateExtend(builder, lease, extend.lease_us).Union());
  }
  void Body(RequestId id, const Release& release) {
    Message(id, wire::Body::Release, wire::CreateRelease(builder, Lease(release.lease)).Union());
  }
  void Body(RequestId id, const Fail& fail) {
    const auto lease = Lease(fail.lease);
    const auto cause = Text(fail.cause, kMaxTextBytes);
    Message(id, wire::Body::Fail, wire::CreateFail(builder, lease, cause).Union());
  }
  void Body(RequestId id, const Retire& retire) {
    const auto pattern = OnePattern(retire.pattern);
    const Offset<wire::Lease> under = retire.under ? Lease(*retire.under) : Offset<wire::Lease>();
    const auto body = wire::CreateRetire(builder, pattern, retire.watermark, under);
    Message(id, wire::Body::Retire, body.Union());
  }
  void Body(RequestId id, const Hold& hold) {
    const auto held = Keys(hold.held);
    const auto dropped = Keys(hold.dropped);
    Message(id, wire::Body::Hold, wire::CreateHold(builder, held, dropped).Union());
  }
  void Body(RequestId id, const Cancel& cancel) {
    Message(id, wire::Body::Cancel, wire::CreateCancel(builder, cancel.request).Union());
  }
  void Body(RequestId id, const GetStats&) {
    Message(id, wire::Body::GetStats, wire::CreateGetStats(builder).Union());
  }

  void Body(RequestId id, const Supply& supply) {
    Message(id, wire::Body::Supply, wire::CreateSupply(builder, Tuples(supply.tuples)).Union());
  }

  void Body(RequestId id, const PutReply& reply) {
    Message(id, wire::Body::PutReply,
            wire::CreatePutReply(builder, Statuses(reply.status)).Union());
  }
  void Body(RequestId id, const Found& found) {
    const auto tuples = FoundTuples(found.tuples);
    Message(id, wire::Body::Found,
            wire::CreateFound(builder, tuples, found.timed_out, found.truncated).Union());
  }
  void Body(RequestId id, const CountReply& reply) {
    flatbuffers::Optional<std::uint64_t> ready, leased;
    if (reply.tasks) {
      ready = reply.tasks->ready;
      leased = reply.tasks->leased;
    }
    Message(id, wire::Body::CountReply,
            wire::CreateCountReply(builder, reply.count, ready, leased).Union());
  }
  void Body(RequestId id, const Grants& grants) {
    granted.clear();
    for (const Grant& grant : grants.grants) granted.push_back(OneGrant(grant));
    const auto list = builder.CreateVector(granted);
    Message(id, wire::Body::Grants, wire::CreateGrants(builder, list).Union());
  }
  void Body(RequestId id, const CompleteReply& reply) {
    const Bytes results = Statuses(reply.results);
    const auto lease = static_cast<wire::LeaseStatus>(reply.lease);
    Message(id, wire::Body::CompleteReply,
            wire::CreateCompleteReply(builder, lease, results).Union());
  }
  void Body(RequestId id, const LeaseReply& reply) {
    const auto lease = static_cast<wire::LeaseStatus>(reply.lease);
    Message(id, wire::Body::LeaseReply, wire::CreateLeaseReply(builder, lease).Union());
  }
  void Body(RequestId id, const RetireReply& reply) {
    const auto lease = static_cast<wire::LeaseStatus>(reply.lease);
    const auto body = wire::CreateRetireReply(builder, reply.removed, lease);
    Message(id, wire::Body::RetireReply, body.Union());
  }
  void Body(RequestId id, const Ok&) {
    Message(id, wire::Body::Ok, wire::CreateOk(builder).Union());
  }
  void Body(RequestId id, const Stats& stats) {
    wire::StatsBuilder table(builder);
#define TUPLESPACE_COUNTER(name) table.add_##name(stats.counters.name);
#define TUPLESPACE_GAUGE(name) table.add_##name(stats.name);
    TUPLESPACE_STATS(TUPLESPACE_COUNTER, TUPLESPACE_GAUGE)
#undef TUPLESPACE_COUNTER
#undef TUPLESPACE_GAUGE
    Message(id, wire::Body::Stats, table.Finish().Union());
  }
  void Body(RequestId id, const RequestError& error) {
    const auto text = Text(error.text, kMaxTextBytes);
    const auto code = static_cast<wire::ErrorCode>(error.code);
    Message(id, wire::Body::Error, wire::CreateError(builder, code, text).Union());
  }
};

Encoder::Encoder() : impl_(std::make_unique<Impl>()) {}
Encoder::~Encoder() = default;

void Encoder::Begin(std::uint64_t session, const EncodeFor& receiver) {
  impl_->builder.Clear();
  impl_->messages.clear();
  impl_->frames.clear();
  impl_->frame_bytes = 0;
  impl_->frame_of.clear();
  impl_->session = session;
  impl_->namer = receiver.namer;
  impl_->version = receiver.version;
  impl_->compressed_limit = receiver.compressed_limit;
  impl_->finished = false;
}

void Encoder::Add(const Request& request) {
  if (impl_->compressed_limit > 0) impl_->message_bound = ControlBytesBound(request.body);
  std::visit([&](const auto& body) { impl_->Body(request.id, body); }, request.body);
}

void Encoder::Add(const Hello& hello) {
  const auto name = impl_->Text(hello.name, kMaxNameBytes);
  const auto sharing = impl_->Offer(hello.sharing);
  impl_->Message(
      0, wire::Body::Hello,
      wire::CreateHello(impl_->builder, hello.nonce, name, sharing, hello.decompresses).Union());
}

void Encoder::Add(const Ping&) {
  impl_->Message(0, wire::Body::Ping, wire::CreatePing(impl_->builder).Union());
}

void Encoder::Add(const Bye&) {
  impl_->Message(0, wire::Body::Bye, wire::CreateBye(impl_->builder).Union());
}

void Encoder::Add(const Reply& reply) {
  if (impl_->compressed_limit > 0) impl_->message_bound = ControlBytesBound(reply.body);
  std::visit([&](const auto& body) { impl_->Body(reply.id, body); }, reply.body);
}

void Encoder::Add(const Done& done) {
  const auto requests = impl_->Numbers(done.requests);
  impl_->Message(0, wire::Body::Done, wire::CreateDone(impl_->builder, requests).Union());
}

void Encoder::Add(const Notice& notice) {
  const Bytes key = impl_->Raw(notice.key.bytes());
  const auto by = impl_->Text(notice.by, kMaxClientIdBytes);
  const auto text = impl_->Text(notice.text, kMaxTextBytes);
  const auto kind = static_cast<wire::NoticeKind>(notice.kind);
  impl_->Message(0, wire::Body::Notice,
                 wire::CreateNotice(impl_->builder, kind, key, by, text).Union());
}

void Encoder::Add(const Welcome& welcome) {
  const auto sharing = impl_->Offer(welcome.sharing);
  impl_->Message(
      0, wire::Body::Welcome,
      wire::CreateWelcome(impl_->builder, welcome.nonce, welcome.session, welcome.silence_us,
                          welcome.control_frame_bytes, welcome.message_bytes, sharing,
                          welcome.broker_us, welcome.decompresses, welcome.life)
          .Union());
}

void Encoder::Add(const Pong& pong) {
  impl_->Message(0, wire::Body::Pong, wire::CreatePong(impl_->builder, pong.broker_us).Union());
}

void Encoder::Add(const Goodbye&) {
  impl_->Message(0, wire::Body::Goodbye, wire::CreateGoodbye(impl_->builder).Union());
}

void Encoder::Add(const RequestError& error) {
  impl_->Body(0, error);
}

void Encoder::Add(const ClientSegments& segments) {
  const Bytes sees = impl_->Raw(segments.sees);
  const auto returned = impl_->Numbers(segments.returned);
  const auto dropped = impl_->Numbers(segments.dropped);
  impl_->Message(0, wire::Body::ClientSegments,
                 wire::CreateClientSegments(impl_->builder, returned, dropped, sees).Union());
}

void Encoder::Add(const Listening& listening) {
  const auto endpoint = impl_->Text(listening.endpoint, kMaxEndpointBytes);
  const auto public_key = impl_->Text(listening.public_key, kMaxPublicKeyBytes);
  const Bytes secret = impl_->Raw(listening.secret);
  impl_->Message(0, wire::Body::Listening,
                 wire::CreateListening(impl_->builder, endpoint, public_key, secret).Union());
}

void Encoder::Add(const BrokerSegments& segments) {
  std::vector<std::uint64_t> ids[2], counts[2];
  for (const BrokerSegments::Freed& freed : segments.freed) {
    ids[freed.spoilt ? 1 : 0].push_back(freed.id);
    counts[freed.spoilt ? 1 : 0].push_back(freed.count);
  }
  counts[0].insert(counts[0].end(), counts[1].begin(), counts[1].end());
  const auto freed = impl_->Numbers(ids[0]);
  const auto all_counts = impl_->Numbers(counts[0]);
  const auto spoilt = impl_->Numbers(ids[1]);
  const auto refused = impl_->Numbers(segments.refused);
  const auto gone = impl_->Numbers(segments.gone);
  impl_->Message(
      0, wire::Body::BrokerSegments,
      wire::CreateBrokerSegments(impl_->builder, freed, all_counts, spoilt, refused, gone).Union());
}

bool Encoder::empty() const {
  return impl_->messages.empty();
}

bool Encoder::full() const {
  return impl_->builder.GetSize() >= kBatchControlBytes || impl_->frames.size() >= kBatchFrames ||
         impl_->frame_bytes >= kBatchFrameBytes || impl_->messages.size() >= kMaxMessages;
}

std::span<const std::byte> Encoder::Finish() {
  if (!impl_->finished) {
    const auto list = impl_->builder.CreateVector(impl_->messages);
    wire::FinishEnvelopeBuffer(
        impl_->builder, wire::CreateEnvelope(impl_->builder, impl_->version, impl_->session, list));
    impl_->finished = true;
  }
  return std::as_bytes(
      std::span(impl_->builder.GetBufferPointer(), std::size_t{impl_->builder.GetSize()}));
}

std::vector<Payload> Encoder::TakeFrames() {
  return std::move(impl_->frames);
}

}  // namespace tuplespace
