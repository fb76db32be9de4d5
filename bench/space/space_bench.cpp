#include "space_bench.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <zmq.hpp>

#include "clock.h"
#include "space_bulk.h"
#include "space_place.h"
#include "summary.h"
#include "tuplespace/client.h"
#include "tuplespace/space.h"

namespace acan::bench {

namespace {

namespace ts = tuplespace;

constexpr std::size_t kSmallBytes = 100;
constexpr std::uint64_t kWindow = 512;  // requests in flight
constexpr std::uint32_t kBatchTuples = 32;

ts::Pattern AllOf(const std::string& first, std::int64_t round) {
  ts::Pattern pattern;
  pattern.fields = {ts::FieldPattern::Exact(first), ts::FieldPattern::Exact(round),
                    ts::FieldPattern::Any()};
  return pattern;
}

// Puts `count` tuples of 100 bytes, `per_request` at once, keeping kWindow requests in flight.
void PutAll(ts::Client& client, std::int64_t round, int count, int per_request) {
  const ts::Payload payload = ts::Payload::Copy(std::string(kSmallBytes, 'p'));
  for (int next = 0; next < count || client.unanswered() > 0;) {
    while (next < count && client.unanswered() < kWindow) {
      ts::Put put;
      for (int i = 0; i < per_request && next < count; ++i, ++next) {
        ts::Tuple& tuple = put.tuples.emplace_back();
        tuple.key = ts::Key{"small", round, next};
        tuple.payload = payload;
      }
      client.Submit(std::move(put), nullptr);
    }
    client.Poll(kPollTime);
  }
}

// Takes `count` tuples. A get grants up to `per_request`; each tuple is completed by a separate
// request.
void TakeAll(ts::Client& client, std::int64_t round, int count, std::uint32_t per_request) {
  int taken = 0;
  std::uint64_t open = 0;
  ts::Get get;
  get.pattern = AllOf("small", round);
  get.max_count = per_request;
  const auto on_grants = [&](ts::ReplyBody&& reply) {
    --open;
    for (ts::Grant& grant : std::get<ts::Grants>(reply).grants) {
      ++taken;
      ts::Complete complete;
      complete.lease.key = std::move(grant.key);
      complete.lease.fence = grant.fence;
      client.Submit(std::move(complete), nullptr);
    }
  };
  while (taken < count) {
    while (open < kWindow / per_request && taken + static_cast<int>(open) < count) {
      ++open;
      client.Submit(get, on_grants);
    }
    client.Poll(kPollTime);
  }
  while (client.unanswered() > open) client.Poll(kPollTime);
}

double PairsPerSecond(Place& place, const Server& broker, std::int64_t round, int count,
                      int per_request) {
  const auto taker = place.Connect(broker);
  const auto putter = place.Connect(broker);
  taker->GetStatistics();
  putter->GetStatistics();
  const auto begin = Clock::now();
  std::thread taking(
      [&] { TakeAll(*taker, round, count, static_cast<std::uint32_t>(per_request)); });
  PutAll(*putter, round, count, per_request);
  taking.join();
  return count / Seconds(Clock::now() - begin);
}

// The same pairs by the space's own steps, in one thread without messages: the upper bound for a
// broker on one core, if everything else cost nothing. kWindow tuples are put, then taken.
double PairsPerSecondOfSpace(int count) {
  ts::Space space;
  std::int64_t now_us = 0;
  ts::RequestId next_id = 0;
  const auto step = [&](const char* client, ts::RequestBody body) {
    return space.Step(ts::Incoming{client, {++next_id, std::move(body)}}, ++now_us);
  };
  for (const char* client : {"putter", "taker"}) space.Step(ts::ClientJoined{client}, ++now_us);
  const ts::Payload payload = ts::Payload::Copy(std::string(kSmallBytes, 'p'));
  ts::Get get;
  get.pattern = AllOf("small", 0);
  const auto begin = Clock::now();
  for (int first = 0; first < count; first += static_cast<int>(kWindow)) {
    const int end = std::min(count, first + static_cast<int>(kWindow));
    for (int i = first; i < end; ++i) {
      ts::Put put;
      ts::Tuple& tuple = put.tuples.emplace_back();
      tuple.key = ts::Key{"small", 0, i};
      tuple.payload = payload;
      step("putter", std::move(put));
    }
    for (int i = first; i < end; ++i) {
      auto& reply = std::get<ts::Reply>(step("taker", get)[0].message);
      ts::Grant& grant = std::get<ts::Grants>(reply.body).grants.at(0);
      step("taker", ts::Complete{{std::move(grant.key), grant.fence}, {}});
    }
  }
  const double seconds = Seconds(Clock::now() - begin);
  if (space.GetStatistics().counters.completed != static_cast<std::uint64_t>(count)) {
    throw std::runtime_error("the space did not complete all pairs");
  }
  return count / seconds;
}

struct Percentiles {
  double p50 = 0, p99 = 0;
};

Percentiles Of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

Percentiles RoundTrip(Place& place, const Server& broker, int count, int repeat) {
  const auto client = place.Connect(broker);
  const ts::Payload payload = ts::Payload::Copy(std::string(kSmallBytes, 'l'));
  client->GetStatistics();
  std::vector<double> times_us;
  for (int i = 0; i < count; ++i) {
    std::vector<ts::Tuple> tuples(1);
    tuples[0].key = ts::Key{"latency", repeat, i};
    tuples[0].payload = payload;
    const auto begin = Clock::now();
    client->Put(std::move(tuples));
    times_us.push_back(1e6 * Seconds(Clock::now() - begin));
  }
  return Of(std::move(times_us));
}

// The way of a value from one client to another and of its answer back, one at a time. Each way is
// a put and a get; a get's completion goes with the next put, as a task's completion does with its
// results.
Percentiles ThereAndBack(Place& place, const Server& broker, int count, int repeat) {
  const auto one = place.Connect(broker);
  const auto other = place.Connect(broker);
  one->GetStatistics();
  other->GetStatistics();
  const ts::Payload payload = ts::Payload::Copy(std::string(kSmallBytes, 'b'));
  const auto tuple = [&](const char* name, int i) {
    ts::Tuple made;
    made.key = ts::Key{name, repeat, i};
    made.payload = payload;
    return made;
  };
  std::thread answering([&] {
    int answered = 0;
    ts::Get get;
    get.pattern = AllOf("there", repeat);
    std::function<void(ts::ReplyBody &&)> on_grant = [&](ts::ReplyBody&& reply) {
      ts::Grant& grant = std::get<ts::Grants>(reply).grants.front();
      ts::Complete complete{{std::move(grant.key), grant.fence}, {tuple("back", answered)}};
      other->Submit(std::move(complete), nullptr);
      if (++answered < count) other->Submit(get, on_grant);
    };
    other->Submit(get, on_grant);
    while (answered < count || other->unanswered() > 0) other->Poll(kPollTime);
  });
  ts::Get get;
  get.pattern = AllOf("back", repeat);
  std::vector<double> times_us;
  for (int i = 0; i < count; ++i) {
    bool back = false;
    const auto begin = Clock::now();
    one->Submit(ts::Put{{tuple("there", i)}}, nullptr);
    one->Submit(get, [&](ts::ReplyBody&& reply) {
      back = true;
      ts::Grant& grant = std::get<ts::Grants>(reply).grants.front();
      one->Submit(ts::Complete{{std::move(grant.key), grant.fence}, {}}, nullptr);
    });
    while (!back) one->Poll(kPollTime);
    times_us.push_back(1e6 * Seconds(Clock::now() - begin));
  }
  while (one->unanswered() > 0) one->Poll(kPollTime);
  answering.join();
  return Of(std::move(times_us));
}

Percentiles BareRoundTrip(Place& place, const Server& echo, int count) {
  zmq::socket_t dealer(place.context(), zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.connect(echo.endpoint());
  const std::string bytes(kSmallBytes, 'b');
  std::vector<double> times_us;
  for (int i = 0; i <= count; ++i) {
    const auto begin = Clock::now();
    dealer.send(zmq::buffer(bytes), zmq::send_flags::none);
    zmq::message_t answer;
    while (!dealer.recv(answer)) {
    }
    if (i > 0) times_us.push_back(1e6 * Seconds(Clock::now() - begin));  // the first one connects
  }
  return Of(std::move(times_us));
}

// A pipe, and a thread that sleeps until there is data in it, or in either of two other pipes.
class WakingPipe {
 public:
  WakingPipe() {
    for (auto& ends : pipes_) {
      if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe2");
      }
    }
  }
  ~WakingPipe() {
    for (const auto& ends : pipes_) close(ends[0]), close(ends[1]);
  }
  WakingPipe(const WakingPipe&) = delete;
  WakingPipe& operator=(const WakingPipe&) = delete;

  void Wake() { Check(write(pipes_[0][1], "", 1), "write"); }
  void Sleep() {
    std::array<pollfd, 3> polled{};
    for (std::size_t i = 0; i < polled.size(); ++i) polled[i] = {pipes_[i][0], POLLIN, 0};
    Check(ppoll(polled.data(), polled.size(), nullptr, nullptr), "ppoll");
    char ring = 0;
    Check(read(pipes_[0][0], &ring, 1), "read");
  }

 private:
  static void Check(ssize_t result, const char* what) {
    if (result != 1) throw std::system_error(errno, std::generic_category(), what);
  }
  std::array<std::array<int, 2>, 3> pipes_{};
};

// The cost of waking alone: two threads that exchange no data. ThereAndBack has twice as many hops.
Percentiles PipeRoundTrip(int count) {
  WakingPipe there, back;
  std::thread answering([&] {
    for (int i = 0; i < count; ++i) there.Sleep(), back.Wake();
  });
  std::vector<double> times_us;
  for (int i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    there.Wake();
    back.Sleep();
    times_us.push_back(1e6 * Seconds(Clock::now() - begin));
  }
  answering.join();
  return Of(std::move(times_us));
}

nlohmann::json Repeat(int repeats, const std::function<double(int)>& measure) {
  std::vector<double> values;
  for (int i = 0; i < repeats; ++i) values.push_back(measure(i));
  return Summary(std::move(values));
}

nlohmann::json RepeatPercentiles(int repeats, const std::function<Percentiles(int)>& measure) {
  std::vector<double> p50, p99;
  for (int i = 0; i < repeats; ++i) {
    const Percentiles one = measure(i);
    p50.push_back(one.p50);
    p99.push_back(one.p99);
  }
  return {{"p50", Summary(std::move(p50))}, {"p99", Summary(std::move(p99))}};
}

// Each repeat measures a copy in memory, a bare ZeroMQ hop, and every way of passing payloads.
void MeasureBulk(Place& place, const Server& broker, std::size_t bytes,
                 const SpaceBenchOptions& options, std::int64_t* round, nlohmann::json* result) {
  const int count = std::max<int>(4, static_cast<int>(options.bulk_bytes / bytes));
  const auto hop = place.StartForwarder();
  std::map<std::string, std::vector<double>> values;
  for (int i = 0; i < options.repeats; ++i) {
    const auto pass = [&](Passing passing) {
      return PutReadGigabytesPerSecond(place, broker, bytes, count, ++*round, passing);
    };
    const double memcpy = CopyGigabytesPerSecond(bytes, count);
    const double in_place = pass(Passing::kInPlace);
    const double copied = pass(Passing::kCopied);
    const double frames = pass(Passing::kFrames);
    const double bare = BareHopGigabytesPerSecond(place, *hop, bytes, count);
    values["memcpy_gb_per_s"].push_back(memcpy);
    values["in_place_gb_per_s"].push_back(in_place);
    values["copied_gb_per_s"].push_back(copied);
    values["frames_gb_per_s"].push_back(frames);
    values["bare_zeromq_gb_per_s"].push_back(bare);
    values["in_place_to_memcpy"].push_back(in_place / memcpy);
    values["copied_to_memcpy"].push_back(copied / memcpy);
    values["frames_to_bare_zeromq"].push_back(frames / bare);
  }
  for (auto& [name, all] : values) (*result)[name] = Summary(std::move(all));
}

nlohmann::json MeasureTransport(const std::string& transport, const SpaceBenchOptions& options) {
  Place place(transport);
  const auto broker = place.StartBroker();
  nlohmann::json result = {{"transport", transport}};
  std::int64_t round = 0;  // each round needs new keys, since a key can be put only once
  result["put_get_pairs_per_s"] = Repeat(options.repeats, [&](int) {
    return PairsPerSecond(place, *broker, ++round, options.small_tuples, 1);
  });
  result["put_get_pairs_per_s_batched"] = Repeat(options.repeats, [&](int) {
    return PairsPerSecond(place, *broker, ++round, options.small_tuples, kBatchTuples);
  });
  result["put_get_pairs_per_s_space_alone"] =
      Repeat(options.repeats, [&](int) { return PairsPerSecondOfSpace(options.small_tuples); });
  result["round_trip_us"]["put"] = RepeatPercentiles(options.repeats, [&](int repeat) {
    return RoundTrip(place, *broker, options.round_trips, repeat);
  });
  result["round_trip_us"]["there_and_back"] = RepeatPercentiles(options.repeats, [&](int repeat) {
    return ThereAndBack(place, *broker, options.round_trips, repeat);
  });
  {
    const auto echo = place.StartForwarder();
    result["round_trip_us"]["bare_zeromq"] = RepeatPercentiles(
        options.repeats, [&](int) { return BareRoundTrip(place, *echo, options.round_trips); });
    result["round_trip_us"]["bare_pipes"] =
        RepeatPercentiles(options.repeats, [&](int) { return PipeRoundTrip(options.round_trips); });
  }
  for (const std::size_t mib : {1, 16}) {
    MeasureBulk(place, *broker, mib << 20, options, &round,
                &result["put_read"][std::to_string(mib) + "MiB"]);
  }
  return result;
}

// Clear text and CURVE alternately: each repeat measures one and then the other.
nlohmann::json MeasureCurve(const SpaceBenchOptions& options) {
  Place clear_place("tcp");
  Place curve_place("tcp", Keys());
  const auto clear_broker = clear_place.StartBroker();
  const auto curve_broker = curve_place.StartBroker();
  nlohmann::json result;
  std::int64_t round = 0;
  for (const std::size_t mib : {1, 16}) {
    const std::size_t bytes = mib << 20;
    const int count = std::max<int>(4, static_cast<int>(options.bulk_bytes / bytes));
    std::vector<double> clear, curve, ratio;
    for (int i = 0; i < options.repeats; ++i) {
      ++round;
      clear.push_back(PutReadGigabytesPerSecond(clear_place, *clear_broker, bytes, count, round,
                                                Passing::kFrames));
      curve.push_back(PutReadGigabytesPerSecond(curve_place, *curve_broker, bytes, count, round,
                                                Passing::kFrames));
      ratio.push_back(curve.back() / clear.back());
    }
    nlohmann::json& place = result["put_read_gb_per_s"][std::to_string(mib) + "MiB"];
    place["clear"] = Summary(std::move(clear));
    place["curve"] = Summary(std::move(curve));
    place["curve_to_clear"] = Summary(std::move(ratio));
  }
  result["round_trip_us"]["clear"] = RepeatPercentiles(options.repeats, [&](int repeat) {
    return RoundTrip(clear_place, *clear_broker, options.round_trips, repeat);
  });
  result["round_trip_us"]["curve"] = RepeatPercentiles(options.repeats, [&](int repeat) {
    return RoundTrip(curve_place, *curve_broker, options.round_trips, repeat);
  });
  return result;
}

}  // namespace

nlohmann::json RunSpaceBench(const SpaceBenchOptions& options) {
  if (options.repeats < 5) throw std::invalid_argument("repeats must be at least 5");
  nlohmann::json result = {
      {"benchmark", "space"},
      {"small_bytes", kSmallBytes},
      {"small_tuples", options.small_tuples},
      {"batch_tuples", kBatchTuples},
      {"hardware_threads", std::thread::hardware_concurrency()},
  };
  if (options.curve) {
    result["tcp"] = MeasureCurve(options);
    return result;
  }
  result["transports"] = nlohmann::json::array();
  for (const std::string& transport : options.transports) {
    result["transports"].push_back(MeasureTransport(transport, options));
  }
  return result;
}

}  // namespace acan::bench
