#include "progress_display.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace acan::cli {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLivePeriod{100};
constexpr milliseconds kLinePeriod{2000};

nlohmann::json ProgressJson(const Progress& progress) {
  nlohmann::json json = {{"epoch", progress.epoch},
                         {"epochs", progress.epochs},
                         {"step", progress.step},
                         {"steps", progress.steps},
                         {"loss", progress.loss},
                         {"samples_per_s", progress.samples_per_s},
                         {"handlers", progress.handlers},
                         {"reissued", progress.reissued},
                         {"eta_s", nullptr}};
  if (progress.eta_s) json["eta_s"] = *progress.eta_s;
  if (progress.not_finite_step) json["not_finite_step"] = *progress.not_finite_step;
  if (progress.test_loss) json["test_loss"] = *progress.test_loss;
  if (progress.test_accuracy) json["test_accuracy"] = *progress.test_accuracy;
  return json;
}

std::string EvaluationText(const Progress& progress) {
  std::string text = "evaluated: ";  // a model that is not being trained
  if (progress.steps > 0) {
    text = fmt::format("epoch {}/{}{}, step {}/{}: ", progress.epoch, progress.epochs,
                       progress.epoch_done ? " done" : "", progress.step, progress.steps);
  }
  if (progress.step > 0) text += fmt::format("loss {:.4f}, ", progress.loss);
  if (progress.test_loss) text += fmt::format("test loss {:.4f}", *progress.test_loss);
  if (progress.test_accuracy) {
    text += fmt::format("{}test accuracy {:.2f} %", progress.test_loss ? ", " : "",
                        *progress.test_accuracy * 100);
  }
  return text;
}

}  // namespace

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const std::int64_t total = std::llround(std::min(seconds, 3.6e9));
  if (total >= 3600) {
    return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  }
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string ProgressText(const Progress& progress) {
  std::string text = fmt::format("epoch {}/{}  step {}/{}", progress.epoch, progress.epochs,
                                 progress.step, progress.steps);
  if (progress.step > 0) {
    text += fmt::format("  loss {:.4f}  {:.0f} samples/s", progress.loss, progress.samples_per_s);
  }
  if (progress.eta_s && progress.step < progress.steps) {
    text += fmt::format("  {} left", DurationText(*progress.eta_s));
  }
  text += fmt::format("  {} handler{}", progress.handlers, progress.handlers == 1 ? "" : "s");
  text += fmt::format("  {} re-issued", progress.reissued);
  if (progress.not_finite_step) {
    text += fmt::format("  not finite since step {}", *progress.not_finite_step);
  }
  return text;
}

void ProgressDisplay::Show(const Progress& progress) {
  const bool evaluated = progress.test_loss.has_value() || progress.test_accuracy.has_value();
  if (evaluated) {
    log_.Event("evaluation", EvaluationText(progress), ProgressJson(progress));
    return;
  }
  const bool live = log_.terminal().live() && log_.format() == LogFormat::kText;
  const Clock::time_point now = Clock::now();
  if (shown_ && now - *shown_ < (live ? kLivePeriod : kLinePeriod)) return;
  shown_ = now;
  if (live) {
    log_.terminal().Live(ProgressText(progress));
  } else {
    log_.Event("progress", ProgressText(progress), ProgressJson(progress));
  }
}

}  // namespace acan::cli
