#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

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

// The lines of steps before `first_step`, up to the first that is torn.
void CopyBefore(std::int64_t first_step, const std::string& path, AtomicFile& to) {
  std::ifstream file(path, std::ios::binary);
  std::int64_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_object() || !value.contains("step")) break;
    const json& step = value.at("step");
    // Neither a negative step nor one beyond 64 bits signed is of this program.
    if (!step.is_number_unsigned()) break;
    const bool later = step.get<std::uint64_t>() >= static_cast<std::uint64_t>(first_step);
    if (later && !IsPlanted(tuplespace::Planted::kMetricsAreNotCut)) break;
    line.push_back('\n');
    to.WriteAt(bytes, line.data(), line.size());
    bytes += static_cast<std::int64_t>(line.size());
  }
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, std::int64_t first_step) : path_(path) {
  // Not in the place of a device or a pipe.
  std::error_code ignored;
  const fs::file_status there = fs::status(path, ignored);
  if (!fs::exists(there) || fs::is_regular_file(there)) {
    AtomicFile begun(path);
    if (first_step > 0) CopyBefore(first_step, path, begun);
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

void MetricsLog::Write(const json& line) {
  const std::string text = line.dump() + "\n";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(descriptor_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) Fail("write", errno);
    done += static_cast<std::size_t>(wrote);
  }
}

void MetricsLog::Step(const StepMetrics& metrics) {
  Write({{"step", metrics.step},
         {"epoch", metrics.epoch},
         {"loss", Finite(metrics.loss)},
         {"learning_rate", Finite(metrics.learning_rate)},
         {"samples_per_s", Finite(metrics.samples_per_s)},
         {"handlers", metrics.handlers},
         {"reissued", metrics.reissued}});
}

void MetricsLog::Evaluation(const EvaluationMetrics& metrics) {
  json line = {
      {"step", metrics.step}, {"epoch", metrics.epoch}, {"test_loss", Finite(metrics.test_loss)}};
  if (metrics.test_accuracy) line["test_accuracy"] = Finite(*metrics.test_accuracy);
  Write(line);
}

}  // namespace acan
