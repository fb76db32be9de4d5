#include "acan/manager/metrics_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/atomic_file.h"
#include "acan/manager/planted.h"
#include "acan/manager/text_file.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

// JSON has no infinity and no NaN.
json Finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

// The line of a step or an evaluation; nullopt if it is damaged.
struct Line {
  std::int64_t step = 0;
  bool of_step = false;  // false: of an evaluation
  bool finite = true;
  double learning_rate = 0;
};

std::optional<Line> ParseLine(const std::string& text) {
  const json value = ParseJsonOrDiscard(text);
  if (!value.is_object() || !value.contains("step")) return std::nullopt;
  // As this class writes it, without a sign: "-0" indicates damage.
  if (!value.at("step").is_number_unsigned()) return std::nullopt;
  Line line;
  line.step = value.at("step").get<std::int64_t>();
  line.of_step = value.contains("loss");
  if (!line.of_step && !value.contains("test_loss")) return std::nullopt;
  const json& loss = value.at(line.of_step ? "loss" : "test_loss");
  if (line.step < 0 || !(loss.is_number() || loss.is_null())) return std::nullopt;
  line.finite = loss.is_number();
  const auto rate = value.find("learning_rate");
  if (rate != value.end() && rate->is_number()) line.learning_rate = rate->get<double>();
  return line;
}

}  // namespace

MetricsLines LinesByStep(std::string_view text) {
  MetricsLines lines;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string line(text.substr(begin, end - begin));
    if (const auto parsed = ParseLine(line)) (lines[parsed->step] += line) += '\n';
  }
  return lines;
}

MetricsLines LastLines(const std::string& path, std::size_t most_bytes) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const auto bytes = static_cast<std::size_t>(fs::file_size(path, error));
  const std::size_t begin = bytes > most_bytes ? bytes - most_bytes : 0;
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(begin));
  std::string text(std::istreambuf_iterator<char>(file), {});
  MetricsLines lines = LinesByStep(text);
  // The first of them may have lost its evaluation line.
  if (begin > 0 && !lines.empty()) lines.erase(lines.begin());
  return lines;
}

// Copies the whole lines of steps before the first one, from the file and from other sources: one
// line per step, in order, with evaluations in between.
void MetricsLog::CopyEarlier(const EarlierMetrics& earlier, AtomicFile& to) {
  std::int64_t bytes = 0;
  std::int64_t next = 0;  // step
  const auto take = [&](const Line& line, const std::string& text) {
    const bool later = line.step >= earlier.first_step;
    if (later && !IsPlanted(ManagerBug::kMetricsAreNotCut)) return;
    if (line.of_step && !later) {
      if (line.step < next) return;
      if (line.step > next) missing_.push_back({next, line.step - 1});
      next = line.step + 1;
      if (!line.finite && !first_not_finite_) {
        first_not_finite_.emplace();
        first_not_finite_->step = line.step;
        first_not_finite_->learning_rate = line.learning_rate;
      }
    }
    to.WriteAt(bytes, (text + "\n").data(), text.size() + 1);
    bytes += static_cast<std::int64_t>(text.size()) + 1;
  };
  auto carried = earlier.carried.begin();
  const auto take_carried_before = [&](std::int64_t step) {
    for (; carried != earlier.carried.end() && carried->first < step; ++carried) {
      std::istringstream lines(carried->second);
      for (std::string text; std::getline(lines, text);) {
        if (const auto line = ParseLine(text)) take(*line, text);
      }
    }
  };
  std::ifstream file;
  if (earlier.keep_file) file.open(path_, std::ios::binary);
  for (std::string text; std::getline(file, text) && !file.eof();) {
    const std::optional<Line> line = ParseLine(text);
    if (!line) continue;
    take_carried_before(std::min(line->step, earlier.first_step));
    if (earlier.carried.count(line->step) == 0) take(*line, text);
  }
  take_carried_before(earlier.first_step);
  if (next < earlier.first_step) missing_.push_back({next, earlier.first_step - 1});
}

MetricsLog::MetricsLog(const std::string& path, const EarlierMetrics& earlier)
    : path_(path), lines_(path), next_step_(earlier.first_step) {
  RequireKeptFile(path, Devices::kAllowed);
  // A device is not replaced by a file.
  std::error_code ignored;
  const fs::file_status there = fs::status(path, ignored);
  if (!fs::exists(there) || fs::is_regular_file(there)) {
    AtomicFile begun(path);
    if (earlier.first_step > 0) CopyEarlier(earlier, begun);
    begun.Commit();
  }
  lines_.Open(0);
  lines_.OnSize(Size().value_or(0));
}

std::optional<std::int64_t> MetricsLog::Size() const {
  struct stat own = {};
  if (::fstat(lines_.descriptor(), &own) != 0 || !S_ISREG(own.st_mode)) return std::nullopt;
  return own.st_size;
}

std::int64_t MetricsLog::NextWritten() const {
  for (const std::string& text : lines_.waiting()) {
    const std::optional<Line> line = ParseLine(text);
    if (line && line->of_step) return std::min(next_step_, line->step);
  }
  return next_step_;
}

void MetricsLog::LookForCut() {
  const std::optional<std::int64_t> size = Size();
  if (!size) return;
  const bool is_cut = *size < lines_.bytes();
  lines_.OnSize(*size);
  if (!is_cut) return;
  cut_ = true;
  missing_.clear();
  std::int64_t next = 0;
  std::ifstream file(path_, std::ios::binary);
  bool torn = false;
  for (std::string text; std::getline(file, text);) {
    torn = file.eof();
    const std::optional<Line> line = torn ? std::nullopt : ParseLine(text);
    if (!line || !line->of_step || line->step < next) continue;
    if (line->step > next) missing_.push_back({next, line->step - 1});
    next = line->step + 1;
  }
  if (const std::int64_t end = NextWritten(); next < end) missing_.push_back({next, end - 1});
  lines_.OnCut(torn);
}

bool MetricsLog::Replaced() const {
  struct stat own = {};
  struct stat there = {};
  return ::fstat(lines_.descriptor(), &own) != 0 || ::stat(path_.c_str(), &there) != 0 ||
         own.st_ino != there.st_ino || own.st_dev != there.st_dev;
}

bool MetricsLog::Removed() const {
  struct stat there = {};
  return ::stat(path_.c_str(), &there) != 0;
}

void MetricsLog::Sync() const {
  lines_.CheckWritten();
  // Pipes and devices may not support it.
  if (::fdatasync(lines_.descriptor()) == 0 || errno == EINVAL || errno == EROFS) return;
  lines_.Fail("sync", errno);
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
