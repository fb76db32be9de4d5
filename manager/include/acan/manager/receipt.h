// The proof of a run (receipt.json) and its course (metrics.jsonl).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace acan {

class AtomicFile;

inline constexpr std::int64_t kMaxReceiptBytes = 64 << 20;

struct HandlerSeen {
  std::string name;
  std::string device;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t peak_bytes = 0;  // as it last reported; that can be half of a short run ago
  std::int64_t tasks = 0;
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
  std::string train_sha256;  // DataSet::sha256
  std::string test_sha256;   // empty: no test set
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
  std::optional<double> final_train_loss;
  std::optional<NotFinite> not_finite;
  // Steps of which metrics.jsonl has no line: it was damaged or lost before the run was resumed.
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
// Without a check of the fields.
nlohmann::json ReadReceiptJson(const std::string& path);

struct StepMetrics {
  std::int64_t step = 0;   // from 0
  std::int64_t epoch = 0;  // from 0
  double loss = 0;         // mean over the step's samples; written as null if it is not finite
  double learning_rate = 0;
  double samples_per_s = 0;
  std::int64_t handlers = 0;
  std::int64_t reissued = 0;  // tasks, since the run's start
};

struct EvaluationMetrics {
  std::int64_t step = 0;  // the last one done before
  std::int64_t epoch = 0;
  double test_loss = 0;
  std::optional<double> test_accuracy;
};

// Lines of metrics.jsonl by their "step": what was evaluated before that step, and the step's own.
using MetricsLines = std::map<std::int64_t, std::string>;
// Lines that are no JSON object with a step are left out.
MetricsLines LinesByStep(std::string_view text);
// The last lines of a file, of about `most_bytes`.
MetricsLines LastLines(const std::string& path, std::size_t most_bytes);

// What of metrics.jsonl there is when a run goes on.
struct EarlierMetrics {
  std::int64_t first_step = 0;  // lines of earlier steps stay, later or torn ones are cut off
  MetricsLines carried = {};    // from elsewhere; they count before those of the file
  bool keep_file = true;        // false: what is in the file is of another run
};

// metrics.jsonl: a JSON object a line, each handed to the system at once, so that a reader (or a
// killed run) has every finished step. For one thread.
class MetricsLog {
 public:
  // Begins the file anew, or, with a `first_step` > 0, goes on with what there is: whole lines of
  // earlier steps stay, later, torn and damaged ones go. Either way the file is a new one under the
  // old name: a manager that has lost the lead, and does not know it yet, writes to one that nobody
  // sees. Throws Error (failure) naming the path and the system's words; so do the writes (disk
  // full).
  explicit MetricsLog(const std::string& path, std::int64_t first_step = 0)
      : MetricsLog(path, EarlierMetrics{.first_step = first_step}) {}
  MetricsLog(const std::string& path, const EarlierMetrics& earlier);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // Of the steps before the first one: those that have no line, in order, and the first whose loss
  // was not finite.
  const std::vector<StepRange>& missing() const { return missing_; }
  const std::optional<StepMetrics>& first_not_finite() const { return first_not_finite_; }

  // Each returns the line that it wrote.
  std::string Step(const StepMetrics& metrics);
  std::string Evaluation(const EvaluationMetrics& metrics);
  // Thread safe. What was written is on disk when it returns.
  void Sync() const;
  // Thread safe. Whether the file of this name is not this one any more, but another or none.
  bool Replaced() const;
  bool Removed() const;  // none

 private:
  void CopyEarlier(const EarlierMetrics& earlier, AtomicFile& to);
  std::string Write(const nlohmann::json& line);
  [[noreturn]] void Fail(const std::string& doing, int error) const;

  std::string path_;
  int descriptor_ = -1;
  std::vector<StepRange> missing_;
  std::optional<StepMetrics> first_not_finite_;  // of which only `step` and `learning_rate` count
};

}  // namespace acan
