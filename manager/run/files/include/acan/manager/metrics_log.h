// MetricsLog: the metrics of a run's steps and evaluations, metrics.jsonl.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acan/manager/atomic_file.h"
#include "acan/manager/line_file.h"
#include "acan/manager/receipt.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

struct StepMetrics {
  std::int64_t step = 0;   // from 0
  std::int64_t epoch = 0;  // from 0
  double loss = 0;         // mean over the step's samples; written as null if it is not finite
  double learning_rate = 0;
  double samples_per_s = 0;
  std::int64_t handlers = 0;
  std::int64_t reissued = 0;  // tasks, since the start of the run
  // Of all gradients, before clipping; unset if they are not clipped.
  std::optional<double> gradient_norm = {};
};

struct EvaluationMetrics {
  std::int64_t step = 0;  // the last step before it
  std::int64_t epoch = 0;
  double test_loss = 0;
  std::optional<double> test_accuracy;
};

// Lines of metrics.jsonl by their "step": the evaluation before that step, and the step's own line.
using MetricsLines = std::map<std::int64_t, std::string>;
// Ignores lines that are not a JSON object with a step.
MetricsLines LinesByStep(std::string_view text);
// The last lines of a file, of about `most_bytes`.
MetricsLines LastLines(const std::string& path, std::size_t most_bytes);

// A file may have the lines of months: what reads all of it calls `go_on` after each MiB, which may
// throw to end it.
struct StepsInFile {
  std::int64_t steps = 0;  // steps from 0 on that have lines, up to the first that has none
  std::optional<double> last_loss = {};  // of the last of them; nullopt if it was not finite
};
StepsInFile CountSteps(const std::string& path, const std::function<void()>& go_on);

// The metrics that exist when a run continues.
struct EarlierMetrics {
  std::int64_t first_step = 0;  // lines of earlier steps stay; later or incomplete ones are removed
  MetricsLines carried = {};    // from another source; they take precedence over the file's
  bool keep_file = true;        // false: the file's content belongs to another run
};

// What a MetricsLog begins with, as a file on the disk that does not have its name yet. Without a
// `first_step` it is empty. Otherwise it has the whole lines of earlier steps; later, incomplete
// and damaged ones are left out. Unless a MetricsLog takes it, it disappears with this object.
class MetricsCopy {
 public:
  // `go_on`: as for CountSteps. Throws as MetricsLog does.
  MetricsCopy(std::string path, const EarlierMetrics& earlier,
              const std::function<void()>& go_on = {});

 private:
  friend class MetricsLog;
  void CopyEarlier(const EarlierMetrics& earlier, const std::function<void()>& go_on);

  std::string path_;
  std::int64_t first_step_ = 0;
  std::unique_ptr<AtomicFile> file_;  // null: a device, which is not replaced
  std::vector<StepRange> missing_;
  std::optional<StepMetrics> first_not_finite_;
};

// metrics.jsonl has one JSON object per line. Each is passed to the system at once, so that a
// reader sees every finished step, even of a killed run; on a full disk, lines wait (LineFile). For
// one thread.
class MetricsLog {
 public:
  // Begins the file anew, or continues it: the copy replaces the file. So a manager that has lost
  // the lead without noticing it writes to a file that nobody sees. Throws Error (failure) with the
  // path and the system's message; so do the writes, if too much waits.
  explicit MetricsLog(MetricsCopy copy);
  explicit MetricsLog(const std::string& path, std::int64_t first_step = 0)
      : MetricsLog(MetricsCopy(path, EarlierMetrics{.first_step = first_step})) {}

  // The file's writer, with the lines that wait.
  LineFile& lines() { return lines_; }
  // In order: the steps before `first_step` that have no line, and, if the file became shorter, the
  // later ones that have none. Lines that wait are not missing.
  const std::vector<StepRange>& missing() const { return missing_; }
  // Checks whether another process has truncated the file (as logrotate's copytruncate does), or a
  // file server has lost its end. Each write checks it, too.
  void LookForCut();
  // Whether that was found since the last call.
  bool TakeCut() { return std::exchange(cut_, false); }
  // The first of the steps before `first_step` whose loss was not finite.
  const std::optional<StepMetrics>& first_not_finite() const { return first_not_finite_; }

  // Each returns the line that it added.
  std::string Step(const StepMetrics& metrics);
  std::string Evaluation(const EvaluationMetrics& metrics);
  // Thread-safe. All lines are on disk when it returns. Throws Error (failure), also if a line
  // waits. The system reports lines that it could not write to the disk only once, so after such a
  // failure it throws each time: only a new MetricsLog can save them.
  void Sync() const;
  // Thread-safe. That failure, with the path; empty: there was none.
  std::string SyncProblem() const;
  // What the path leads to. Thread-safe.
  enum class Leads : std::uint8_t {
    kHere,       // to this file
    kElsewhere,  // to another one: another manager has begun its own
    kNowhere,    // the file, or a folder on the path, was removed or renamed
    kUnknown,    // the file system cannot say, as when its server does not respond
  };
  Leads WhereItLeads() const;
  // The present path of this file; empty: it was removed, or nobody knows.
  std::string PresentPath() const;

 private:
  std::optional<std::int64_t> Size() const;  // nullopt: not a regular file, or unknown
  std::string Write(const nlohmann::json& line);
  std::int64_t NextWritten() const;  // the step after the last line that does not wait

  std::string path_;
  LineFile lines_;
  std::int64_t next_step_ = 0;  // after the last line added
  bool cut_ = false;
  mutable std::atomic<int> sync_error_ = 0;
  std::vector<StepRange> missing_;
  std::optional<StepMetrics> first_not_finite_;  // only `step` and `learning_rate` are set
};

}  // namespace acan
