#include "acan/manager/receipt.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "acan/core/error.h"
#include "acan/manager/job.h"
#include "atomic_file.h"
#include "json_depth.h"

namespace acan {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "acan-receipt-1";
constexpr std::size_t kSha256Digits = 64;

json OrNull(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

// Checked access to the fields of one JSON object of a receipt.
class Fields {
 public:
  Fields(const json& object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object.is_object()) {
      throw UsageError(fmt::format("{}: expected a JSON object, found {}", name_, Shown(object)));
    }
  }

  const json& Get(const char* key) const {
    const auto at = object_.find(key);
    if (at == object_.end()) {
      throw UsageError(fmt::format("{}: the field '{}' is missing", name_, key));
    }
    return *at;
  }
  std::string Text(const char* key) const {
    if (!Get(key).is_string()) Refuse(key, "a text");
    return Get(key).get<std::string>();
  }
  std::int64_t Count(const char* key) const {
    const json& value = Get(key);
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
      Refuse(key, "an integer that is not negative");
    }
    return value.get<std::int64_t>();
  }
  std::string Sha256Text(const char* key) const {
    const std::string text = Text(key);
    if (text.size() != kSha256Digits ||
        text.find_first_not_of("0123456789abcdef") != std::string::npos) {
      Refuse(key, "a SHA-256: 64 digits 0-9, a-f");
    }
    return text;
  }
  std::optional<double> OptionalNumber(const char* key, double least, double most) const {
    const json& value = Get(key);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most)) {
      Refuse(key, fmt::format("null or a number from {} to {}", least, most));
    }
    return value.get<double>();
  }

  [[noreturn]] void Refuse(const char* key, const std::string& expected) const {
    throw UsageError(fmt::format("{}: the field '{}' is {}, expected {}", name_, key,
                                 Shown(Get(key)), expected));
  }

 private:
  static std::string Shown(const json& value) {
    constexpr std::size_t kMost = 80;
    const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }

  const json& object_;
  std::string name_;
};

constexpr double kMostNumber = 1.7e308;

HandlerSeen HandlerFromJson(const json& value, const std::string& name) {
  const Fields fields(value, name);
  HandlerSeen handler;
  handler.name = fields.Text("name");
  handler.device = fields.Text("device");
  handler.capacity_bytes = static_cast<std::uint64_t>(fields.Count("capacity_bytes"));
  handler.peak_bytes = static_cast<std::uint64_t>(fields.Count("peak_bytes"));
  handler.tasks = fields.Count("tasks");
  return handler;
}

json AuditsToJson(const AuditSummary& audits) {
  json quarantined = json::array();
  for (const QuarantinedHandler& handler : audits.quarantined) {
    quarantined.push_back({{"id", handler.id}, {"why", handler.why}});
  }
  return {{"share", audits.share},
          {"passed", audits.passed},
          {"skipped", audits.skipped},
          {"quarantined", quarantined}};
}

AuditSummary AuditsFromJson(const json& value, const std::string& name) {
  const Fields fields(value, name);
  AuditSummary audits;
  audits.share = fields.OptionalNumber("share", 0, 1).value_or(0);
  audits.passed = fields.Count("passed");
  audits.skipped = fields.Count("skipped");
  const json& quarantined = fields.Get("quarantined");
  if (!quarantined.is_array()) fields.Refuse("quarantined", "an array");
  for (std::size_t i = 0; i < quarantined.size(); ++i) {
    const Fields one(quarantined[i], fmt::format("{}, quarantined[{}]", name, i));
    audits.quarantined.push_back({one.Text("id"), one.Text("why")});
  }
  return audits;
}

}  // namespace

json ReceiptToJson(const Receipt& receipt) {
  json handlers = json::array();
  for (const HandlerSeen& handler : receipt.handlers) {
    handlers.push_back({{"name", handler.name},
                        {"device", handler.device},
                        {"capacity_bytes", handler.capacity_bytes},
                        {"peak_bytes", handler.peak_bytes},
                        {"tasks", handler.tasks}});
  }
  return {
      {"format", kFormat},
      {"job", receipt.job},
      {"data",
       {{"train_sha256", receipt.train_sha256},
        {"test_sha256", receipt.test_sha256.empty() ? json(nullptr) : json(receipt.test_sha256)}}},
      {"code_version", receipt.code_version},
      {"weights_sha256", receipt.weights_sha256},
      {"handlers", handlers},
      {"steps", receipt.steps},
      {"epochs", receipt.epochs},
      {"seconds", receipt.seconds},
      {"tasks_done", receipt.tasks_done},
      {"tasks_reissued", receipt.tasks_reissued},
      {"tasks_duplicated", receipt.tasks_duplicated},
      {"audits", AuditsToJson(receipt.audits)},
      {"audit_log_head",
       receipt.audit_log_head.empty() ? json(nullptr) : json(receipt.audit_log_head)},
      {"test_accuracy", OrNull(receipt.test_accuracy)},
      {"test_loss", OrNull(receipt.test_loss)},
      {"final_train_loss", OrNull(receipt.final_train_loss)}};
}

Receipt ReceiptFromJson(const json& value, const std::string& name) {
  if (IsDeeperThan(value, kMaxJsonDepth)) {
    throw UsageError(fmt::format("{}: nests arrays and objects more than {} deep, no receipt does",
                                 name, kMaxJsonDepth));
  }
  const Fields fields(value, name);
  if (fields.Text("format") != kFormat) fields.Refuse("format", fmt::format("\"{}\"", kFormat));
  Receipt receipt;
  receipt.job = fields.Get("job");
  JobFromJson(receipt.job, name);
  const Fields data(fields.Get("data"), name + ", data");
  receipt.train_sha256 = data.Sha256Text("train_sha256");
  if (!data.Get("test_sha256").is_null()) receipt.test_sha256 = data.Sha256Text("test_sha256");
  receipt.code_version = fields.Text("code_version");
  receipt.weights_sha256 = fields.Sha256Text("weights_sha256");
  const json& handlers = fields.Get("handlers");
  if (!handlers.is_array()) fields.Refuse("handlers", "an array");
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    receipt.handlers.push_back(
        HandlerFromJson(handlers[i], fmt::format("{}, handlers[{}]", name, i)));
  }
  receipt.steps = fields.Count("steps");
  receipt.epochs = fields.Count("epochs");
  const std::optional<double> seconds = fields.OptionalNumber("seconds", 0, kMostNumber);
  if (!seconds) fields.Refuse("seconds", "a number");
  receipt.seconds = *seconds;
  receipt.tasks_done = fields.Count("tasks_done");
  receipt.tasks_reissued = fields.Count("tasks_reissued");
  receipt.tasks_duplicated = fields.Count("tasks_duplicated");
  // Receipts of earlier releases have neither.
  if (value.contains("audits")) {
    receipt.audits = AuditsFromJson(fields.Get("audits"), name + ", audits");
  }
  if (value.contains("audit_log_head") && !value.at("audit_log_head").is_null()) {
    receipt.audit_log_head = fields.Sha256Text("audit_log_head");
  }
  receipt.test_accuracy = fields.OptionalNumber("test_accuracy", 0, 1);
  receipt.test_loss = fields.OptionalNumber("test_loss", 0, kMostNumber);
  receipt.final_train_loss = fields.OptionalNumber("final_train_loss", 0, kMostNumber);
  return receipt;
}

void WriteReceipt(const std::string& path, const Receipt& receipt) {
  // Names come from other processes: what is no UTF-8 must not lose the receipt.
  WriteFileAtomically(
      path, ReceiptToJson(receipt).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

Receipt ReadReceipt(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw UsageError(fmt::format("{}: cannot open: {}", path, error.message()));
  if (bytes > static_cast<std::uint64_t>(kMaxReceiptBytes)) {
    throw UsageError(fmt::format("{}: has {} bytes; the most for a receipt is {}", path, bytes,
                                 kMaxReceiptBytes));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  try {
    return ReceiptFromJson(json::parse(file), path);
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("{}: is not valid JSON: {}", path, problem.what()));
  }
}

}  // namespace acan
