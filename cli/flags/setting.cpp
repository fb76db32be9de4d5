#include "setting.h"

#include <cstdlib>

namespace acan::cli {

Flag AddSetting(Command& app, Setting& setting, const std::string& flag,
                const std::string& variable, const std::string& description) {
  if (!variable.empty()) {
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0') setting = {value, variable};
  }
  const std::string help = variable.empty() ? description : description + " [$" + variable + "]";
  const auto take = [&setting, flag](const std::string& value) { setting = {value, flag}; };
  return app.AddOptionFunction(flag, take, help);
}

}  // namespace acan::cli
