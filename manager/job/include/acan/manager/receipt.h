// Receipt: the proof of a run, receipt.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace acan {

inline constexpr std::int64_t kMaxReceiptBytes = 64 << 20;

struct HandlerSeen {
  std::string name;
  std::string device;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t peak_bytes = 0;  // as it last reported; that can be half of a short run ago
  std::int64_t tasks = 0;
  // Of inputs that came from other handlers themselves, in all jobs; as it last reported.
  std::uint64_t fetched_bytes = 0;
};

struct QuarantinedHandler {
  std::string id;   // its client id
  std::string why;  // which result of it was wrong
};
// What audits found; see Audits.
struct AuditSummary {
  double share = 0;          // of the tasks; 0: nothing was audited
  std::int64_t passed = 0;   // since the run last went back
  std::int64_t skipped = 0;  // no second handler was there
  std::vector<QuarantinedHandler> quarantined = {};
};

// Two handlers gave different results for one task: one of them computes wrong, or says what it did
// not compute.
struct ResultConflict {
  std::string key;   // of the result
  std::string text;  // names both handlers
};

// The first loss or weights of a run that were not finite: it diverged.
struct NotFinite {
  enum class What : std::uint8_t { kLoss, kWeights };
  What what = What::kLoss;
  std::int64_t step = 0;  // from 0, as in metrics.jsonl; of weights: the step that made them. A run
                          // that goes on looks at weights at its end only: they are of this step or
                          // of an earlier one
  double learning_rate = 0;  // of that step
  // Set: the run ended there, and kept the weights after so many steps, the last good ones, as a
  // snapshot. 0 steps: those that it began with.
  std::optional<std::int64_t> kept_version = {};
};

struct StepRange {
  std::int64_t first = 0, last = 0;  // both belong to it
  friend bool operator==(const StepRange&, const StepRange&) = default;
};
// "3", "0 to 11", "0 to 11 and 15", "0 to 11, 15, 20 to 30 and 7 more".
std::string RangesText(const std::vector<StepRange>& ranges);

struct Receipt {
  nlohmann::json job;        // JobToJson
  std::string train_sha256;  // SampleSet::sha256
  std::string test_sha256;   // empty: no test set
  // Unset: an earlier release wrote it.
  std::optional<std::int64_t> train_samples;
  std::string code_version;
  std::string weights_sha256;
  std::vector<HandlerSeen> handlers;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  double seconds = 0;
  std::int64_t tasks_done = 0;
  std::int64_t tasks_reissued = 0;
  std::int64_t tasks_duplicated = 0;
  AuditSummary audits = {};
  std::vector<ResultConflict> conflicts = {};  // the first ones, in exact precision
  std::string audit_log_head;                  // of AuditLog; empty: there was none
  // Unset: there was none (no test set, labels or steps), or it was not finite.
  std::optional<double> test_accuracy;  // share of right classes, 0..1
  std::optional<double> test_loss;
  std::optional<double> test_perplexity;  // e^test_loss, of models of language (trained_model.h)
  std::optional<double> final_train_loss;
  std::optional<NotFinite> not_finite;
  // Steps of which metrics.jsonl has no line: it was damaged or lost before the run was resumed, or
  // somebody cut the file while the job ran.
  std::vector<StepRange> metrics_missing = {};
};

// With all fields, and `receipt_sha256`, the hash of all others.
nlohmann::json ReceiptToJson(const Receipt& receipt);
// What the hash in a receipt's JSON says of the rest: SHA-256 of the canonical JSON (keys in order,
// no blanks) without that field. Anybody can compute it: it finds what was changed by mistake or
// without care, and training again finds the rest.
enum class ReceiptHash : std::uint8_t {
  kRight,
  kWrong,  // something was changed after the receipt was written
  kNone,   // an earlier version of acan wrote it
};
ReceiptHash CheckReceiptHash(const nlohmann::json& json);
// Checks every field, the job included. Throws Error (usage) that names `name`, the field, what was
// found and what is expected. Fields that it does not know are ignored.
Receipt ReceiptFromJson(const nlohmann::json& json, const std::string& name);

// Written whole or not at all. Throws Error (failure) naming the path and the system's words.
void WriteReceipt(const std::string& path, const Receipt& receipt);
// Throws Error (usage) as ReceiptFromJson, also for files that are missing or no JSON.
Receipt ReadReceipt(const std::string& path);
// Without a check of the fields, but none may be there twice: the hash is only of what is read.
nlohmann::json ReadReceiptJson(const std::string& path);

}  // namespace acan
