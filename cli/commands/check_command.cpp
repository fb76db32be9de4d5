// acan check: finds what prevents a host from joining a broker.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
#include "acan/core/memory_budget.h"
#include "acan/core/names.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/size_text.h"
#include "acan/handler/conformance.h"
#include "acan/manager/host_name.h"
#include "access_file.h"
#include "command.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "handler_flags.h"
#include "link_measurement.h"
#include "log.h"
#include "meeting_point.h"
#include "nlohmann/json.hpp"
#include "process_setup.h"
#include "reach.h"
#include "standard_output.h"
#include "tuplespace/client.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

constexpr std::chrono::seconds kFirstPatience(2);  // before it looks what prevents joining
constexpr std::chrono::milliseconds kReachPatience(3'000);
constexpr std::chrono::seconds kPatience(10);  // for joining, and for an answer
constexpr double kClockToleranceS = 5;

struct Flags {
  HandlerFlags handler;
  Setting log_format;
  bool json = false;
};

constexpr const char* kExample = R"(
Run it on the host that will join, with the flags and variables that its handler will have. It
resolves the broker's host name, connects, joins with the key, compares protocol and clock, measures
the link, and verifies and measures the device. It reports the first obstacle, skips the checks that
depend on it, and ends with exit code 1. It disturbs a running job only while it measures the link.
It checks --fast-math, --throttle, --direct, --inject and --log-format only for invalid values: it
computes exactly and at full speed, sends nothing to handlers, and writes no log.

Example:
  acan check --connect tcp://broker-host:5555 --keys handler.key)";

enum class State : std::uint8_t { kOk, kNote, kFailed };

const char* WordOf(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kNote:
      return "note";
    case State::kFailed:
      break;
  }
  return "FAILED";
}

// Prints each finding immediately: if the command hangs, it hangs in the next check.
class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}

  void Add(const std::string& check, State state, const std::string& text) {
    failed_ = failed_ || state == State::kFailed;
    watchdog_.Beat();
    if (!json_) PrintLine(fmt::format("{:<11} {:<7} {}", check, WordOf(state), text));
    list_.push_back({{"check", check}, {"state", WordOf(state)}, {"text", text}});
  }
  void Measured(const char* name, nlohmann::json number) { measured_[name] = std::move(number); }

  bool failed() const { return failed_; }
  int Finish() {
    nlohmann::json all = {{"checks", list_}, {"measured", measured_}, {"ok", !failed_}};
    if (json_) PrintLine(JsonText(all));
    return failed_ ? 1 : 0;
  }

 private:
  bool json_;
  Watchdog watchdog_{Watchdog::OnStderr(
      "acan check",
      "it waits for a name server, the broker or the device's driver, or measures the device")};
  bool failed_ = false;
  nlohmann::json list_ = nlohmann::json::array();
  nlohmann::json measured_ = nlohmann::json::object();
};

bool IsObserver(const std::optional<AccessFile>& file) {
  return file && file->role == kObserverRole;
}
bool IsHandler(const std::optional<AccessFile>& file) {
  return file && file->role == kHandlerRole;
}

// The places of a broker, as FindPlace found them.
using Places = std::vector<std::pair<std::string, Place>>;  // by endpoint

// If there are several places, one with an address is enough; returns false if there is none.
bool CheckNames(const Places& places, Findings& findings) {
  const bool named = std::any_of(places.begin(), places.end(),
                                 [](const auto& each) { return !each.second.no_name; });
  for (const auto& [endpoint, place] : places) {
    const State missing = named ? State::kNote : State::kFailed;
    findings.Add("name", place.no_name ? missing : State::kOk,
                 place.no_name ? fmt::format("the host of {} cannot be resolved: {}; is the name "
                                             "right?",
                                             endpoint, *place.no_name)
                               : fmt::format("{} is at {}", endpoint, place.address));
  }
  return named;
}

// An attempt to join. Its outcome also shows that the broker can be reached: the broker would log a
// connection that is made only to find that out as one that failed.
class Attempt {
 public:
  struct Refusal {
    const char* check;
    std::string text;
  };

  // REQUIRES: the client outlives the attempt.
  explicit Attempt(tuplespace::Client& client) : client_(client) {
    client_.OnConnection([this](bool connected, const std::string& why) {
      if (connected || why.empty() || refusal_) return;
      refusal_ = {"key", why};
      endpoint_ = client_.endpoint();
    });
    // As no request waits, it is that the broker admits no further client.
    client_.OnDelay([this](const std::string& text) {
      if (refusal_) return;
      refusal_ = {"key", text};
      endpoint_ = client_.endpoint();
    });
  }
  ~Attempt() {
    client_.OnConnection(nullptr);
    client_.OnDelay(nullptr);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Waits for the outcome for at most `patience`, which may be zero.
  void Wait(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    try {
      do {
        client_.Poll(std::min(patience, std::chrono::milliseconds(100)));
      } while (!ended() && std::chrono::steady_clock::now() < end);
    } catch (const tuplespace::SpaceError& error) {
      const bool version = error.code() == tuplespace::ErrorCode::kVersion;
      refusal_ = {version ? "version" : "key", error.what()};
      endpoint_ = client_.endpoint();
    }
  }
  bool ended() const { return client_.connected() || refusal_; }
  const std::optional<Refusal>& refusal() const { return refusal_; }
  // Where a broker has answered; empty: nowhere yet.
  std::string endpoint() const { return client_.connected() ? client_.endpoint() : endpoint_; }

 private:
  tuplespace::Client& client_;
  std::optional<Refusal> refusal_;
  std::string endpoint_;
};

// If there are several places, one that answers is enough; returns false if none does.
bool CheckReach(const Places& places, Attempt& attempt, Findings& findings) {
  attempt.Wait(kFirstPatience);
  const std::string answered = attempt.endpoint();
  bool reached = !answered.empty();
  std::vector<std::pair<std::string, Reach>> tried;  // by address
  for (const auto& [endpoint, place] : places) {
    if (place.no_name) continue;
    if (endpoint == answered) {
      findings.Add("reach", State::kOk, fmt::format("{} accepts connections", place.address));
      continue;
    }
    tried.emplace_back(place.address, TryToReach(place, kReachPatience));
    reached = reached || !tried.back().second.problem;
    if (!attempt.refusal()) attempt.Wait({});  // the broker must not take the client for lost
  }
  for (const auto& [address, reach] : tried) {
    const State missing = reached ? State::kNote : State::kFailed;
    findings.Add("reach", reach.problem ? missing : State::kOk,
                 reach.problem ? fmt::format("nothing answers at {}: {}; is the broker running "
                                             "there, and does it listen at this address?",
                                             address, *reach.problem)
                               : fmt::format("{} accepts connections after {:.1f} ms", address,
                                             reach.connect_ms));
  }
  return reached;
}

// False if the attempt has failed.
bool CheckJoin(Attempt& attempt, const std::optional<AccessFile>& file, Findings& findings) {
  if (!attempt.ended()) attempt.Wait(kPatience - kFirstPatience);
  if (attempt.refusal()) {
    findings.Add(attempt.refusal()->check, State::kFailed, attempt.refusal()->text);
    return false;
  }
  if (!attempt.ended()) {
    findings.Add(
        "key", State::kFailed,
        fmt::format("no broker has answered for {} s: what listens there is not a broker, or is "
                    "one that is stopped or overloaded",
                    kPatience.count()));
    return false;
  }
  const std::string until =
      file && file->access.until_unix_s != tuplespace::kNoEnd
          ? fmt::format(", until {}", tuplespace::TimeText(file->access.until_unix_s))
          : "";
  if (IsObserver(file)) {
    findings.Add(
        "key", State::kFailed,
        fmt::format("\"{}\" may join{}, but only as an observer, which gets no tasks; acan "
                    "handler needs a handler's key",
                    file->access.name, until));
  } else {
    findings.Add("key", State::kOk,
                 file ? fmt::format("\"{}\" may join as {}{}", file->access.name, file->role, until)
                      : "this broker requires no key");
  }
  findings.Add("version", State::kOk,
               fmt::format("protocol {} on both sides", tuplespace::kProtocolVersion));
  return true;
}

bool Joins(tuplespace::Client& client, const Places& places, const std::optional<AccessFile>& file,
           Findings& findings) {
  Attempt attempt(client);
  return CheckReach(places, attempt, findings) && CheckJoin(attempt, file, findings);
}

void CheckClock(const std::optional<double>& ahead_s, Findings& findings) {
  if (!ahead_s) {
    return findings.Add("clock", State::kNote, "this broker does not report its time");
  }
  findings.Measured("clock_ahead_s", *ahead_s);
  const std::string text = fmt::format("the broker's clock is {:.3f} s {} this host's",
                                       std::abs(*ahead_s), *ahead_s < 0 ? "behind" : "ahead of");
  const bool far = std::abs(*ahead_s) > kClockToleranceS;
  findings.Add(
      "clock", far ? State::kNote : State::kOk,
      far ? text +
                "; the broker's clock decides when keys expire, and the times in logs will differ"
          : text);
}

void CheckLink(tuplespace::Client& client, const std::optional<AccessFile>& file,
               Findings& findings) {
  const RoundTrips trips = MeasureRoundTrips(client);
  CheckClock(trips.clock_ahead_s, findings);
  findings.Measured("round_trip_us", trips.median_us);
  findings.Add("round trip", State::kOk,
               fmt::format("{:.0f} us, the median of {} ({:.0f} to {:.0f})", trips.median_us,
                           trips.count, trips.least_us, trips.most_us));
  if (client.shares_memory()) {
    return findings.Add("bandwidth", State::kOk,
                        "the broker is on this host: bytes pass through shared memory");
  }
  if (IsObserver(file)) {  // the broker would log the attempt
    return findings.Add("bandwidth", State::kNote,
                        "not measured, because an observer's key may not put tuples");
  }
  try {
    const Bandwidth link = MeasureBandwidth(client, trips.median_us);
    findings.Measured("to_broker_mb_s", link.to_broker_mb_s);
    findings.Measured("from_broker_mb_s", link.from_broker_mb_s);
    findings.Add("bandwidth", State::kOk,
                 fmt::format("{:.1f} MB/s to the broker, {:.1f} MB/s from it", link.to_broker_mb_s,
                             link.from_broker_mb_s));
  } catch (const tuplespace::SpaceError& error) {
    if (error.code() != tuplespace::ErrorCode::kForbidden) throw;
    findings.Add(
        "bandwidth", State::kNote,
        fmt::format("not measured, because this key may not put tuples: {}", error.what()));
  }
}

// Returns the device's GFLOP/s; 0 if a handler would not start, or get no tasks of exact jobs.
double CheckDevice(const HandlerDevice& chosen, Findings& findings) try {
  const std::unique_ptr<Device> device =
      MakeDevice(chosen.spec, chosen.memory_bytes, chosen.fast_math);
  const ConformanceResult conformance = RunConformance(*device);
  const std::string& name = device->info().name;
  if (!device->info().exact || !conformance.exact) {
    const std::string reason =
        conformance.exact ? "it does not claim to"
                          : "the first operation that differs is " + conformance.first_difference;
    findings.Add("device", State::kFailed,
                 fmt::format("{} does not compute exactly: {}; it would get no tasks of exact jobs",
                             name, reason));
    return 0;
  }
  const double gflops = MeasureGflops(*device);
  findings.Measured("gflops", gflops);
  findings.Add("device", State::kOk,
               fmt::format("{} computes exactly, {:.1f} GFLOP/s, and may hold {}", name, gflops,
                           RoundedSizeText(device->budget().limit_bytes())));
  return gflops;
} catch (const OutOfMemory& error) {
  findings.Add("device", State::kFailed, TooSmall(chosen.spec, chosen.memory_bytes, error).what());
  return 0;
}

// Compares the device with the handlers that have already joined.
void CompareHandlers(tuplespace::Client& client, const std::optional<AccessFile>& file,
                     double gflops, Findings& findings) {
  const std::string blind =
      fmt::format("{:.1f} GFLOP/s; a handler's key may not see the other handlers", gflops);
  // The broker would log the attempt as that of an intruder.
  if (IsHandler(file)) return findings.Add("adds", State::kOk, blind);
  double there_gflops = 0;
  int there = 0;
  try {
    for (const tuplespace::FoundTuple& found : client.ListAll(AllHandlers(), false, kPatience)) {
      const auto capacity = CapacityFromJson(std::string(found.payload.text()));
      if (!capacity) continue;
      there_gflops += capacity->gflops;
      ++there;
    }
  } catch (const tuplespace::SpaceError& error) {
    if (error.code() == tuplespace::ErrorCode::kTooLarge) {
      return findings.Add("adds", State::kOk,
                          fmt::format("{:.1f} GFLOP/s; more handlers have joined than this key may "
                                      "list at once",
                                      gflops));
    }
    if (error.code() != tuplespace::ErrorCode::kForbidden) throw;
    return findings.Add("adds", State::kOk, blind);
  }
  findings.Measured("handlers", there);
  findings.Measured("handlers_gflops", there_gflops);
  if (there == 0) return findings.Add("adds", State::kOk, "it would be the first handler");
  findings.Add(
      "adds", State::kOk,
      fmt::format("{} handler{} joined, with {:.1f} GFLOP/s in total: this one adds {:.0f} %",
                  there, there == 1 ? " has" : "s have", there_gflops,
                  100 * gflops / std::max(there_gflops, 0.001)));
}

// What goes wrong in a check is what it has found.
template <class Check>
void Try(const char* what, Findings& findings, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kUsage) throw;
    findings.Add(what, State::kFailed, error.what());
  } catch (const tuplespace::SpaceError& error) {
    findings.Add(what, State::kFailed, error.what());
  }
}

int RunCheck(const Flags& flags) {
  RequireLimits("acan check");
  tuplespace::ClientOptions options;
  options.endpoint = EndpointToConnect(flags.handler.connect);
  options.name = fmt::format("acan check on {}", HostName());
  std::optional<AccessFile> file;
  if (flags.handler.keys.set()) {
    file = ReadAccessFile(flags.handler.keys.value);
    options.access = file->access;
  }
  HandlerOptions unused;  // reports what is wrong with the flags, as the handler would
  ApplyHandlerFlags(flags.handler, flags.handler.keys.set(), unused);
  ParseLogFormat(flags.log_format);
  Findings findings(flags.json);
  std::optional<HandlerDevice> device;
  Try("device", findings, [&] { device = DeviceOf(flags.handler); });
  Places places;
  for (const std::string& endpoint : tuplespace::EndpointsIn(options.endpoint)) {
    places.emplace_back(endpoint, FindPlace(endpoint));
  }
  if (CheckNames(places, findings)) {
    tuplespace::Client client(std::move(options));
    if (Joins(client, places, file, findings)) {
      Try("link", findings, [&] { CheckLink(client, file, findings); });
      if (device) {
        Try("device", findings, [&] {
          const double gflops = CheckDevice(*device, findings);
          if (gflops > 0) CompareHandlers(client, file, gflops, findings);
        });
      }
    }
  }
  return findings.Finish();
}

}  // namespace

void AddCheck(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<Flags>();
  Command command =
      app.AddCommand("check", "Check whether a handler on this host can join a broker");
  AddHandlerFlags(command, flags->handler);
  AddLogFormat(command, flags->log_format);
  command.AddFlag("--json", flags->json, "one line of JSON instead of the table");
  command.Footer(kExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunCheck(*flags); }; });
}

}  // namespace acan::cli
