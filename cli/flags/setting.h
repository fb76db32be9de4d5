// A setting: the value of a flag, otherwise of its ACAN_* variable, otherwise unset.
#pragma once

#include <string>

#include "flags.h"

namespace acan::cli {

// Filled in when the command line is parsed. `origin` names the source of the value, for messages.
struct Setting {
  std::string value;
  std::string origin;  // "--memory" or "ACAN_MEMORY"; empty: not set

  bool set() const { return !origin.empty(); }
};

// Adds `flag` to `app`. The flag's help names the variable. REQUIRES: `setting` outlives `app`.
Flag AddSetting(Command& app, Setting& setting, const std::string& flag,
                const std::string& variable, const std::string& description);

}  // namespace acan::cli
