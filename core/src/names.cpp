#include "acan/core/names.h"

#include <stdexcept>

#include "nlohmann/json.hpp"

namespace acan {

using nlohmann::json;
using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

namespace {

// Whatever is added up of such, and whoever reads it again, has room for it.
constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 53;
constexpr std::uint64_t kMostThreads = 1 << 20;

// Anybody with a handler's key may have written it. Throws std::out_of_range.
void Read(const json& j, const char* name, std::uint64_t* value) {
  const json& field = j.at(name);
  if (!field.is_number_unsigned()) throw std::out_of_range(name);
  field.get_to(*value);
  if (*value > kMostCounted) throw std::out_of_range(name);
}
void Read(const json& j, const char* name, double* value) {
  j.at(name).get_to(*value);
  if (!(*value >= 0 && *value <= static_cast<double>(kMostCounted))) throw std::out_of_range(name);
}

}  // namespace

std::string CapacityToJson(const Capacity& c) {
  return json{{"name", c.name},
              {"device", c.device},
              {"description", c.description},
              {"limit_bytes", c.limit_bytes},
              {"memory_bytes", c.memory_bytes},
              {"threads", c.threads},
              {"gflops", c.gflops},
              {"exact", c.exact},
              {"fast", c.fast},
              {"own_memory", c.own_memory},
              {"conformance_hash", c.conformance_hash}}
      .dump();
}

std::optional<Capacity> CapacityFromJson(const std::string& text) {
  try {
    const json j = json::parse(text);
    Capacity c;
    j.at("name").get_to(c.name);
    j.at("device").get_to(c.device);
    j.at("description").get_to(c.description);
    Read(j, "limit_bytes", &c.limit_bytes);
    Read(j, "memory_bytes", &c.memory_bytes);
    std::uint64_t threads = 0;
    Read(j, "threads", &threads);
    if (threads > kMostThreads) return std::nullopt;
    c.threads = static_cast<int>(threads);
    Read(j, "gflops", &c.gflops);
    j.at("exact").get_to(c.exact);
    j.at("fast").get_to(c.fast);
    c.own_memory = j.value("own_memory", false);
    j.at("conformance_hash").get_to(c.conformance_hash);
    return c;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

std::string ReportToJson(const Report& r) {
  return json{{"tasks", r.tasks},           {"failed", r.failed}, {"tile_hits", r.tile_hits},
              {"peak_bytes", r.peak_bytes}, {"busy_s", r.busy_s}, {"gflop", r.gflop}}
      .dump();
}

std::optional<Report> ReportFromJson(const std::string& text) {
  try {
    const json j = json::parse(text);
    Report r;
    Read(j, "tasks", &r.tasks);
    Read(j, "failed", &r.failed);
    Read(j, "tile_hits", &r.tile_hits);
    Read(j, "peak_bytes", &r.peak_bytes);
    Read(j, "busy_s", &r.busy_s);
    Read(j, "gflop", &r.gflop);
    return r;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

Key HandlerKey(const std::string& id) {
  return Key{"handler", id};
}
Key ReportKey(const std::string& id, std::int64_t number) {
  return Key{"report", id, number};
}
Key LeaderKey(const std::string& job) {
  return Key{"leader", job};
}
Key DoneKey(const std::string& job) {
  return Key{"done", job};
}

Key QuarantineKey(const std::string& job, const std::string& id) {
  return Key{"quarantine", job, id};
}

Pattern QuarantinedIn(const std::string& job) {
  return {{FieldPattern::Exact("quarantine"), FieldPattern::Exact(job), FieldPattern::Any()},
          false};
}

Pattern AllHandlers() {
  return {{FieldPattern::Exact("handler"), FieldPattern::Any()}, false};
}
Pattern AllReports() {
  return {{FieldPattern::Exact("report"), FieldPattern::Any(), FieldPattern::Any()}, false};
}
Pattern ReportsBefore(const std::string& id, std::int64_t number) {
  return {
      {FieldPattern::Exact("report"), FieldPattern::Exact(id), FieldPattern::AtMost(number - 1)},
      false};
}

std::string WithoutStep(const Key& key) {
  std::vector<tuplespace::Field> fields = key.Fields();
  if (fields.size() > 2) fields.erase(fields.begin() + 1);
  return Key(fields).bytes();
}

std::optional<Key> StepOf(const Key& key) {
  std::vector<tuplespace::Field> fields = key.Fields();
  if (fields.size() < 3 || !std::holds_alternative<std::string>(fields[0]) ||
      !std::holds_alternative<std::int64_t>(fields[1])) {
    return std::nullopt;
  }
  fields.resize(2);
  return Key(fields);
}

Key RunOf(const Key& step) {
  return Key(std::vector<tuplespace::Field>{step.Fields().front()});
}

const char* PrecisionName(Precision precision) {
  return precision == Precision::kExact ? "exact" : "fast";
}

Pattern RunnableTasks(bool exact, bool fast) {
  FieldPattern precision = FieldPattern::Any();
  if (exact != fast) precision = FieldPattern::Exact(exact ? "exact" : "fast");
  return {{FieldPattern::Any(), FieldPattern::Any(), FieldPattern::Exact("task"), precision}, true};
}

}  // namespace acan
