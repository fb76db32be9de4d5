#include "acan/manager/receipt.h"

#include <fmt/format.h>

#include <cmath>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/job.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/output_names.h"
#include "acan/manager/sha256.h"
#include "acan/manager/text_file.h"

namespace acan {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "acan-receipt-1";
constexpr const char* kHashName = "receipt_sha256";

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
    std::string text = Text(key);
    if (!IsSha256(text)) Refuse(key, "a SHA-256: 64 digits 0-9, a-f");
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
    const std::string text = JsonTextReplacing(value);
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }

  const json& object_;
  std::string name_;
};

constexpr double kMaxReported = 1.7e308;

HandlerSeen HandlerFromJson(const json& value, const std::string& name) {
  const Fields fields(value, name);
  HandlerSeen handler;
  handler.name = fields.Text("name");
  handler.device = fields.Text("device");
  handler.capacity_bytes = static_cast<std::uint64_t>(fields.Count("capacity_bytes"));
  handler.peak_bytes = static_cast<std::uint64_t>(fields.Count("peak_bytes"));
  handler.tasks = fields.Count("tasks");
  if (value.contains("fetched_bytes")) {
    handler.fetched_bytes = static_cast<std::uint64_t>(fields.Count("fetched_bytes"));
  }
  return handler;
}

json ConflictsToJson(const std::vector<ResultConflict>& conflicts) {
  json all = json::array();
  for (const ResultConflict& conflict : conflicts) {
    all.push_back({{"key", conflict.key}, {"text", conflict.text}});
  }
  return all;
}

std::vector<ResultConflict> ConflictsFromJson(const Fields& fields, const std::string& name) {
  const json& all = fields.Get("conflicts");
  if (!all.is_array()) fields.Refuse("conflicts", "an array");
  std::vector<ResultConflict> conflicts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Fields one(all[i], fmt::format("{}, conflicts[{}]", name, i));
    conflicts.push_back({one.Text("key"), one.Text("text")});
  }
  return conflicts;
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

json DataToJson(const Receipt& receipt) {
  json data = {
      {"train_sha256", receipt.train_sha256},
      {"test_sha256", receipt.test_sha256.empty() ? json(nullptr) : json(receipt.test_sha256)}};
  if (receipt.train_samples) data["train_samples"] = *receipt.train_samples;
  return data;
}

void DataFromJson(const json& value, const std::string& name, Receipt* receipt) {
  const Fields fields(value, name);
  receipt->train_sha256 = fields.Sha256Text("train_sha256");
  if (!fields.Get("test_sha256").is_null()) receipt->test_sha256 = fields.Sha256Text("test_sha256");
  // Receipts of earlier releases lack it.
  if (!value.contains("train_samples")) return;
  receipt->train_samples = fields.Count("train_samples");
  if (receipt->train_samples == 0) fields.Refuse("train_samples", "an integer above 0");
}

constexpr const char* kLoss = "loss";
constexpr const char* kWeights = "weights";

json NotFiniteToJson(const NotFinite& found) {
  json value = {{"what", found.what == NotFinite::What::kLoss ? kLoss : kWeights},
                {"step", found.step},
                {"learning_rate", found.learning_rate},
                {"stopped", found.kept_version.has_value()}};
  if (found.kept_version) {
    value["kept_version"] = *found.kept_version;
    value["kept"] = SnapshotName(*found.kept_version);
  }
  return value;
}

NotFinite NotFiniteFromJson(const json& value, const std::string& name) {
  const Fields fields(value, name);
  NotFinite found;
  const std::string what = fields.Text("what");
  if (what != kLoss && what != kWeights) fields.Refuse("what", "\"loss\" or \"weights\"");
  found.what = what == kLoss ? NotFinite::What::kLoss : NotFinite::What::kWeights;
  found.step = fields.Count("step");
  found.learning_rate = fields.OptionalNumber("learning_rate", 0, kMaxReported).value_or(0);
  if (value.contains("kept_version")) found.kept_version = fields.Count("kept_version");
  return found;
}

json RangesToJson(const std::vector<StepRange>& ranges) {
  json value = json::array();
  for (const StepRange& range : ranges) {
    value.push_back({{"first", range.first}, {"last", range.last}});
  }
  return value;
}

std::vector<StepRange> RangesFromJson(const Fields& fields, const char* key,
                                      const std::string& name) {
  const json& value = fields.Get(key);
  if (!value.is_array()) fields.Refuse(key, "an array");
  std::vector<StepRange> ranges;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Fields one(value[i], fmt::format("{}, {}[{}]", name, key, i));
    ranges.push_back({one.Count("first"), one.Count("last")});
  }
  return ranges;
}

void RequireShallow(const json& receipt, const std::string& name) {
  if (!IsDeeperThan(receipt, kMaxJsonDepth)) return;
  throw UsageError(
      fmt::format("{}: nests arrays and objects more than {} deep, which no receipt does", name,
                  kMaxJsonDepth));
}

// Names come from other processes: invalid UTF-8 is hashed as the replacement that the file has.
std::string HashOfOthers(json receipt) {
  receipt.erase(kHashName);
  const std::string text = JsonTextReplacing(receipt);
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Hex();
}

}  // namespace

std::string RangesText(const std::vector<StepRange>& ranges) {
  constexpr std::size_t kMost = 4;
  std::string text;
  const std::size_t shown = ranges.size() > kMost ? kMost - 1 : ranges.size();
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == shown && shown == ranges.size();
    text += i == 0 ? "" : last ? " and " : ", ";
    const StepRange& range = ranges[i];
    text += range.first == range.last ? fmt::format("{}", range.first)
                                      : fmt::format("{} to {}", range.first, range.last);
  }
  if (shown < ranges.size()) text += fmt::format(" and {} more", ranges.size() - shown);
  return text;
}

ReceiptHash CheckReceiptHash(const json& receipt) {
  const auto at = receipt.find(kHashName);
  if (at == receipt.end()) return ReceiptHash::kNone;
  return *at == HashOfOthers(receipt) ? ReceiptHash::kRight : ReceiptHash::kWrong;
}

json ReceiptToJson(const Receipt& receipt) {
  json handlers = json::array();
  for (const HandlerSeen& handler : receipt.handlers) {
    handlers.push_back({{"name", handler.name},
                        {"device", handler.device},
                        {"capacity_bytes", handler.capacity_bytes},
                        {"peak_bytes", handler.peak_bytes},
                        {"tasks", handler.tasks}});
    if (handler.fetched_bytes > 0) handlers.back()["fetched_bytes"] = handler.fetched_bytes;
  }
  json all = {
      {"format", kFormat},
      {"job", receipt.job},
      {"data", DataToJson(receipt)},
      {"code_version", receipt.code_version},
      {"numerics_revision", receipt.numerics_revision},
      {"weights_sha256", receipt.weights_sha256},
      {"handlers", handlers},
      {"steps", receipt.steps},
      {"epochs", receipt.epochs},
      {"seconds", receipt.seconds},
      {"tasks_done", receipt.tasks_done},
      {"tasks_reissued", receipt.tasks_reissued},
      {"tasks_duplicated", receipt.tasks_duplicated},
      {"audits", AuditsToJson(receipt.audits)},
      {"conflicts", ConflictsToJson(receipt.conflicts)},
      {"audit_log_head",
       receipt.audit_log_head.empty() ? json(nullptr) : json(receipt.audit_log_head)},
      {"test_accuracy", OrNull(receipt.test_accuracy)},
      {"test_loss", OrNull(receipt.test_loss)},
      {"final_train_loss", OrNull(receipt.final_train_loss)},
      {"not_finite", receipt.not_finite ? NotFiniteToJson(*receipt.not_finite) : json(nullptr)},
      {"metrics_missing", RangesToJson(receipt.metrics_missing)}};
  if (receipt.test_perplexity) all["test_perplexity"] = OrNull(receipt.test_perplexity);
  all[kHashName] = HashOfOthers(all);
  return all;
}

Receipt ReceiptFromJson(const json& value, const std::string& name, JobCheck job_check) {
  RequireShallow(value, name);
  const Fields fields(value, name);
  if (fields.Text("format") != kFormat) fields.Refuse("format", fmt::format("\"{}\"", kFormat));
  Receipt receipt;
  receipt.job = fields.Get("job");
  if (job_check == JobCheck::kDone) JobFromJson(receipt.job, name);
  DataFromJson(fields.Get("data"), name + ", data", &receipt);
  receipt.code_version = fields.Text("code_version");
  if (value.contains("numerics_revision")) {
    const std::int64_t revision = fields.Count("numerics_revision");
    if (revision < 1 || revision > UINT32_MAX) fields.Refuse("numerics_revision", "at least 1");
    receipt.numerics_revision = static_cast<std::uint32_t>(revision);
  }
  receipt.weights_sha256 = fields.Sha256Text("weights_sha256");
  const json& handlers = fields.Get("handlers");
  if (!handlers.is_array()) fields.Refuse("handlers", "an array");
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    receipt.handlers.push_back(
        HandlerFromJson(handlers[i], fmt::format("{}, handlers[{}]", name, i)));
  }
  receipt.steps = fields.Count("steps");
  receipt.epochs = fields.Count("epochs");
  const std::optional<double> seconds = fields.OptionalNumber("seconds", 0, kMaxReported);
  if (!seconds) fields.Refuse("seconds", "a number");
  receipt.seconds = *seconds;
  receipt.tasks_done = fields.Count("tasks_done");
  receipt.tasks_reissued = fields.Count("tasks_reissued");
  receipt.tasks_duplicated = fields.Count("tasks_duplicated");
  // Receipts of earlier releases lack these.
  if (value.contains("not_finite") && !value.at("not_finite").is_null()) {
    receipt.not_finite = NotFiniteFromJson(value.at("not_finite"), name + ", not_finite");
  }
  if (value.contains("metrics_missing")) {
    receipt.metrics_missing = RangesFromJson(fields, "metrics_missing", name);
  }
  if (value.contains("audits")) {
    receipt.audits = AuditsFromJson(fields.Get("audits"), name + ", audits");
  }
  if (value.contains("conflicts")) receipt.conflicts = ConflictsFromJson(fields, name);
  if (value.contains("audit_log_head") && !value.at("audit_log_head").is_null()) {
    receipt.audit_log_head = fields.Sha256Text("audit_log_head");
  }
  receipt.test_accuracy = fields.OptionalNumber("test_accuracy", 0, 1);
  receipt.test_loss = fields.OptionalNumber("test_loss", 0, kMaxReported);
  if (value.contains("test_perplexity")) {
    receipt.test_perplexity = fields.OptionalNumber("test_perplexity", 0, kMaxReported);
  }
  receipt.final_train_loss = fields.OptionalNumber("final_train_loss", 0, kMaxReported);
  return receipt;
}

void WriteReceipt(const std::string& path, const Receipt& receipt) {
  // Names come from other processes: invalid UTF-8 must not prevent writing the receipt.
  WriteFileAtomically(path, JsonTextReplacing(ReceiptToJson(receipt), 2) + "\n");
}

Receipt ReadReceipt(const std::string& path) {
  return ReceiptFromJson(ReadReceiptJson(path), path);
}

json ReadReceiptJson(const std::string& path) {
  const std::string text = ReadTextFile(path, kMaxReceiptBytes, "a receipt");
  try {
    std::optional<std::string> repeated;
    json value = ParseJson(text, &repeated);
    RequireShallow(value, path);
    if (!repeated) return value;
    throw UsageError(
        fmt::format("{}: has '{}' more than once in one object; acan writes each field once, so "
                    "this receipt was changed after it was written",
                    path, *repeated));
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("{}: is not valid JSON: {}", path, problem.what()));
  }
}

}  // namespace acan
