#include "log.h"

#include <chrono>
#include <mutex>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/one_line.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace acan::cli {
namespace {

using Time = std::chrono::system_clock::time_point;

std::string JsonTime(Time time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  return fmt::format("{:%FT%T}.{:03d}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     ms.count() % 1000);
}

// Bytes that are not UTF-8 (in a file's name, say) are replaced, because a log line must not throw.
std::string Dump(const nlohmann::json& json) {
  return JsonTextReplacing(json);
}

// Passes whole lines to the terminal, above its live line.
class TerminalSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  TerminalSink(Terminal& terminal, LogFormat format, std::string role)
      : terminal_(terminal), format_(format), role_(std::move(role)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string level = fmt::to_string(spdlog::level::to_string_view(message.level));
    const std::string text = OneLine(fmt::to_string(message.payload));
    if (format_ == LogFormat::kJson) {
      terminal_.Line(Dump({{"time", JsonTime(message.time)},
                           {"level", level},
                           {"role", role_},
                           {"message", text}}));
      return;
    }
    const char* colour = message.level >= spdlog::level::err    ? "\x1b[31m"
                         : message.level >= spdlog::level::warn ? "\x1b[33m"
                                                                : "";
    const bool coloured = terminal_.colour() && *colour != '\0';
    terminal_.Line(fmt::format("{:%H:%M:%S} {}{}: {}{}{}",
                               fmt::localtime(std::chrono::system_clock::to_time_t(message.time)),
                               coloured ? colour : "", role_,
                               message.level >= spdlog::level::warn ? level + ": " : "", text,
                               coloured ? "\x1b[0m" : ""));
  }
  void flush_() override {}

 private:
  Terminal& terminal_;
  LogFormat format_;
  std::string role_;
};

}  // namespace

LogFormat ParseLogFormat(const Setting& setting) {
  if (!setting.set() || setting.value == "text") return LogFormat::kText;
  if (setting.value == "json") return LogFormat::kJson;
  throw UsageError(fmt::format("{}: \"{}\" is not a log format; write text or json", setting.origin,
                               setting.value));
}

void AddLogFormat(Command& app, Setting& setting) {
  AddSetting(app, setting, "--log-format", "ACAN_LOG_FORMAT",
             "the format of the log on stderr: text or json (one object per line)")
      .TypeName("FORMAT");
}

Log::Log(LogFormat format, const std::string& role) : format_(format), role_(role) {
  logger_ = std::make_shared<spdlog::logger>(
      role, std::make_shared<TerminalSink>(terminal_, format, role));
}

Log::~Log() = default;

void Log::Info(const std::string& message) {
  logger_->info("{}", message);
}
void Log::Warning(const std::string& message) {
  logger_->warn("{}", message);
}
void Log::Error(const std::string& message) {
  logger_->error("{}", message);
}

void Log::Event(const std::string& name, const std::string& text, const nlohmann::json& fields) {
  if (format_ == LogFormat::kText) {
    Info(text);
    return;
  }
  nlohmann::json line = {{"time", JsonTime(std::chrono::system_clock::now())},
                         {"level", "info"},
                         {"role", role_},
                         {"event", name}};
  line.update(fields);
  terminal_.Line(Dump(line));
}

void Log::Raw(const std::string& line) {
  terminal_.Line(line);
}

}  // namespace acan::cli
