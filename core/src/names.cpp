#include "acan/core/names.h"

#include <algorithm>
#include <cstdint>

#include "acan/core/text/json_text.h"
#include "acan/core/text/one_line.h"
#include "acan/core/tuple_kinds.h"
#include "nlohmann/json.hpp"

namespace acan {

using nlohmann::json;
using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

namespace {

// What other processes send is not trusted. A number that does not fit its type, which JSON's own
// conversions would turn into another number, is refused like a field of the wrong type.
struct Malformed {};

// Small enough that sums of such numbers, and every later reader of them, have room.
constexpr std::uint64_t kMaxCounted = std::uint64_t{1} << 53;
constexpr std::uint64_t kMaxThreads = 1 << 20;
constexpr std::size_t kMaxCpus = 4096;
constexpr std::uint64_t kMaxCpu = 1 << 16;

std::uint64_t CountOf(const json& object, const char* name, std::uint64_t most = kMaxCounted) {
  const json& value = object.at(name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) throw Malformed();
  return value.get<std::uint64_t>();
}

// May be negative if `least` is, because a clock may have jumped back meanwhile.
double AmountOf(const json& object, const char* name, double least = 0) {
  const double value = object.at(name).get<double>();
  if (!(value >= least && value <= static_cast<double>(kMaxCounted))) throw Malformed();
  return value;
}

constexpr std::uint64_t kMaxLink = std::uint64_t{1} << 30;  // ns for a KiB, us for a round trip
constexpr std::size_t kMaxTextBytes = 256;

// Cuts a text for logs and receipts to one short line.
std::string ShortLine(std::string text) {
  if (text.size() > kMaxTextBytes) {
    std::size_t end = kMaxTextBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // UTF-8
    text.resize(end);
  }
  return OneLine(text);
}

// Handlers of earlier versions do not send these fields.
void ReadLink(const json& object, Capacity* capacity) {
  if (!object.contains("host")) return;
  capacity->host = ShortLine(object.at("host").get<std::string>());
  capacity->host_threads = static_cast<int>(CountOf(object, "host_threads", kMaxThreads));
  capacity->link_ns_per_kib =
      static_cast<std::uint32_t>(CountOf(object, "link_ns_per_kib", kMaxLink));
  capacity->link_round_trip_us =
      static_cast<std::uint32_t>(CountOf(object, "link_round_trip_us", kMaxLink));
}

// Handlers of earlier versions do not send these fields.
void ReadMachine(const json& object, Capacity* capacity) {
  if (!object.contains("machine")) return;
  capacity->machine = ShortLine(object.at("machine").get<std::string>());
  if (capacity->machine.empty()) return;  // the other fields mean nothing without it
  const json& cpus = object.at("cpus");
  if (!cpus.is_array() || cpus.size() > kMaxCpus) throw Malformed();
  for (const json& cpu : cpus) {
    if (!cpu.is_number_unsigned() || cpu.get<std::uint64_t>() > kMaxCpu) throw Malformed();
    capacity->cpus.push_back(cpu.get<int>());
  }
  std::sort(capacity->cpus.begin(), capacity->cpus.end());
  const auto twice = std::adjacent_find(capacity->cpus.begin(), capacity->cpus.end());
  if (twice != capacity->cpus.end()) throw Malformed();
  capacity->busy_cpus = AmountOf(object, "busy_cpus");
  if (capacity->busy_cpus > static_cast<double>(kMaxThreads)) throw Malformed();
}

}  // namespace

std::string CapacityToJson(const Capacity& c) {
  json j = {{"name", c.name},
            {"device", c.device},
            {"description", c.description},
            {"limit_bytes", c.limit_bytes},
            {"memory_bytes", c.memory_bytes},
            {"threads", c.threads},
            {"gflops", c.gflops},
            {"exact", c.exact},
            {"fast", c.fast},
            {"own_memory", c.own_memory},
            {"conformance_hash", c.conformance_hash}};
  if (c.bytes_travel) {
    j["bytes_travel"] = true;
    j["host"] = c.host;
    j["host_threads"] = c.host_threads;
    j["link_ns_per_kib"] = c.link_ns_per_kib;
    j["link_round_trip_us"] = c.link_round_trip_us;
  }
  if (!c.machine.empty()) {
    j["machine"] = c.machine;
    j["cpus"] = c.cpus;
    j["busy_cpus"] = c.busy_cpus;
  }
  if (!c.jobs.empty()) j["jobs"] = c.jobs;
  return JsonText(j);
}

std::optional<Capacity> CapacityFromJson(const std::string& text) {
  if (text.size() > kMaxCapacityBytes) return std::nullopt;
  try {
    const json j = ParseJson(text);
    Capacity c;
    c.name = ShortLine(j.at("name").get<std::string>());
    c.device = ShortLine(j.at("device").get<std::string>());
    c.description = ShortLine(j.at("description").get<std::string>());
    c.limit_bytes = CountOf(j, "limit_bytes");
    c.memory_bytes = CountOf(j, "memory_bytes");
    c.threads = static_cast<int>(CountOf(j, "threads", kMaxThreads));
    c.gflops = AmountOf(j, "gflops");
    j.at("exact").get_to(c.exact);
    j.at("fast").get_to(c.fast);
    c.own_memory = j.value("own_memory", false);
    c.bytes_travel = j.value("bytes_travel", false);
    ReadLink(j, &c);
    ReadMachine(j, &c);
    c.jobs = j.value("jobs", "");
    c.conformance_hash = ShortLine(j.at("conformance_hash").get<std::string>());
    return c;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

std::string ReportToJson(const Report& r) {
  json j = {{"tasks", r.tasks},           {"failed", r.failed}, {"tile_hits", r.tile_hits},
            {"peak_bytes", r.peak_bytes}, {"busy_s", r.busy_s}, {"gflop", r.gflop}};
  if (r.fetched_bytes > 0) j["fetched_bytes"] = r.fetched_bytes;
  if (r.speed != 1) j["speed"] = r.speed;
  return JsonText(j);
}

std::optional<Report> ReportFromJson(const std::string& text) {
  if (text.size() > kMaxReportBytes) return std::nullopt;
  try {
    const json j = ParseJson(text);
    Report r;
    r.tasks = CountOf(j, "tasks");
    r.failed = CountOf(j, "failed");
    r.tile_hits = CountOf(j, "tile_hits");
    r.peak_bytes = CountOf(j, "peak_bytes");
    r.busy_s = AmountOf(j, "busy_s", -static_cast<double>(kMaxCounted));
    r.gflop = AmountOf(j, "gflop");
    if (j.contains("fetched_bytes")) r.fetched_bytes = CountOf(j, "fetched_bytes");
    if (j.contains("speed")) r.speed = AmountOf(j, "speed", kMinSpeed);
    if (r.speed > kMaxSpeed) throw Malformed();
    return r;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const Malformed&) {
    return std::nullopt;
  }
}

Key HandlerKey(const std::string& id) {
  return Key{WordOf(OtherTuple::kHandler), id};
}
Key ReportKey(const std::string& id, std::int64_t number) {
  return Key{WordOf(OtherTuple::kReport), id, number};
}
Key LeaderKey(const std::string& job) {
  return Key{WordOf(OtherTuple::kLeader), job};
}
Pattern AllLeaders() {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kLeader)), FieldPattern::Any()}, false};
}
Key DoneKey(const std::string& job) {
  return Key{WordOf(OtherTuple::kDone), job};
}

Key StandbyKey(const std::string& job, const std::string& id) {
  return Key{WordOf(OtherTuple::kStandby), job, id};
}

Pattern AllStandbys(const std::string& job) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kStandby)), FieldPattern::Exact(job),
           FieldPattern::Any()},
          false};
}

Key RunKey(const std::string& job, const std::string& run) {
  return Key{WordOf(OtherTuple::kRun), job, run};
}

Pattern AllRuns(const std::string& job) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kRun)), FieldPattern::Exact(job),
           FieldPattern::Any()},
          false};
}

Key QuarantineKey(const std::string& job, const std::string& id) {
  return Key{WordOf(OtherTuple::kQuarantine), job, id};
}

Pattern QuarantinedIn(const std::string& job) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kQuarantine)), FieldPattern::Exact(job),
           FieldPattern::Any()},
          false};
}

Key ProbeKey(const std::string& id, std::int64_t number) {
  return Key{WordOf(OtherTuple::kProbe), id, number};
}

Pattern AllHandlers() {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kHandler)), FieldPattern::Any()}, false};
}
Pattern AllReports() {
  return {
      {FieldPattern::Exact(WordOf(OtherTuple::kReport)), FieldPattern::Any(), FieldPattern::Any()},
      false};
}
Pattern AllProbes() {
  return {
      {FieldPattern::Exact(WordOf(OtherTuple::kProbe)), FieldPattern::Any(), FieldPattern::Any()},
      false};
}
Key ProbeTurnKey() {
  return Key{WordOf(OtherTuple::kProbe), "turn"};
}
std::vector<Key> FirstTuples() {
  return {ProbeTurnKey()};
}
Pattern ProbesOf(const std::string& id) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kProbe)), FieldPattern::Exact(id),
           FieldPattern::Any()},
          false};
}
Pattern ReportsBefore(const std::string& id, std::int64_t number) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kReport)), FieldPattern::Exact(id),
           FieldPattern::AtMost(number - 1)},
          false};
}

Pattern AllOfSteps() {
  return {{FieldPattern::Any(), FieldPattern::AtLeast(INT64_MIN), FieldPattern::Any()}, true};
}

bool IsOfStep(const Key& key) {
  return key.IsInteger(1) && key.FirstBytes(2).size() < key.bytes().size();
}

std::string WithoutStep(const Key& key) {
  return key.FieldCount() > 2 ? key.BytesWithout(1) : key.bytes();
}

std::optional<Key> StepOf(const Key& key) {
  std::vector<tuplespace::Field> fields = key.Fields();
  if (fields.size() < 3 || !std::holds_alternative<std::string>(fields[0]) ||
      !std::holds_alternative<std::int64_t>(fields[1])) {
    return std::nullopt;
  }
  if (std::get<std::int64_t>(fields[1]) == kFrozenVersion) return std::nullopt;
  fields.resize(2);
  return Key(fields);
}

void MoveBySteps(std::int64_t steps, Key* key) {
  const std::optional<std::int64_t> step = key->Integer(1);
  if (step && *step != kFrozenVersion) key->SetInteger(1, *step + steps);
}

Key RunOf(const Key& step) {
  return *Key::FromBytes(step.FirstBytes(1));
}

const char* PrecisionName(Precision precision) {
  return precision == Precision::kExact ? "exact" : "fast";
}

Pattern RunnableTasks(bool exact, bool fast) {
  FieldPattern precision = FieldPattern::Any();
  if (exact != fast) precision = FieldPattern::Exact(exact ? "exact" : "fast");
  return {{FieldPattern::Any(), FieldPattern::Any(), FieldPattern::Exact(WordOf(StepTuple::kTask)),
           precision},
          true};
}

}  // namespace acan
