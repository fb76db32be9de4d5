// Log: the messages of a role, on stderr, as text or as JSON lines.
#pragma once

#include <memory>
#include <string>

#include "flags.h"
#include "nlohmann/json_fwd.hpp"
#include "setting.h"
#include "terminal.h"

namespace spdlog {
class logger;
}

namespace acan::cli {

enum class LogFormat { kText, kJson };
// "text" or "json". Throws Error (usage).
LogFormat ParseLogFormat(const Setting& setting);
// Adds --log-format (ACAN_LOG_FORMAT) to a command.
void AddLogFormat(Command& app, Setting& setting);

// Thread safe.
class Log {
 public:
  // `role` names the process in every line: "train", "handler cpu:1".
  Log(LogFormat format, const std::string& role);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void Info(const std::string& message);
  void Warning(const std::string& message);
  void Error(const std::string& message);
  // A line with values: `text` for people, `fields` for programs.
  void Event(const std::string& name, const std::string& text, const nlohmann::json& fields);
  // A line that another process has already formatted.
  void Raw(const std::string& line);

  LogFormat format() const { return format_; }
  Terminal& terminal() { return terminal_; }

 private:
  LogFormat format_;
  std::string role_;
  Terminal terminal_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace acan::cli
