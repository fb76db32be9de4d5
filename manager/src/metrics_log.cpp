#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "acan/core/error.h"
#include "acan/manager/receipt.h"
#include "atomic_file.h"
#include "tuplespace/planted.h"

namespace acan {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

// JSON has no infinity and no NaN.
json Finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

// Of a JSON object with a step; nullopt: the line is none.
std::optional<std::int64_t> StepOfLine(const json& value) {
  const auto step = value.is_object() ? value.find("step") : value.end();
  if (!value.is_object() || step == value.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

bool HasStep(const std::string& lines) {
  return lines.find("\"loss\"") != std::string::npos;
}

// Writes the lines of earlier steps in order: those of the file up to the first that is torn, and
// those that come from elsewhere. Returns how many of them are of steps, not of evaluations.
std::int64_t CopyEarlier(const EarlierMetrics& earlier, const std::string& path, AtomicFile& to) {
  std::int64_t bytes = 0;
  std::int64_t steps = 0;
  const auto write = [&](const std::string& lines) {
    to.WriteAt(bytes, lines.data(), lines.size());
    bytes += static_cast<std::int64_t>(lines.size());
    steps += HasStep(lines) ? 1 : 0;
  };
  auto next = earlier.carried.begin();
  const auto write_carried_before = [&](std::int64_t step) {
    for (; next != earlier.carried.end() && next->first < step; ++next) write(next->second);
  };
  std::ifstream file(path, std::ios::binary);
  if (!earlier.keep_file) file.close();
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto step = StepOfLine(json::parse(line, nullptr, /*allow_exceptions=*/false));
    if (!step) break;
    const bool later = *step >= earlier.first_step;
    if (later && !IsPlanted(tuplespace::Planted::kMetricsAreNotCut)) break;
    write_carried_before(*step);
    if (earlier.carried.count(*step) == 0) write(line + "\n");
  }
  write_carried_before(earlier.first_step);
  return steps;
}

}  // namespace

MetricsLines LinesByStep(std::string_view text) {
  MetricsLines lines;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const auto step = StepOfLine(json::parse(line, nullptr, /*allow_exceptions=*/false));
    if (step) (lines[*step] += line) += '\n';
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
  // The first may be one of two.
  if (begin > 0 && !lines.empty()) lines.erase(lines.begin());
  return lines;
}

MetricsLog::MetricsLog(const std::string& path, const EarlierMetrics& earlier) : path_(path) {
  // Not in the place of a device or a pipe.
  std::error_code ignored;
  const fs::file_status there = fs::status(path, ignored);
  if (!fs::exists(there) || fs::is_regular_file(there)) {
    AtomicFile begun(path);
    if (earlier.first_step > 0) {
      missing_ = std::max<std::int64_t>(0, earlier.first_step - CopyEarlier(earlier, path, begun));
    }
    begun.Commit();
  }
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) Fail("open", errno);
}

MetricsLog::~MetricsLog() {
  ::close(descriptor_);
}

bool MetricsLog::Replaced() const {
  struct stat own = {};
  struct stat there = {};
  return ::fstat(descriptor_, &own) != 0 || ::stat(path_.c_str(), &there) != 0 ||
         own.st_ino != there.st_ino || own.st_dev != there.st_dev;
}

bool MetricsLog::Removed() const {
  struct stat there = {};
  return ::stat(path_.c_str(), &there) != 0;
}

void MetricsLog::Sync() const {
  // A pipe or a device need not know how.
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) Fail("sync", errno);
}

void MetricsLog::Fail(const std::string& doing, int error) const {
  throw FailureError(fmt::format("{}: cannot {}: {}", path_, doing, std::strerror(error)));
}

std::string MetricsLog::Write(const json& line) {
  std::string text = line.dump() + "\n";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(descriptor_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) Fail("write", errno);
    done += static_cast<std::size_t>(wrote);
  }
  return text;
}

std::string MetricsLog::Step(const StepMetrics& metrics) {
  return Write({{"step", metrics.step},
                {"epoch", metrics.epoch},
                {"loss", Finite(metrics.loss)},
                {"learning_rate", Finite(metrics.learning_rate)},
                {"samples_per_s", Finite(metrics.samples_per_s)},
                {"handlers", metrics.handlers},
                {"reissued", metrics.reissued}});
}

std::string MetricsLog::Evaluation(const EvaluationMetrics& metrics) {
  json line = {
      {"step", metrics.step}, {"epoch", metrics.epoch}, {"test_loss", Finite(metrics.test_loss)}};
  if (metrics.test_accuracy) line["test_accuracy"] = Finite(*metrics.test_accuracy);
  return Write(line);
}

}  // namespace acan
