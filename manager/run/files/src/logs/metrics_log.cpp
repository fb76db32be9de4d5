#include "acan/manager/metrics_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/file_lock.h"
#include "acan/manager/file_server.h"
#include "acan/manager/line_reader.h"
#include "acan/manager/planted.h"
#include "acan/manager/text_file.h"
#include "acan/manager/unreadable.h"
#include "fmt/format.h"
#include "metrics_line.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

// JSON has no infinity and no NaN.
json Finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::size_t kMaxMetricsLineBytes = 1 << 16;

// A file that is not there has no lines. Throws Unreadable.
std::ifstream OpenIfThere(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) RequireOpenedOrAbsent(path, errno);
  return file;
}

void RequireReadToEnd(const std::ifstream& file, const std::string& path) {
  if (file.bad()) throw FailureError(fmt::format("{}: cannot read it to its end", path));
}

// Passes each line of a file that ends with '\n' to `on_line`, until it returns false, but none
// that is longer than any line of a run. Calls `go_on` after each block.
template <class OnLine>
void ForEachLine(const std::string& path, const std::function<void()>& go_on,
                 const OnLine& on_line) {
  std::ifstream file = OpenIfThere(path);
  LineReader lines(file, kMaxMetricsLineBytes);
  std::size_t bytes = 0;  // since go_on
  for (;;) {
    const LineReader::Line read = lines.Next();
    if (read == LineReader::Line::kNone || read == LineReader::Line::kTorn) break;
    if (read == LineReader::Line::kWhole && !on_line(lines.text())) return;
    bytes += lines.text().size() + 1;
    if (bytes < kBlockBytes) continue;
    bytes = 0;
    if (go_on) go_on();
  }
  RequireReadToEnd(file, path);
}

// Writes lines to the beginning of a file, in large pieces.
class BlockWriter {
 public:
  explicit BlockWriter(AtomicFile& to) : to_(to) {}

  void Add(std::string_view line) {
    (block_ += line) += '\n';
    if (block_.size() >= kBlockBytes) Flush();
  }
  void Flush() {
    to_.WriteAt(written_, block_.data(), block_.size());
    written_ += static_cast<std::int64_t>(block_.size());
    block_.clear();
  }

 private:
  AtomicFile& to_;
  std::string block_;
  std::int64_t written_ = 0;
};

}  // namespace

MetricsLines LinesByStep(std::string_view text) {
  MetricsLines lines;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (const auto parsed = ParseMetricsLine(line)) (lines[parsed->step] += line) += '\n';
  }
  return lines;
}

MetricsLines LastLines(const std::string& path, std::size_t most_bytes) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const auto bytes = static_cast<std::size_t>(fs::file_size(path, error));
  const std::size_t begin = bytes > most_bytes ? bytes - most_bytes : 0;
  std::ifstream file = OpenIfThere(path);
  file.seekg(static_cast<std::streamoff>(begin));
  std::string text(std::min(bytes, most_bytes), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  RequireReadToEnd(file, path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  MetricsLines lines = LinesByStep(text);
  // The first of them may have lost its evaluation line.
  if (begin > 0 && !lines.empty()) lines.erase(lines.begin());
  return lines;
}

StepsInFile CountSteps(const std::string& path, const std::function<void()>& go_on) {
  StepsInFile in;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return in;  // /dev/zero has no end
  ForEachLine(path, go_on, [&](std::string_view text) {
    const std::optional<MetricsLine> line = ParseMetricsLine(text);
    if (!line || !line->of_step) return true;
    if (line->step != in.steps) return false;
    ++in.steps;
    in.last_loss = line->loss;
    return true;
  });
  return in;
}

MetricsCopy::MetricsCopy(std::string path, const EarlierMetrics& earlier,
                         const std::function<void()>& go_on)
    : path_(std::move(path)), first_step_(earlier.first_step) {
  RequireKeptFile(path_, Devices::kAllowed);
  // A device is not replaced by a file.
  std::error_code ignored;
  const fs::file_status there = fs::status(path_, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there)) return;
  file_ = std::make_unique<AtomicFile>(path_);
  if (first_step_ == 0) return;
  CopyEarlier(earlier, go_on);
  file_->Sync();
}

// Copies the whole lines of steps before the first one, from the file and from other sources: one
// line per step, in order, with evaluations in between.
void MetricsCopy::CopyEarlier(const EarlierMetrics& earlier, const std::function<void()>& go_on) {
  BlockWriter to(*file_);
  std::int64_t next = 0;  // step
  const auto take = [&](const MetricsLine& line, std::string_view text) {
    const bool later = line.step >= first_step_;
    if (later && !IsPlanted(ManagerBug::kMetricsAreNotCut)) return;
    if (line.of_step && !later) {
      if (line.step < next) return;
      if (line.step > next) missing_.push_back({next, line.step - 1});
      next = line.step + 1;
      if (!line.loss && !first_not_finite_) {
        first_not_finite_.emplace();
        first_not_finite_->step = line.step;
        first_not_finite_->learning_rate = line.learning_rate;
      }
    }
    to.Add(text);
  };
  auto carried = earlier.carried.begin();
  const auto take_carried_before = [&](std::int64_t step) {
    for (; carried != earlier.carried.end() && carried->first < step; ++carried) {
      std::istringstream lines(carried->second);
      for (std::string text; std::getline(lines, text);) {
        if (const auto line = ParseMetricsLine(text)) take(*line, text);
      }
    }
  };
  const auto take_of_file = [&](std::string_view text) {
    const std::optional<MetricsLine> line = ParseMetricsLine(text);
    if (!line) return true;
    take_carried_before(std::min(line->step, first_step_));
    if (earlier.carried.count(line->step) == 0) take(*line, text);
    return true;
  };
  if (earlier.keep_file) ForEachLine(path_, go_on, take_of_file);
  take_carried_before(first_step_);
  to.Flush();
  if (next < first_step_) missing_.push_back({next, first_step_ - 1});
}

MetricsLog::MetricsLog(MetricsCopy copy)
    : path_(copy.path_),
      lines_(copy.path_),
      next_step_(copy.first_step_),
      missing_(std::move(copy.missing_)),
      first_not_finite_(copy.first_not_finite_) {
  if (copy.file_) copy.file_->Commit();
  lines_.Open(0);
  lines_.OnSize(Size().value_or(0));
}

std::optional<std::int64_t> MetricsLog::Size() const {
  return SizeOfFile(lines_.descriptor(), SizeSource::kHost).bytes;
}

std::int64_t MetricsLog::NextWritten() const {
  for (const std::string& text : lines_.waiting()) {
    const std::optional<MetricsLine> line = ParseMetricsLine(text);
    if (line && line->of_step) return std::min(next_step_, line->step);
  }
  return next_step_;
}

void MetricsLog::LookForCut() {
  const std::optional<std::int64_t> size = Size();
  if (!size) return;
  const bool is_cut = *size < lines_.bytes();
  if (!is_cut) return lines_.OnSize(*size);
  std::ifstream file(path_, std::ios::binary);
  if (!file.is_open()) return;  // the next call looks again
  lines_.OnSize(*size);
  cut_ = true;
  missing_.clear();
  std::int64_t next = 0;
  std::optional<std::int64_t> whole = size;
  LineReader lines(file, kMaxMetricsLineBytes);
  for (;;) {
    const LineReader::Line read = lines.Next();
    if (read == LineReader::Line::kNone) break;
    if (read != LineReader::Line::kWhole && file.eof()) whole.reset();
    // Unless the file changes meanwhile.
    if (read == LineReader::Line::kTorn && Size() == size) {
      whole = *size - static_cast<std::int64_t>(lines.text().size());
    }
    if (read != LineReader::Line::kWhole) continue;
    const std::optional<MetricsLine> line = ParseMetricsLine(lines.text());
    if (!line || !line->of_step || line->step < next) continue;
    if (line->step > next) missing_.push_back({next, line->step - 1});
    next = line->step + 1;
  }
  if (const std::int64_t end = NextWritten(); next < end) missing_.push_back({next, end - 1});
  lines_.OnCut(whole);
}

MetricsLog::Leads MetricsLog::WhereItLeads() const {
  struct stat own = {};
  struct stat there = {};
  if (::stat(path_.c_str(), &there) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? Leads::kNowhere : Leads::kUnknown;
  }
  if (::fstat(lines_.descriptor(), &own) != 0) {
    // The file server no longer has this file, and the path leads to one that it has.
    return errno == ESTALE ? Leads::kElsewhere : Leads::kUnknown;
  }
  const bool same = own.st_ino == there.st_ino && own.st_dev == there.st_dev;
  return same ? Leads::kHere : Leads::kElsewhere;
}

// The kernel knows the present name of an open file. The name of a removed one leads to no file.
std::string MetricsLog::PresentPath() const {
  std::error_code ignored;
  const fs::path of_descriptor = "/proc/self/fd/" + std::to_string(lines_.descriptor());
  std::string path = fs::read_symlink(of_descriptor, ignored).string();
  // A file server's client gives such a name to a file that is removed while it is open.
  const std::string name = fs::path(path).filename().string();
  if (name.starts_with(".nfs") || name.starts_with(".fuse_hidden")) return "";
  return IsFileOf(path, lines_.descriptor()) ? path : "";
}

void MetricsLog::Sync() const {
  lines_.CheckWritten();
  if (sync_error_ == 0) {
    // Pipes and devices may not support it.
    if (::fdatasync(lines_.descriptor()) == 0 || errno == EINVAL || errno == EROFS) return;
    sync_error_ = errno;
  }
  // Not as a full disk: with more room, the lost lines would still be lost.
  throw FailureError(SyncProblem());
}

std::string MetricsLog::SyncProblem() const {
  const int error = sync_error_;
  if (error == 0) return "";
  return fmt::format("{}: cannot sync, so lines may be lost: {}", path_, SystemErrorText(error));
}

std::string MetricsLog::Write(const json& line) {
  std::string text = JsonText(line) + "\n";
  LookForCut();
  lines_.Add(text);
  return text;
}

std::string MetricsLog::Step(const StepMetrics& metrics) {
  json line = {{"step", metrics.step},
               {"epoch", metrics.epoch},
               {"loss", Finite(metrics.loss)},
               {"learning_rate", Finite(metrics.learning_rate)},
               {"samples_per_s", Finite(metrics.samples_per_s)},
               {"handlers", metrics.handlers},
               {"reissued", metrics.reissued}};
  if (metrics.gradient_norm) line["grad_norm"] = Finite(*metrics.gradient_norm);
  std::string text = Write(line);
  next_step_ = std::max(next_step_, metrics.step + 1);
  return text;
}

std::string MetricsLog::Evaluation(const EvaluationMetrics& metrics) {
  json line = {
      {"step", metrics.step}, {"epoch", metrics.epoch}, {"test_loss", Finite(metrics.test_loss)}};
  if (metrics.test_accuracy) line["test_accuracy"] = Finite(*metrics.test_accuracy);
  return Write(line);
}

}  // namespace acan
