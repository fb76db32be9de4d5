// Reads the parts of messages from a verified control frame and checks every field. Private to
// wire_decode.cpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "key_encoding.h"
#include "wire.h"
#include "wire_generated.h"

namespace tuplespace {

inline constexpr std::uint32_t kNoFrame = UINT32_MAX;
inline constexpr std::size_t kMaxSecretBytes = 64;
inline constexpr std::size_t kUsualKeyFields = 6;

// Private to decoding: thrown for a wrong field and caught for each message or frame.
struct BadField {
  std::string text;
  ErrorCode code = ErrorCode::kBadRequest;
};
struct BadFrame {
  std::string text;
};
// A segment that this process cannot open. The sender must send the bytes instead.
struct Unopened {
  std::string text;
};

template <typename... Args>
[[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw BadField{fmt::format(format, std::forward<Args>(args)...)};
}

using WireBytes = flatbuffers::Vector<std::uint8_t>;

class FrameReader {
 public:
  // `check_tuples`: refuses Tuples whose payload was sent as bytes and does not have its hash.
  FrameReader(std::size_t control_bytes, std::span<const Payload> frames, std::uint64_t session,
              SegmentOpener* opener, bool check_tuples = false)
      : bytes_left_(control_bytes),
        frames_(frames),
        used_(frames.size(), false),
        frame_hashes_(frames.size()),
        session_(session),
        opener_(opener),
        check_tuples_(check_tuples) {}

  // Every part of variable size occurs once in an honest frame, so all of them together are no
  // longer than the frame. Parts that share their bytes could demand any amount of memory.
  void Spend(std::size_t bytes) {
    if (bytes > bytes_left_) throw BadFrame{"parts of the control frame overlap"};
    bytes_left_ -= bytes;
  }

  // As small parts become large objects, tuples and patterns have a limit of their own.
  void CountItems(std::size_t items) {
    if (items > items_left_) {
      throw BadField{fmt::format("more than {} tuples and patterns in one envelope", kMaxItems),
                     ErrorCode::kTooLarge};
    }
    items_left_ -= items;
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

  Payload Content(const WireBytes* inlined, std::uint32_t frame, const wire::Segment* segment,
                  const std::optional<PayloadHash>& hash) {
    if (segment != nullptr) {
      CheckSegment(inlined, frame);
      return Opened(*segment, hash);
    }
    if (frame != kNoFrame) {
      if (frame >= frames_.size()) {
        Refuse("payload frame {} is named, but {} came", frame, frames_.size());
      }
      used_[frame] = true;
      if (inlined != nullptr) Refuse("a payload is both inline and in frame {}", frame);
      return frames_[frame];
    }
    const std::string_view bytes = View(inlined);
    if (bytes.size() > kMaxInlinePayloadBytes) {
      Refuse("an inline payload has {} bytes, at most {}; longer ones need a frame", bytes.size(),
             kMaxInlinePayloadBytes);
    }
    return bytes.empty() ? Payload() : Payload::Copy(bytes);
  }

  void CheckSegment(const WireBytes* inlined, std::uint32_t frame) const {
    if (inlined != nullptr || frame != kNoFrame) Refuse("a payload is in a segment and elsewhere");
    if (opener_ == nullptr) Refuse("a payload is in a segment, but no memory is shared");
  }

  // If the segment cannot be opened, returns an empty payload, and CheckOpened will throw.
  // REQUIRES: there is an opener.
  Payload Opened(const wire::Segment& segment, const std::optional<PayloadHash>& hash) {
    auto payload = opener_->Open(session_, {segment.id(), segment.bytes(), segment.fd(), hash});
    if (payload) return *std::move(payload);
    unopened_ = segment.id();
    return {};
  }

  static std::optional<PayloadHash> Hash(const wire::Hash* wire) {
    if (wire == nullptr) return std::nullopt;
    return PayloadHash{wire->low(), wire->high()};
  }

  // Hashes each frame and each segment once: a short message may name a long one in any number of
  // tuples. Bytes in the control frame occur only once (Spend).
  template <typename Wire>
  PayloadHash HashOfContent(const Wire& wire, const Payload& payload) {
    if (wire.segment() != nullptr) {
      HashedSegment& known = segment_hashes_[wire.segment()->id()];
      if (known.bytes != payload.size()) known = {payload.size(), HashOf(payload.bytes())};
      return known.hash;
    }
    if (wire.frame() == kNoFrame) return HashOf(payload.bytes());
    std::optional<PayloadHash>& known = frame_hashes_[wire.frame()];
    if (!known) known = HashOf(payload.bytes());
    return *known;
  }
  void CheckOneSize(std::uint64_t segment, std::size_t bytes) const {
    const auto known = segment_hashes_.find(segment);
    if (known == segment_hashes_.end() || known->second.bytes == bytes) return;
    Refuse("segment {} comes both with {} and with {} bytes, and without hashes", segment,
           known->second.bytes, bytes);
  }
  // A payload in shared memory was not sent as bytes; it is what its maker hashed.
  template <typename Wire>
  bool IsDamaged(const Wire& wire, const Payload& payload) {
    return !payload.empty() && payload.region() == nullptr && payload.hash() &&
           HashOfContent(wire, payload) != *payload.hash();
  }
  // The content of a found tuple or grant. If its bytes do not have its hash, sets `damaged` and
  // returns an empty payload.
  template <typename Wire>
  Payload CheckedContent(const Wire& wire, bool* damaged) {
    const std::optional<PayloadHash> hash = Hash(wire.hash());
    Payload payload = Content(wire.payload(), wire.frame(), wire.segment(), hash);
    const bool is_own = hash && payload.hash() == hash;
    payload = std::move(payload).WithHash(hash);
    *damaged = !is_own && IsDamaged(wire, payload);
    return *damaged ? Payload() : payload;
  }

  std::vector<ClientId> Clients(const wire::Keys* wire, const char* what) {
    std::vector<ClientId> clients;
    for (const Key& key : Keys(wire, what)) {
      const std::vector<Field> fields = key.Fields();
      const auto* id = std::get_if<std::string>(&fields.front());
      if (fields.size() != 1 || id == nullptr)
        Refuse("{}: {} is not a client id", what, key.ToString());
      if (id->size() > kMaxClientIdBytes) {
        Refuse("{}: an id of {} bytes, at most {}", what, id->size(), kMaxClientIdBytes);
      }
      clients.push_back(*id);
    }
    return clients;
  }

  void Task(const wire::TaskSpec* wire, std::optional<TaskSpec>* read) {
    if (wire == nullptr) return;
    TaskSpec& task = read->emplace();
    task.inputs = Keys(wire->inputs(), "task inputs");
    task.need_bytes = wire->need_bytes();
    task.priority = wire->priority();
    task.lease_us = NotNegative(wire->lease_us(), "lease_us");
    task.affinity = wire->affinity();
    if (task.affinity < -1 || task.affinity >= static_cast<std::int64_t>(task.inputs.size())) {
      Refuse("affinity {} is neither -1 nor an index into {} inputs", task.affinity,
             task.inputs.size());
    }
    task.not_by = Clients(wire->not_by(), "not_by");
    task.results = Keys(wire->results(), "task results");
    if (wire->due() != nullptr) {
      Spend(wire->due()->size() * sizeof(std::uint32_t));
      task.due.assign(wire->due()->begin(), wire->due()->end());
    }
    task.prefers = Text(wire->prefers(), kMaxClientIdBytes, "prefers");
    task.prefer_us = NotNegative(wire->prefer_us(), "prefer_us");
    task.most_result_bytes = wire->most_result_bytes();
  }

  using WireTuples = flatbuffers::Vector<flatbuffers::Offset<wire::Tuple>>;
  std::vector<Tuple> Tuples(const WireTuples* wire) {
    std::vector<Tuple> tuples;
    if (wire == nullptr) return tuples;
    CountItems(wire->size());
    tuples.resize(wire->size());
    // Opens all segments before any error is found: the sender has lent each of them, and the
    // number of times they were opened tells it that they are free.
    for (flatbuffers::uoffset_t i = 0; opener_ != nullptr && i < wire->size(); ++i) {
      const wire::Tuple& one = *wire->Get(i);
      if (one.segment() != nullptr) {
        tuples[i].payload = Opened(*one.segment(), Hash(one.hash()));
      }
    }
    for (flatbuffers::uoffset_t i = 0; i < wire->size(); ++i) OneTuple(*wire->Get(i), tuples[i]);
    return tuples;
  }

  // REQUIRES: if the payload is in a segment, `tuple` has it already.
  void OneTuple(const wire::Tuple& wire, Tuple& tuple) {
    tuple.key = OneKey(wire.key(), "a tuple's key");
    const std::optional<PayloadHash> hash = Hash(wire.hash());
    if (wire.segment() != nullptr) {
      CheckSegment(wire.payload(), wire.frame());
    } else {
      tuple.payload = Content(wire.payload(), wire.frame(), nullptr, hash);
    }
    tuple.payload = std::move(tuple.payload).WithHash(hash);
    // The hash lets every reader of the tuple detect later damage.
    if (!tuple.payload.empty() && !hash) {
      if (wire.segment() != nullptr) CheckOneSize(wire.segment()->id(), tuple.payload.size());
      const PayloadHash made = HashOfContent(wire, tuple.payload);
      tuple.payload = std::move(tuple.payload).WithHash(made);
    } else if (check_tuples_ && IsDamaged(wire, tuple.payload)) {
      throw BadField{fmt::format("the payload of {} ({} bytes) does not have the hash that came "
                                 "with it",
                                 tuple.key.ToString(), tuple.payload.size()),
                     ErrorCode::kDamaged};
    }
    Task(wire.task(), &tuple.task);
    tuple.ephemeral = wire.ephemeral();
    tuple.held = wire.held();
    tuple.resident_bytes = wire.stays_bytes();
  }

  using WireFound = flatbuffers::Vector<flatbuffers::Offset<wire::FoundTuple>>;
  std::vector<FoundTuple> FoundTuples(const WireFound* wire) {
    std::vector<FoundTuple> tuples;
    if (wire == nullptr) return tuples;
    tuples.reserve(wire->size());
    for (const wire::FoundTuple* one : *wire) {
      FoundTuple& tuple = tuples.emplace_back();
      tuple.key = OneKey(one->key(), "a found key");
      tuple.hash = Hash(one->hash());
      tuple.payload = CheckedContent(*one, &tuple.damaged);
      tuple.payload_bytes = one->payload_bytes();
      tuple.put_by = Text(one->put_by(), kMaxClientIdBytes, "put_by");
      tuple.took_us = one->took_us();
      tuple.times_taken = one->times_taken();
      tuple.resident = one->stays();
      tuple.place = OnePlace(one->place());
    }
    return tuples;
  }

  std::shared_ptr<const Place> OnePlace(const wire::Place* wire) {
    if (wire == nullptr) return nullptr;
    auto place = std::make_shared<Place>();
    place->endpoint = Text(wire->endpoint(), kMaxEndpointBytes, "endpoint");
    place->public_key = Text(wire->public_key(), kMaxPublicKeyBytes, "public_key");
    const std::string_view ticket = View(wire->ticket());
    if (ticket.size() > kMaxTicketBytes) {
      Refuse("a ticket has {} bytes, at most {}", ticket.size(), kMaxTicketBytes);
    }
    place->ticket = ticket;
    return place;
  }

  Pattern OnePattern(const wire::Pattern* wire) {
    if (wire == nullptr) Refuse("the pattern is missing");
    Pattern pattern;
    const std::string_view bytes = View(wire->fields());
    // Reserves no more than `bytes` can hold, as a small frame can name many patterns.
    pattern.fields.reserve(std::min(bytes.size(), kUsualKeyFields));
    for (std::size_t at = 0; at < bytes.size();) {
      if (pattern.fields.size() == kMaxKeyFields) {
        Refuse("a pattern has more than {} fields", kMaxKeyFields);
      }
      FieldPattern& field = pattern.fields.emplace_back();
      const auto op = static_cast<std::uint8_t>(bytes[at++]);
      if (op > static_cast<std::uint8_t>(wire::Op::MAX)) {
        Refuse("a field pattern has op {}, at most {}", op, static_cast<int>(wire::Op::MAX));
      }
      field.op = static_cast<FieldPattern::Op>(op);
      if (field.op == FieldPattern::Op::kAny) continue;
      const std::size_t end = internal::FieldEnd(bytes, at);
      if (end == std::string_view::npos) {
        Refuse("field {} of a pattern has no canonical value", pattern.fields.size() - 1);
      }
      field.value = internal::DecodeField(bytes.substr(at, end - at));
      at = end;
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
    const std::string_view bytes = View(wire);
    statuses.reserve(bytes.size());
    for (const char raw : bytes) {
      const auto value = static_cast<std::uint8_t>(raw);
      if (value > static_cast<std::uint8_t>(PutStatus::kRefused)) Refuse("put status {}", value);
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

  using WireNumbers = flatbuffers::Vector<std::uint64_t>;
  std::vector<std::uint64_t> Numbers(const WireNumbers* wire) {
    if (wire == nullptr) return {};
    Spend(wire->size() * sizeof(std::uint64_t));
    // Bypasses FlatBuffers' iterators, as its verifier aligns a vector's length but not its
    // elements.
    std::vector<std::uint64_t> numbers(wire->size());
    if (!numbers.empty()) {
      std::memcpy(numbers.data(), wire->Data(), numbers.size() * sizeof(std::uint64_t));
    }
    return numbers;
  }

  std::optional<Sharing> Offer(const wire::Sharing* wire) {
    if (wire == nullptr) return std::nullopt;
    std::string proof = Secret(wire->proof());
    return Sharing{wire->pid(),          wire->fd(),   std::move(proof),
                   Secret(wire->sees()), wire->ring(), wire->bell()};
  }

  std::string Secret(const WireBytes* bytes) {
    const std::string_view view = View(bytes);
    if (view.size() > kMaxSecretBytes) {
      Refuse("a secret has {} bytes, at most {}", view.size(), kMaxSecretBytes);
    }
    return std::string(view);
  }

  // To be called at the end of a message, when all its segments were opened, as their sender counts
  // them.
  void CheckOpened() {
    if (const auto id = std::exchange(unopened_, {})) {
      throw Unopened{fmt::format("segment {} cannot be opened: send its bytes", *id)};
    }
  }

  // For a message that is refused for another reason.
  void ForgetUnopened() { unopened_.reset(); }

  bool AllFramesUsed() const { return std::find(used_.begin(), used_.end(), false) == used_.end(); }
  std::size_t frame_count() const { return frames_.size(); }

 private:
  std::size_t bytes_left_;
  std::size_t items_left_ = kMaxItems;
  std::span<const Payload> frames_;
  std::vector<bool> used_;
  std::vector<std::optional<PayloadHash>> frame_hashes_;
  struct HashedSegment {
    std::uint64_t bytes = 0;  // the first bytes of the segment
    PayloadHash hash;
  };
  std::unordered_map<std::uint64_t, HashedSegment> segment_hashes_;  // by id
  std::uint64_t session_;
  SegmentOpener* opener_;
  std::optional<std::uint64_t> unopened_;
  bool check_tuples_ = false;
};

}  // namespace tuplespace
