// Two clients exchange 100-byte values through Redis on a unix socket, as acan's clients do through
// the space in `acan bench space`. First, one client pushes to a list and the other pops from it.
// Then values make round trips through two lists, one value at a time. Commands that can be sent
// together go in one write. Prints one JSON object.
//
//   cd bench/compare/programs
//   g++ -O2 -std=c++20 redis_pairs.cpp -o /tmp/redis_pairs -lhiredis -pthread
//   redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --daemonize yes
//   /tmp/redis_pairs /tmp/redis.sock
//
// Needs Debian's redis-server and libhiredis-dev.
#include <hiredis/hiredis.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPairs = 200000;
constexpr int kPipelined = 256;  // requests of a client in flight
constexpr int kRoundTrips = 5000;
constexpr int kRounds = 7;

redisContext* Connect(const char* path) {
  redisContext* context = redisConnectUnix(path);
  if (context == nullptr || context->err != 0) {
    std::fprintf(stderr, "cannot connect to %s\n", path);
    std::exit(1);
  }
  return context;
}

void Take(redisContext* context) {
  void* reply = nullptr;
  if (redisGetReply(context, &reply) != REDIS_OK) std::exit(1);
  freeReplyObject(reply);
}

template <typename Append>
void Pipeline(redisContext* context, int count, Append append) {
  int sent = 0, taken = 0;
  while (taken < count) {
    while (sent < count && sent - taken < kPipelined) append(), ++sent;
    // Takes as many as possible, so that the next batch goes out as one.
    for (const int until = std::max(taken + 1, sent - kPipelined / 2); taken < until; ++taken) {
      Take(context);
    }
  }
}

double PairsPerSecond(const char* path) {
  redisContext* const pusher = Connect(path);
  redisContext* const popper = Connect(path);
  const std::string value(100, 'x');
  const Clock::time_point begin = Clock::now();
  std::thread push([&] {
    Pipeline(pusher, kPairs,
             [&] { redisAppendCommand(pusher, "RPUSH pairs %b", value.data(), value.size()); });
  });
  Pipeline(popper, kPairs, [&] { redisAppendCommand(popper, "BLPOP pairs 0"); });
  push.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  redisFree(pusher);
  redisFree(popper);
  return kPairs / seconds;
}

// Microseconds of each round trip, sorted.
std::vector<double> RoundTrips(const char* path) {
  redisContext* const one = Connect(path);
  redisContext* const other = Connect(path);
  const std::string value(100, 'x');
  std::thread echo([&] {
    redisAppendCommand(other, "BLPOP there 0");
    for (int i = 0; i < kRoundTrips; ++i) {
      Take(other);
      redisAppendCommand(other, "RPUSH back %b", value.data(), value.size());
      const bool last = i + 1 == kRoundTrips;
      if (!last) redisAppendCommand(other, "BLPOP there 0");
      Take(other);
    }
  });
  std::vector<double> micros;
  for (int i = 0; i < kRoundTrips; ++i) {
    const Clock::time_point begin = Clock::now();
    redisAppendCommand(one, "RPUSH there %b", value.data(), value.size());
    redisAppendCommand(one, "BLPOP back 0");
    Take(one);
    Take(one);
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  echo.join();
  redisFree(one);
  redisFree(other);
  std::sort(micros.begin(), micros.end());
  return micros;
}

std::string Summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  char text[160];
  std::snprintf(text, sizeof(text),
                R"({"median": %.1f, "least": %.1f, "most": %.1f, "rounds": %zu})",
                values[values.size() / 2], values.front(), values.back(), values.size());
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: redis_pairs SOCKET\n");
    return 2;
  }
  std::vector<double> rates, medians, slow;
  for (int i = 0; i < kRounds; ++i) {
    rates.push_back(PairsPerSecond(argv[1]));
    const std::vector<double> micros = RoundTrips(argv[1]);
    medians.push_back(micros[micros.size() / 2]);
    slow.push_back(micros[micros.size() * 99 / 100]);
  }
  std::printf(R"({"pairs_per_s": %s, "round_trip_us": {"p50": %s, "p99": %s}})"
              "\n",
              Summary(rates).c_str(), Summary(medians).c_str(), Summary(slow).c_str());
  return 0;
}
