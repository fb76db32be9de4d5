// MetricsLog: the course of a run, metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acan/manager/line_file.h"
#include "acan/manager/receipt.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

class AtomicFile;

struct StepMetrics {
  std::int64_t step = 0;   // from 0
  std::int64_t epoch = 0;  // from 0
  double loss = 0;         // mean over the step's samples; written as null if it is not finite
  double learning_rate = 0;
  double samples_per_s = 0;
  std::int64_t handlers = 0;
  std::int64_t reissued = 0;  // tasks, since the run's start
  // Of all gradients, before they were clipped; unset: they are not.
  std::optional<double> gradient_norm = {};
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
// killed run) has every finished step; on a full disk they wait (LineFile). For one thread.
class MetricsLog {
 public:
  // Begins the file anew, or, with a `first_step` > 0, goes on with what there is: whole lines of
  // earlier steps stay, later, torn and damaged ones go. Either way the file is a new one under the
  // old name: a manager that has lost the lead, and does not know it yet, writes to one that nobody
  // sees. Throws Error (failure) naming the path and the system's words; so do the writes, if too
  // much waits.
  explicit MetricsLog(const std::string& path, std::int64_t first_step = 0)
      : MetricsLog(path, EarlierMetrics{.first_step = first_step}) {}
  MetricsLog(const std::string& path, const EarlierMetrics& earlier);

  // Its lines that wait, if some do.
  LineFile& lines() { return lines_; }
  // Of the steps before the first one, and of those written since if somebody cut the file: those
  // that have no line, in order. Lines that wait are not among them.
  const std::vector<StepRange>& missing() const { return missing_; }
  // Looks whether somebody has cut the file (logrotate's copytruncate does), as each write does
  // too.
  void LookForCut();
  // Whether that was found since the last call.
  bool TakeCut() { return std::exchange(cut_, false); }
  // Of the steps before the first one: the first whose loss was not finite.
  const std::optional<StepMetrics>& first_not_finite() const { return first_not_finite_; }

  // Each returns the line that it added.
  std::string Step(const StepMetrics& metrics);
  std::string Evaluation(const EvaluationMetrics& metrics);
  // Thread safe. All lines are on disk when it returns. Throws Error (failure) also if one waits.
  void Sync() const;
  // Thread safe. Whether the file of this name is not this one any more, but another or none.
  bool Replaced() const;
  bool Removed() const;  // none

 private:
  std::optional<std::int64_t> Size() const;  // nullopt: it is no regular file
  void CopyEarlier(const EarlierMetrics& earlier, AtomicFile& to);
  std::string Write(const nlohmann::json& line);
  std::int64_t NextWritten() const;  // the step after those that do not wait

  std::string path_;
  LineFile lines_;
  std::int64_t next_step_ = 0;  // after those that were added
  bool cut_ = false;
  std::vector<StepRange> missing_;
  std::optional<StepMetrics> first_not_finite_;  // of which only `step` and `learning_rate` count
};

}  // namespace acan
