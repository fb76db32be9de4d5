#include "setting.h"

#include <cstdlib>

#include "CLI/CLI.hpp"

namespace acan::cli {

CLI::Option* AddSetting(CLI::App& app, Setting& setting, const std::string& flag,
                        const std::string& variable, const std::string& description) {
  if (!variable.empty()) {
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0') setting = {value, variable};
  }
  const std::string help = variable.empty() ? description : description + " [$" + variable + "]";
  return app.add_option_function<std::string>(
      flag,
      [&setting, flag](const std::string& value) {
        setting = {value, flag};
      },
      help);
}

}  // namespace acan::cli
