// Random messages for the tests of the wire format, and a comparison of messages.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "wire.h"

namespace tuplespace {

inline constexpr std::uint64_t kControlLimit = 64ull << 20;

struct Frames {
  std::vector<std::byte> control;
  std::vector<Payload> payloads;
};

inline Frames Finish(Encoder& encoder) {
  const auto control = encoder.Finish();
  return {{control.begin(), control.end()}, encoder.TakeFrames()};
}

template <typename Message>
Frames Encode(const Message& message, std::uint64_t session = 7) {
  Encoder encoder;
  encoder.Begin(session);
  encoder.Add(message);
  return Finish(encoder);
}

inline std::variant<ToBroker, RequestError> ToBrokerOf(const Frames& frames) {
  return DecodeToBroker(frames.control, frames.payloads, kControlLimit);
}
inline std::variant<ToClient, RequestError> ToClientOf(const Frames& frames) {
  return DecodeToClient(frames.control, frames.payloads);
}

// ---- random messages ----------------------------------------------------------------------------

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::uint64_t Number() {
    switch (random_() % 4) {
      case 0:
        return random_() % 4;
      case 1:
        return UINT64_MAX - random_() % 4;
      default:
        return random_();
    }
  }
  std::int64_t Duration() { return static_cast<std::int64_t>(Number() >> 1); }
  bool Coin() { return random_() % 2 == 0; }
  std::string Text(std::size_t limit) {
    std::string text(random_() % (limit + 1), '\0');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }
  Key OneKey() {
    std::vector<Field> fields;
    for (std::size_t n = 1 + random_() % 5; n > 0; --n) {
      if (Coin()) {
        fields.emplace_back(static_cast<std::int64_t>(Number()));
      } else {
        fields.emplace_back(Text(20));
      }
    }
    return Key(fields);
  }
  std::vector<Key> Keys() {
    std::vector<Key> keys(random_() % 4);
    for (Key& key : keys) key = OneKey();
    return keys;
  }
  Payload Content() {
    static constexpr std::size_t kSizes[] = {0, 1, 100, 511, 512, 513, 5000};
    return Payload::Copy(
        std::string(kSizes[random_() % std::size(kSizes)], static_cast<char>(random_())));
  }
  std::optional<TaskSpec> Task() {
    if (Coin()) return std::nullopt;
    TaskSpec task;
    task.inputs = Keys();
    task.need_bytes = Number();
    task.priority = static_cast<std::int64_t>(Number());
    task.lease_us = Duration();
    task.affinity = static_cast<std::int32_t>(random_() % (task.inputs.size() + 1)) - 1;
    for (std::size_t n = random_() % 3; n > 0; --n) task.not_by.push_back(Text(64));
    task.results = Keys();
    for (std::uint32_t i = 0; i < task.results.size(); ++i) {
      if (Coin()) task.due.push_back(i);
    }
    if (Coin()) task.prefers = Text(64);
    task.prefer_us = Duration();
    task.most_result_bytes = Number();
    return task;
  }
  std::vector<Tuple> Tuples() {
    std::vector<Tuple> tuples(random_() % 4);
    for (Tuple& tuple : tuples) tuple = {OneKey(), Content(), Task(), Coin(), Coin(), Number()};
    return tuples;
  }
  std::vector<FoundTuple> FoundTuples() {
    std::vector<FoundTuple> tuples(random_() % 4);
    for (FoundTuple& tuple : tuples) {
      tuple.key = OneKey();
      tuple.payload = Content();
      tuple.payload_bytes = Number();
      tuple.put_by = Text(64);
      tuple.took_us = static_cast<std::uint32_t>(Number());
      tuple.times_taken = static_cast<std::uint32_t>(Number());
      if (Coin()) tuple.hash = HashOf(tuple.payload.bytes());
      tuple.resident = Coin();
      if (Coin()) {
        tuple.place = std::make_shared<const Place>(
            Place{Text(kMaxEndpointBytes), Text(kMaxPublicKeyBytes), Text(kMaxTicketBytes)});
      }
    }
    return tuples;
  }
  Pattern OnePattern() {
    Pattern pattern;
    for (std::size_t n = 1 + random_() % 5; n > 0; --n) {
      switch (random_() % 6) {
        case 0:
          pattern.fields.push_back(FieldPattern::Any());
          break;
        case 1:
          pattern.fields.push_back(FieldPattern::Exact(static_cast<std::int64_t>(Number())));
          break;
        case 2:
          pattern.fields.push_back(FieldPattern::Exact(Text(10)));
          break;
        case 3:
          pattern.fields.push_back(FieldPattern::AtMost(static_cast<std::int64_t>(Number())));
          break;
        case 4:
          pattern.fields.push_back(FieldPattern::AtLeast(static_cast<std::int64_t>(Number())));
          break;
        default:
          pattern.fields.push_back(FieldPattern::Prefix(Text(10)));
      }
    }
    pattern.open = Coin();
    return pattern;
  }
  LeaseRef Lease() { return {OneKey(), Number()}; }
  std::vector<PutStatus> Statuses() {
    std::vector<PutStatus> statuses(random_() % 5);
    for (PutStatus& status : statuses) status = static_cast<PutStatus>(random_() % 4);
    return statuses;
  }
  LeaseStatus OneLeaseStatus() { return Coin() ? LeaseStatus::kOk : LeaseStatus::kStale; }

  RequestBody Body(std::size_t kind) {
    switch (kind) {
      case 0:
        return Put{Tuples(), Coin() ? std::optional(Lease()) : std::nullopt};
      case 1: {
        Read read{{}, Coin(), Coin(), Duration(), Coin()};
        for (std::size_t n = random_() % 4; n > 0; --n) read.patterns.push_back(OnePattern());
        return read;
      }
      case 2:
        return List{OnePattern(), Number(), Coin()};
      case 3:
        return Count{OnePattern()};
      case 4:
        return Get{
            OnePattern(), Number(), static_cast<std::uint32_t>(Number()), Coin(),   Duration(),
            Duration(),   Coin(),   static_cast<std::uint32_t>(Number()), Number(), Coin()};
      case 5:
        return Complete{Lease(), Tuples()};
      case 6:
        return Extend{Lease(), Duration()};
      case 7:
        return Release{Lease()};
      case 8:
        return Fail{Lease(), Text(300)};
      case 9:
        return Retire{OnePattern(), Coin(), Coin() ? std::optional(Lease()) : std::nullopt};
      case 10:
        return Hold{Keys(), Keys()};
      case 11:
        return Cancel{Number()};
      case 12:
        return Supply{Tuples()};
      default:
        return GetStats{};
    }
  }
  ReplyBody Answer(std::size_t kind) {
    switch (kind) {
      case 0:
        return PutReply{Statuses()};
      case 1:
        return Found{FoundTuples(), Coin(), Coin()};
      case 2:
        if (Coin()) return CountReply{Number()};
        return CountReply{Number(), CountReply::Tasks{Number(), Number()}};
      case 3: {
        Grants grants;
        for (std::size_t n = random_() % 3; n > 0; --n) {
          Grant grant{OneKey(), Content(), Number(), Duration(), Task(), FoundTuples(), {}, false};
          for (std::size_t i = 0; i < grant.inputs.size(); ++i) grant.input_sent.push_back(Coin());
          grants.grants.push_back(std::move(grant));
        }
        return grants;
      }
      case 4:
        return CompleteReply{OneLeaseStatus(), Statuses()};
      case 5:
        return LeaseReply{OneLeaseStatus()};
      case 6:
        return RetireReply{Number(), OneLeaseStatus()};
      case 7:
        return Ok{};
      case 8: {
        Stats stats;
        stats.counters.puts = Number();
        stats.counters.bytes_out = Number();
        stats.counters.lost = Number();
        stats.tuples = Number();
        stats.held_keys = Number();
        stats.unix_us = Number();
        return stats;
      }
      default:
        return RequestError{static_cast<ErrorCode>(random_() % 7), Text(300)};
    }
  }
  std::uint64_t Raw() { return random_(); }

 private:
  std::mt19937_64 random_;
};

constexpr std::size_t kRequestKinds = std::variant_size_v<AnyRequest>;
constexpr std::size_t kReplyKinds = std::variant_size_v<AnyReply>;

// ---- equality of decoded and encoded messages ---------------------------------------------------

inline void Same(const Payload& a, const Payload& b) {
  EXPECT_EQ(a.text(), b.text());
}
inline void Same(const std::optional<TaskSpec>& a, const std::optional<TaskSpec>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a) return;
  EXPECT_EQ(a->inputs, b->inputs);
  EXPECT_EQ(a->need_bytes, b->need_bytes);
  EXPECT_EQ(a->priority, b->priority);
  EXPECT_EQ(a->lease_us, b->lease_us);
  EXPECT_EQ(a->affinity, b->affinity);
  EXPECT_EQ(a->not_by, b->not_by);
  EXPECT_EQ(a->results, b->results);
  EXPECT_EQ(a->prefers, b->prefers);
  EXPECT_EQ(a->prefer_us, b->prefer_us);
  EXPECT_EQ(a->due, b->due);
  EXPECT_EQ(a->most_result_bytes, b->most_result_bytes);
}
inline void Same(const Tuple& a, const Tuple& b) {
  EXPECT_EQ(a.key, b.key);
  Same(a.payload, b.payload);
  Same(a.task, b.task);
  EXPECT_EQ(a.ephemeral, b.ephemeral);
  EXPECT_EQ(a.held, b.held);
  EXPECT_EQ(a.resident_bytes, b.resident_bytes);
}
inline void Same(const FoundTuple& a, const FoundTuple& b) {
  EXPECT_EQ(a.key, b.key);
  Same(a.payload, b.payload);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.put_by, b.put_by);
  EXPECT_EQ(a.took_us, b.took_us);
  EXPECT_EQ(a.times_taken, b.times_taken);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.damaged, b.damaged);
  EXPECT_EQ(a.resident, b.resident);
  ASSERT_EQ(a.place != nullptr, b.place != nullptr);
  if (!a.place) return;
  EXPECT_EQ(a.place->endpoint, b.place->endpoint);
  EXPECT_EQ(a.place->public_key, b.place->public_key);
  EXPECT_EQ(a.place->ticket, b.place->ticket);
}
inline void Same(const Grant& a, const Grant& b);
template <typename T>
void Same(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) Same(a[i], b[i]);
}
inline void Same(const LeaseRef& a, const LeaseRef& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.fence, b.fence);
}
inline void Same(const std::optional<LeaseRef>& a, const std::optional<LeaseRef>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (a) Same(*a, *b);
}
inline void Same(const Grant& a, const Grant& b) {
  EXPECT_EQ(a.key, b.key);
  Same(a.payload, b.payload);
  EXPECT_EQ(a.fence, b.fence);
  EXPECT_EQ(a.lease_us, b.lease_us);
  Same(a.task, b.task);
  Same(a.inputs, b.inputs);
  EXPECT_EQ(a.input_sent, b.input_sent);
}
inline void Same(const Put& a, const Put& b) {
  Same(a.tuples, b.tuples);
  Same(a.under, b.under);
}
inline void Same(const Read& a, const Read& b) {
  EXPECT_EQ(a.patterns, b.patterns);
  EXPECT_EQ(a.all, b.all);
  EXPECT_EQ(a.metadata_only, b.metadata_only);
  EXPECT_EQ(a.wait_us, b.wait_us);
  EXPECT_EQ(a.in_space, b.in_space);
  EXPECT_EQ(a.direct, b.direct);
}
inline void Same(const List& a, const List& b) {
  EXPECT_EQ(a.pattern, b.pattern);
  EXPECT_EQ(a.limit, b.limit);
  EXPECT_EQ(a.metadata_only, b.metadata_only);
}
inline void Same(const Count& a, const Count& b) {
  EXPECT_EQ(a.pattern, b.pattern);
}
inline void Same(const Get& a, const Get& b) {
  EXPECT_EQ(a.pattern, b.pattern);
  EXPECT_EQ(a.offer_bytes, b.offer_bytes);
  EXPECT_EQ(a.max_count, b.max_count);
  EXPECT_EQ(a.with_inputs, b.with_inputs);
  EXPECT_EQ(a.lease_us, b.lease_us);
  EXPECT_EQ(a.wait_us, b.wait_us);
  EXPECT_EQ(a.share, b.share);
  EXPECT_EQ(a.ns_per_kib, b.ns_per_kib);
  EXPECT_EQ(a.direct, b.direct);
  EXPECT_EQ(a.holds_from_bytes, b.holds_from_bytes);
}
inline void Same(const Complete& a, const Complete& b) {
  Same(a.lease, b.lease);
  Same(a.results, b.results);
}
inline void Same(const Extend& a, const Extend& b) {
  Same(a.lease, b.lease);
  EXPECT_EQ(a.lease_us, b.lease_us);
}
inline void Same(const Release& a, const Release& b) {
  Same(a.lease, b.lease);
}
inline void Same(const Fail& a, const Fail& b) {
  Same(a.lease, b.lease);
  EXPECT_EQ(a.cause, b.cause);
}
inline void Same(const Retire& a, const Retire& b) {
  EXPECT_EQ(a.pattern, b.pattern);
  EXPECT_EQ(a.watermark, b.watermark);
  Same(a.under, b.under);
}
inline void Same(const Hold& a, const Hold& b) {
  EXPECT_EQ(a.held, b.held);
  EXPECT_EQ(a.dropped, b.dropped);
}
inline void Same(const Cancel& a, const Cancel& b) {
  EXPECT_EQ(a.request, b.request);
}
inline void Same(const GetStats&, const GetStats&) {}
inline void Same(const Supply& a, const Supply& b) {
  Same(a.tuples, b.tuples);
}
inline void Same(const PutReply& a, const PutReply& b) {
  EXPECT_EQ(a.status, b.status);
}
inline void Same(const Found& a, const Found& b) {
  Same(a.tuples, b.tuples);
  EXPECT_EQ(a.timed_out, b.timed_out);
  EXPECT_EQ(a.truncated, b.truncated);
}
inline void Same(const CountReply& a, const CountReply& b) {
  EXPECT_EQ(a.count, b.count);
  ASSERT_EQ(a.tasks.has_value(), b.tasks.has_value());
  if (!a.tasks) return;
  EXPECT_EQ(a.tasks->ready, b.tasks->ready);
  EXPECT_EQ(a.tasks->leased, b.tasks->leased);
}
inline void Same(const Grants& a, const Grants& b) {
  Same(a.grants, b.grants);
}
inline void Same(const CompleteReply& a, const CompleteReply& b) {
  EXPECT_EQ(a.lease, b.lease);
  EXPECT_EQ(a.results, b.results);
}
inline void Same(const LeaseReply& a, const LeaseReply& b) {
  EXPECT_EQ(a.lease, b.lease);
}
inline void Same(const RetireReply& a, const RetireReply& b) {
  EXPECT_EQ(a.removed, b.removed);
  EXPECT_EQ(a.lease, b.lease);
}
inline void Same(const Ok&, const Ok&) {}
inline void Same(const Stats& a, const Stats& b) {
  EXPECT_EQ(a.counters.puts, b.counters.puts);
  EXPECT_EQ(a.counters.bytes_out, b.counters.bytes_out);
  EXPECT_EQ(a.counters.lost, b.counters.lost);
  EXPECT_EQ(a.tuples, b.tuples);
  EXPECT_EQ(a.held_keys, b.held_keys);
  EXPECT_EQ(a.unix_us, b.unix_us);
}
inline void Same(const RequestError& a, const RequestError& b) {
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.text, b.text);
}
template <typename... Bodies>
void Same(const std::variant<Bodies...>& a, const std::variant<Bodies...>& b) {
  ASSERT_EQ(a.index(), b.index());
  std::visit([&](const auto& body) { Same(body, std::get<std::decay_t<decltype(body)>>(b)); }, a);
}

}  // namespace tuplespace
