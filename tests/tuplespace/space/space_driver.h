// Drives a Space step by step and checks its invariants after each event.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuplespace/space.h"

namespace tuplespace::testing {

inline Tuple Plain(Key key, std::string_view text = "") {
  Tuple tuple;
  tuple.key = std::move(key);
  tuple.payload = Payload::Copy(text);
  return tuple;
}

inline Tuple Task(Key key, std::vector<Key> inputs = {}, std::uint64_t need_bytes = 0,
                  std::int32_t affinity = -1) {
  Tuple tuple = Plain(std::move(key), "task");
  tuple.task = TaskSpec{};
  tuple.task->inputs = std::move(inputs);
  tuple.task->need_bytes = need_bytes;
  tuple.task->affinity = affinity;
  return tuple;
}

// Returns `task` with these declared results.
inline Tuple Making(Tuple task, std::vector<Key> results) {
  task.task->results = std::move(results);
  return task;
}

// Matches keys with two fields, of which the first one is `kind`.
inline Pattern Every(const std::string& kind) {
  return {{FieldPattern::Exact(kind), FieldPattern::Any()}, false};
}

inline Pattern UpTo(const std::string& kind, std::int64_t bound) {
  return {{FieldPattern::Exact(kind), FieldPattern::AtMost(bound)}, false};
}

inline Get GetOf(Pattern pattern, std::uint64_t offer_bytes = UINT64_MAX,
                 std::int64_t wait_us = kForeverUs) {
  Get get;
  get.pattern = std::move(pattern);
  get.offer_bytes = offer_bytes;
  get.wait_us = wait_us;
  return get;
}

class SpaceDriver {
 public:
  explicit SpaceDriver(SpaceLimits limits = {}, std::uint64_t key_secret = 0)
      : space(limits, 1, key_secret) {}

  void Step(Event event) {
    for (Outgoing& out : space.Step(std::move(event), now_us)) {
      if (auto* reply = std::get_if<Reply>(&out.message)) {
        replies[out.client].push_back(std::move(*reply));
      } else {
        notices[out.client].push_back(std::get<Notice>(std::move(out.message)));
      }
    }
    EXPECT_EQ(space.FindContradiction(), std::nullopt);
  }
  void Join(const ClientId& client) { Step(ClientJoined{client}); }
  void Lose(const ClientId& client) { Step(ClientLost{client}); }
  void Advance(std::int64_t by_us) {
    now_us += by_us;
    Step(Tick{});
  }

  RequestId Send(const ClientId& client, RequestBody body) {
    const RequestId id = next_id++;
    Step(Incoming{client, {id, std::move(body)}});
    return id;
  }
  // Removes and returns the reply to `id`; nullopt if there is none (yet).
  std::optional<ReplyBody> ReplyTo(const ClientId& client, RequestId id) {
    auto& queue = replies[client];
    for (auto at = queue.begin(); at != queue.end(); ++at) {
      if (at->id != id) continue;
      ReplyBody body = std::move(at->body);
      queue.erase(at);
      return body;
    }
    return std::nullopt;
  }
  // Sends a request and returns its reply, which must be there at once.
  template <typename T>
  T Ask(const ClientId& client, RequestBody body) {
    const RequestId id = Send(client, std::move(body));
    return Expect<T>(client, id);
  }
  template <typename T>
  T Expect(const ClientId& client, RequestId id) {
    auto reply = ReplyTo(client, id);
    if (!reply) {
      ADD_FAILURE() << "request " << id << " of " << client << " has no reply";
      return {};
    }
    if (auto* wanted = std::get_if<T>(&*reply)) return std::move(*wanted);
    const auto* error = std::get_if<RequestError>(&*reply);
    ADD_FAILURE() << "request " << id << " of " << client << " has another kind of reply: "
                  << (error != nullptr ? error->text : std::to_string(reply->index()));
    return {};
  }

  PutStatus PutOne(const ClientId& client, Tuple tuple) {
    const auto reply = Ask<PutReply>(client, Put{{std::move(tuple)}});
    EXPECT_EQ(reply.status.size(), 1u);
    return reply.status.empty() ? PutStatus::kConflict : reply.status[0];
  }
  std::vector<Grant> GetNow(const ClientId& client, const Pattern& pattern,
                            std::uint64_t offer_bytes = UINT64_MAX, std::uint32_t max_count = 1) {
    Get get = GetOf(pattern, offer_bytes, 0);
    get.max_count = max_count;
    return Ask<Grants>(client, std::move(get)).grants;
  }
  // Returns the key and fence of the only grant in the reply to `id`.
  LeaseRef Granted(const ClientId& client, RequestId id) {
    const auto grants = Expect<Grants>(client, id).grants;
    EXPECT_EQ(grants.size(), 1u);
    return grants.empty() ? LeaseRef{} : LeaseRef{grants[0].key, grants[0].fence};
  }
  LeaseRef TakeNow(const ClientId& client, const Pattern& pattern) {
    const auto grants = GetNow(client, pattern);
    EXPECT_EQ(grants.size(), 1u);
    return grants.empty() ? LeaseRef{} : LeaseRef{grants[0].key, grants[0].fence};
  }
  CompleteReply Done(const ClientId& client, LeaseRef lease, std::vector<Tuple> results = {}) {
    return Ask<CompleteReply>(client, Complete{std::move(lease), std::move(results)});
  }
  std::uint64_t CountOf(const ClientId& client, const Pattern& pattern) {
    return Ask<CountReply>(client, Count{pattern}).count;
  }
  Counters counters() const { return space.GetStatistics().counters; }

  Space space;
  std::int64_t now_us = 0;
  RequestId next_id = 1;
  std::map<ClientId, std::deque<Reply>> replies;
  std::map<ClientId, std::vector<Notice>> notices;
};

}  // namespace tuplespace::testing
