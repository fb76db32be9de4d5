#include "space_bench.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <zmq.hpp>

#include "summary.h"
#include "tuplespace/broker.h"
#include "tuplespace/client.h"

namespace acan::bench {

namespace {

namespace ts = tuplespace;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSmallBytes = 100;
constexpr std::uint64_t kWindow = 512;  // requests in flight
constexpr std::uint32_t kBatchTuples = 32;
constexpr std::uint64_t kBulkWindow = 4;
constexpr std::chrono::seconds kPollTime{10};

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Something that serves at an endpoint until it is destroyed: in a thread, or in a forked process.
class Server {
 public:
  virtual ~Server() = default;
  const std::string& endpoint() const { return endpoint_; }

 protected:
  std::string endpoint_;
};

class BrokerThread : public Server {
 public:
  BrokerThread(zmq::context_t& context, const std::string& endpoint)
      : broker_(At(context, endpoint)) {
    endpoint_ = endpoint;
    thread_ = std::thread([this] { broker_.Run(); });
  }
  ~BrokerThread() override {
    broker_.Stop();
    thread_.join();
  }

 private:
  static ts::BrokerOptions At(zmq::context_t& context, const std::string& endpoint) {
    ts::BrokerOptions options;
    options.listen = {endpoint};
    options.context = &context;
    return options;
  }
  ts::Broker broker_;
  std::thread thread_;
};

void Echo(zmq::socket_t& router) {
  for (;;) {
    zmq::message_t frame;
    if (!router.recv(frame)) continue;
    const bool more = frame.more();
    if (!more && frame.size() == 1) return;
    router.send(frame, more ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

class EchoThread : public Server {
 public:
  EchoThread(zmq::context_t& context, const std::string& endpoint)
      : context_(context), router_(context, zmq::socket_type::router) {
    router_.bind(endpoint);
    endpoint_ = endpoint;
    thread_ = std::thread([this] { Echo(router_); });
  }
  ~EchoThread() override {
    zmq::socket_t dealer(context_, zmq::socket_type::dealer);
    dealer.connect(endpoint_);
    dealer.send(zmq::str_buffer("x"), zmq::send_flags::none);
    thread_.join();
  }

 private:
  zmq::context_t& context_;
  zmq::socket_t router_;
  std::thread thread_;
};

class Forked : public Server {
 public:
  // `serve` runs in the child: it binds, writes the endpoint to the descriptor, and serves.
  explicit Forked(const std::function<void(int)>& serve) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("the benchmark cannot make a pipe");
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("the benchmark cannot fork a broker process");
    if (pid_ == 0) {
      close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      try {
        serve(ends[1]);
      } catch (const std::exception&) {
        _exit(1);  // the parent sees the pipe end
      }
      _exit(0);
    }
    close(ends[1]);
    std::array<char, 512> buffer;
    for (ssize_t got; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
      endpoint_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    close(ends[0]);
    if (endpoint_.empty()) throw std::runtime_error("the benchmark's broker process did not start");
  }
  ~Forked() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  static void Announce(int fd, const std::string& endpoint) {
    [[maybe_unused]] const auto written = write(fd, endpoint.data(), endpoint.size());
    close(fd);
  }

 private:
  pid_t pid_ = -1;
};

// Keys for a broker and its clients.
struct Keys {
  ts::KeyPair broker = ts::MakeKeyPair();
  ts::KeyPair client = ts::MakeKeyPair();

  ts::BrokerAccess ForBroker() const {
    const ts::Pattern everything{{ts::FieldPattern::Any()}, true};
    return {
        broker,
        {{"all",
          {{{ts::Operation::kRead, ts::Operation::kPut, ts::Operation::kRetire}, everything, {}}}}},
        {{"bench", client.public_key, "all"}}};
  }
  ts::ClientAccess ForClient() const { return {"bench", client, broker.public_key}; }
};

// Where the servers of one transport live.
class Place {
 public:
  explicit Place(const std::string& transport, std::optional<Keys> keys = {})
      : transport_(transport), keys_(std::move(keys)) {
    if (transport != "inproc" && transport != "ipc" && transport != "tcp") {
      throw std::invalid_argument("transport \"" + transport +
                                  "\" is unknown; inproc, ipc and tcp are known");
    }
    std::string name = (std::filesystem::temp_directory_path() / "acan-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make the folder " + name);
    folder_ = name;
  }
  ~Place() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  std::unique_ptr<Server> StartBroker() {
    const std::string endpoint = NextEndpoint();
    if (transport_ == "inproc") return std::make_unique<BrokerThread>(context_, endpoint);
    return std::make_unique<Forked>([&](int ready) {
      ts::BrokerOptions options;
      options.listen = {endpoint};
      if (keys_) options.access = keys_->ForBroker();
      ts::Broker broker(options);
      Forked::Announce(ready, broker.endpoints().front());
      broker.Run();
    });
  }
  std::unique_ptr<Server> StartEcho() {
    const std::string endpoint = NextEndpoint();
    if (transport_ == "inproc") return std::make_unique<EchoThread>(context_, endpoint);
    return std::make_unique<Forked>([&](int ready) {
      zmq::context_t context;
      zmq::socket_t router(context, zmq::socket_type::router);
      router.bind(endpoint);
      Forked::Announce(ready, router.get(zmq::sockopt::last_endpoint));
      Echo(router);
    });
  }
  std::unique_ptr<ts::Client> Connect(const Server& server) {
    ts::ClientOptions options;
    options.endpoint = server.endpoint();
    options.name = "benchmark";
    if (keys_) options.access = keys_->ForClient();
    // Over ipc and tcp every client has a context of its own, as processes have.
    if (transport_ == "inproc") options.context = &context_;
    return std::make_unique<ts::Client>(options);
  }
  zmq::context_t& context() { return context_; }

 private:
  std::string NextEndpoint() {
    if (transport_ == "tcp") return "tcp://127.0.0.1:*";
    const std::string name = "s" + std::to_string(++servers_);
    return transport_ == "ipc" ? "ipc://" + (folder_ / name).string() : "inproc://" + name;
  }

  std::string transport_;
  std::optional<Keys> keys_;
  std::filesystem::path folder_;
  zmq::context_t context_;
  int servers_ = 0;
};

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

// Takes `count` tuples: a get grants up to `per_request`, each is completed by a request of its
// own.
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
    if (i > 0) times_us.push_back(1e6 * Seconds(Clock::now() - begin));  // the first connects
  }
  return Of(std::move(times_us));
}

// One client puts `count` payloads of `bytes`, another reads each as soon as it is there and
// retires it: the space holds no more at a time than in a training.
double PutReadGigabytesPerSecond(Place& place, const Server& broker, std::size_t bytes, int count,
                                 std::int64_t round) {
  const auto reader = place.Connect(broker);
  const auto putter = place.Connect(broker);
  reader->GetStatistics();
  putter->GetStatistics();
  // Those in flight together differ, as one payload in one message is sent once.
  std::vector<ts::Payload> payloads;
  for (std::uint64_t i = 0; i < kBulkWindow; ++i) {
    payloads.push_back(ts::Payload::Copy(std::string(bytes, static_cast<char>('A' + i))));
  }
  const auto begin = Clock::now();
  std::thread reading([&] {
    int asked = 0;
    std::uint64_t open = 0;
    while (asked < count || reader->unanswered() > 0) {
      for (; asked < count && open < kBulkWindow; ++asked, ++open) {
        ts::Read read;
        const ts::Pattern pattern = ts::Pattern::Of(ts::Key{"bulk", round, asked});
        read.patterns = {pattern};
        read.wait_us = ts::kForeverUs;
        reader->Submit(std::move(read), [&, pattern](ts::ReplyBody&&) {
          --open;
          reader->Submit(ts::Retire{pattern, /*watermark=*/false}, nullptr);
        });
      }
      reader->Poll(kPollTime);
    }
  });
  for (int put = 0; put < count || putter->unanswered() > 0;) {
    for (; put < count && putter->unanswered() < kBulkWindow; ++put) {
      ts::Put request;
      request.tuples.resize(1);
      request.tuples[0].key = ts::Key{"bulk", round, put};
      request.tuples[0].payload = payloads[static_cast<std::size_t>(put) % kBulkWindow];
      putter->Submit(std::move(request), nullptr);
    }
    putter->Poll(kPollTime);
  }
  reading.join();
  const double seconds = Seconds(Clock::now() - begin);
  return static_cast<double>(bytes) * count / seconds / 1e9;
}

// What a result costs that is copied once and read in place: the measure for put + read.
double CopyGigabytesPerSecond(std::size_t bytes, int count) {
  const std::string from(bytes, 'c');
  std::vector<std::string> to(kBulkWindow, std::string(bytes, ' '));
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    std::memcpy(to[static_cast<std::size_t>(i) % kBulkWindow].data(), from.data(), bytes);
  }
  return static_cast<double>(bytes) * count / Seconds(Clock::now() - begin) / 1e9;
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

nlohmann::json MeasureTransport(const std::string& transport, const SpaceBenchOptions& options) {
  Place place(transport);
  const auto broker = place.StartBroker();
  nlohmann::json result = {{"transport", transport}};
  std::int64_t round = 0;  // a key is put once and for all
  result["put_get_pairs_per_s"] = Repeat(options.repeats, [&](int) {
    return PairsPerSecond(place, *broker, ++round, options.small_tuples, 1);
  });
  result["put_get_pairs_per_s_batched"] = Repeat(options.repeats, [&](int) {
    return PairsPerSecond(place, *broker, ++round, options.small_tuples, kBatchTuples);
  });
  result["round_trip_us"]["put"] = RepeatPercentiles(options.repeats, [&](int repeat) {
    return RoundTrip(place, *broker, options.round_trips, repeat);
  });
  {
    const auto echo = place.StartEcho();
    result["round_trip_us"]["bare_zeromq"] = RepeatPercentiles(
        options.repeats, [&](int) { return BareRoundTrip(place, *echo, options.round_trips); });
  }
  for (const std::size_t mib : {1, 16}) {
    const std::size_t bytes = mib << 20;
    const int count = std::max<int>(4, static_cast<int>(options.bulk_bytes / bytes));
    const std::string name = std::to_string(mib) + "MiB";
    std::vector<double> passed, copied, ratio;
    for (int i = 0; i < options.repeats; ++i) {
      copied.push_back(CopyGigabytesPerSecond(bytes, count));
      passed.push_back(PutReadGigabytesPerSecond(place, *broker, bytes, count, ++round));
      ratio.push_back(passed.back() / copied.back());
    }
    result["put_read_gb_per_s"][name] = Summary(std::move(passed));
    result["memcpy_gb_per_s"][name] = Summary(std::move(copied));
    result["put_read_to_memcpy"][name] = Summary(std::move(ratio));
  }
  return result;
}

// Clear text and CURVE side by side: each repeat measures one and then the other.
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
      clear.push_back(PutReadGigabytesPerSecond(clear_place, *clear_broker, bytes, count, round));
      curve.push_back(PutReadGigabytesPerSecond(curve_place, *curve_broker, bytes, count, round));
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
