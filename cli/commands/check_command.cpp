// acan check: finds what prevents a host from joining a broker.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
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

namespace acan::cli {
namespace {

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
    if (!json_) PrintLine(fmt::format("{:<11} {:<7} {}", check, WordOf(state), text));
    list_.push_back({{"check", check}, {"state", WordOf(state)}, {"text", text}});
  }
  void Measured(const char* name, double value) { measured_[name] = value; }

  bool failed() const { return failed_; }
  int Finish() {
    nlohmann::json all = {{"checks", list_}, {"measured", measured_}, {"ok", !failed_}};
    if (json_) PrintLine(JsonText(all));
    return failed_ ? 1 : 0;
  }

 private:
  bool json_;
  bool failed_ = false;
  nlohmann::json list_ = nlohmann::json::array();
  nlohmann::json measured_ = nlohmann::json::object();
};

// If there are several places, one that answers is enough; returns false if none does.
bool CheckReach(const std::string& endpoints, Findings& findings) {
  const std::vector<std::string> places = tuplespace::EndpointsIn(endpoints);
  std::vector<std::pair<std::string, Reach>> tried;
  bool named = false;
  bool reached = false;
  for (const std::string& place : places) {
    tried.emplace_back(place, TryToReach(place, kReachPatience));
    named = named || !tried.back().second.no_name;
    reached = reached || (!tried.back().second.no_name && !tried.back().second.problem);
  }
  for (const auto& [place, reach] : tried) {
    const State missing = named ? State::kNote : State::kFailed;
    findings.Add("name", reach.no_name ? missing : State::kOk,
                 reach.no_name ? fmt::format("the host of {} cannot be resolved: {}; is the name "
                                             "right?",
                                             place, *reach.no_name)
                               : fmt::format("{} is at {}", place, reach.address));
  }
  for (const auto& [place, reach] : tried) {
    if (reach.no_name) continue;
    const State missing = reached ? State::kNote : State::kFailed;
    findings.Add("reach", reach.problem ? missing : State::kOk,
                 reach.problem ? fmt::format("nothing answers at {}: {}; is the broker running "
                                             "there, and does it listen at this address?",
                                             reach.address, *reach.problem)
                               : fmt::format("{} accepts connections after {:.1f} ms",
                                             reach.address, reach.connect_ms));
  }
  return reached;
}

// Joins; false if that failed. Throws what Client throws, except SpaceError.
bool CheckJoin(tuplespace::Client& client, const std::optional<AccessFile>& file,
               Findings& findings) {
  std::string why = fmt::format(
      "no broker has answered for {} s: whatever listens there is not a broker", kPatience.count());
  bool handshake = false;
  client.OnConnection([&](bool connected, const std::string& text) {
    if (connected || text.empty()) return;
    why = text;
    handshake = true;
  });
  const auto end = std::chrono::steady_clock::now() + kPatience;
  try {
    while (!client.connected() && !handshake && std::chrono::steady_clock::now() < end) {
      client.Poll(std::chrono::milliseconds(100));
    }
  } catch (const tuplespace::SpaceError& error) {
    const bool version = error.code() == tuplespace::ErrorCode::kVersion;
    findings.Add(version ? "version" : "key", State::kFailed, error.what());
    return false;
  }
  client.OnConnection(nullptr);
  if (!client.connected()) {
    findings.Add("key", State::kFailed, why);
    return false;
  }
  const std::string until =
      file && file->access.until_unix_s != tuplespace::kNoEnd
          ? fmt::format(", until {}", tuplespace::TimeText(file->access.until_unix_s))
          : "";
  if (file && file->role == kObserverRole) {
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

void CheckLink(tuplespace::Client& client, Findings& findings) {
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

// Returns the device's GFLOP/s; 0 if it gets no tasks of exact jobs.
double CheckDevice(const HandlerDevice& chosen, Findings& findings) {
  const std::unique_ptr<Device> device =
      MakeDevice(chosen.spec, chosen.memory_bytes, chosen.fast_math);
  const ConformanceResult conformance = RunConformance(*device);
  const std::string& name = device->info().name;
  if (!conformance.exact) {
    findings.Add("device", State::kFailed,
                 fmt::format("{} does not compute exactly: the first operation that differs is {}; "
                             "it would get no tasks of exact jobs",
                             name, conformance.first_difference));
    return 0;
  }
  const double gflops = MeasureGflops(*device);
  findings.Measured("gflops", gflops);
  findings.Add("device", State::kOk,
               fmt::format("{} computes exactly, {:.1f} GFLOP/s, and may hold {}", name, gflops,
                           SizeText(device->budget().limit_bytes())));
  return gflops;
}

// Compares the device with the handlers that have already joined.
void CompareHandlers(tuplespace::Client& client, double gflops, Findings& findings) {
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
    if (error.code() != tuplespace::ErrorCode::kForbidden) throw;
    return findings.Add(
        "adds", State::kOk,
        fmt::format("{:.1f} GFLOP/s; a handler's key may not see the other handlers", gflops));
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
  if (CheckReach(options.endpoint, findings)) {
    tuplespace::Client client(std::move(options));
    if (CheckJoin(client, file, findings)) {
      Try("link", findings, [&] { CheckLink(client, findings); });
      if (device) {
        Try("device", findings, [&] {
          const double gflops = CheckDevice(*device, findings);
          if (gflops > 0) CompareHandlers(client, gflops, findings);
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
