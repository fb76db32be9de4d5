// Receipt: the record of a finished run, receipt.json.
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
  std::uint64_t peak_bytes = 0;  // as last reported, which may be half of a short run ago
  std::int64_t tasks = 0;
  // Of inputs fetched directly from other handlers, for all jobs; as last reported.
  std::uint64_t fetched_bytes = 0;
};

struct QuarantinedHandler {
  std::string id;   // its client id
  std::string why;  // which of its results was wrong
};
// What audits found; see class Audits.
struct AuditSummary {
  double share = 0;          // of the tasks; 0: nothing was audited
  std::int64_t passed = 0;   // since the run last went back
  std::int64_t skipped = 0;  // for lack of a second handler, or of one with another key
  std::vector<QuarantinedHandler> quarantined = {};
};

// Two handlers gave different results for one task, so one of them computes wrongly or reports a
// result that it did not compute. Or a step was finite in one life of the run and not in another.
struct ResultConflict {
  std::string key;   // of the result; or "step 3"
  std::string text;  // names both handlers, if they are known
};

// The first loss or weights of a run that were not finite: the run diverged.
struct NotFinite {
  enum class What : std::uint8_t { kLoss, kWeights };
  What what = What::kLoss;
  std::int64_t step = 0;  // from 0, as in metrics.jsonl; for weights, the step that made them. A
                          // run that continues checks weights only at its end, so the weights may
                          // be from this step or an earlier one.
  double learning_rate = 0;  // of that step
  // Set if the run ended there. The weights after this many steps were the last good ones, and a
  // snapshot has them. 0: the initial weights.
  std::optional<std::int64_t> kept_version = {};
};

struct StepRange {
  std::int64_t first = 0, last = 0;  // inclusive
  friend bool operator==(const StepRange&, const StepRange&) = default;
};
// "3", "0 to 11", "0 to 11 and 15", "0 to 11, 15, 20 to 30 and 7 more".
std::string RangesText(const std::vector<StepRange>& ranges);

struct Receipt {
  nlohmann::json job;        // JobToJson
  std::string train_sha256;  // SampleSet::sha256
  std::string test_sha256;   // empty: no test set
  // Unset in receipts of earlier releases.
  std::optional<std::int64_t> train_samples;
  std::string code_version;
  std::uint32_t numerics_revision = 1;  // kNumericsRevision; earlier receipts do not have it
  std::string weights_sha256;
  std::vector<HandlerSeen> handlers;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  double seconds = 0;
  std::int64_t tasks_done = 0;
  std::int64_t tasks_reissued = 0;
  std::int64_t tasks_duplicated = 0;
  AuditSummary audits = {};
  std::vector<ResultConflict> conflicts = {};  // the first ones; exact precision only
  std::string audit_log_head;                  // of AuditLog; empty: no log
  // Unset if there was none (no test set, labels or steps), or if it was not finite.
  std::optional<double> test_accuracy;  // share of correct classes, 0..1
  std::optional<double> test_loss;
  std::optional<double> test_perplexity;  // e^test_loss, for language models (trained_model.h)
  std::optional<double> final_train_loss;
  std::optional<NotFinite> not_finite;
  // Steps without a line in metrics.jsonl: the file was damaged or lost before the run was resumed,
  // or was truncated while the job ran.
  std::vector<StepRange> metrics_missing = {};
};

// All fields, and `receipt_sha256`, the hash of all others.
nlohmann::json ReceiptToJson(const Receipt& receipt);
// The state of a receipt's hash: SHA-256 of the canonical JSON (sorted keys, no blanks) without the
// hash's own field. Anybody can compute it, so it only reveals accidental or careless changes;
// training again reveals the others.
enum class ReceiptHash : std::uint8_t {
  kRight,
  kWrong,  // the receipt was changed after it was written
  kNone,   // an earlier version of acan wrote it
};
ReceiptHash CheckReceiptHash(const nlohmann::json& json);
// Whether the job of a receipt is checked, too. That opens the file of a graph's job.
enum class JobCheck : std::uint8_t { kDone, kLeftOut };
// Checks every field. Throws Error (usage) that names `name`, the field, what was found and what is
// expected. Unknown fields are ignored.
Receipt ReceiptFromJson(const nlohmann::json& json, const std::string& name,
                        JobCheck job_check = JobCheck::kDone);

// Writes the file atomically. Throws Error (failure) with the path and the system's message.
void WriteReceipt(const std::string& path, const Receipt& receipt);
// Throws Error (usage) as ReceiptFromJson does, and for files that are missing or not JSON.
Receipt ReadReceipt(const std::string& path);
// Does not check the fields, but refuses duplicate ones, because the hash covers only the one that
// is read, and deep nesting, because a copy would overflow the stack.
nlohmann::json ReadReceiptJson(const std::string& path);

}  // namespace acan
