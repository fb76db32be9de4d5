#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "acan/core/error.h"
#include "acan/manager/receipt.h"
#include "tuplespace/planted.h"

namespace acan {
namespace {

using nlohmann::json;

// JSON has no infinity and no NaN.
json Finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, std::int64_t first_step) : path_(path) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (first_step == 0 ? O_TRUNC : 0);
  descriptor_ = ::open(path.c_str(), flags, 0666);
  if (descriptor_ < 0) Fail("open", errno);
  if (first_step == 0 || IsPlanted(tuplespace::Planted::kMetricsAreNotCut)) return;
  try {
    CutAt(first_step);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

MetricsLog::~MetricsLog() {
  ::close(descriptor_);
}

void MetricsLog::Fail(const std::string& doing, int error) const {
  throw FailureError(fmt::format("{}: cannot {}: {}", path_, doing, std::strerror(error)));
}

void MetricsLog::CutAt(std::int64_t first_step) {
  std::ifstream file(path_, std::ios::binary);
  if (!file) Fail("read", errno);
  std::int64_t keep_bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_object() || !value.contains("step")) break;
    const json& step = value.at("step");
    if (!step.is_number_integer() || step.get<std::int64_t>() >= first_step) break;
    keep_bytes += static_cast<std::int64_t>(line.size()) + 1;
  }
  if (::ftruncate(descriptor_, keep_bytes) != 0) Fail("cut off later steps", errno);
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
