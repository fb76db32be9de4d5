// A setting: a flag, else its ACAN_* variable, else nothing.
#pragma once

#include <string>

#include "flags.h"

namespace acan::cli {

// Filled in when the command line was parsed. `origin` names where the value came from, for
// messages.
struct Setting {
  std::string value;
  std::string origin;  // "--memory" or "ACAN_MEMORY"; empty: not set

  bool set() const { return !origin.empty(); }
};

// Adds `flag` to `app`. The variable is named in its help. REQUIRES: `setting` outlives `app`.
Flag AddSetting(Command& app, Setting& setting, const std::string& flag,
                const std::string& variable, const std::string& description);

}  // namespace acan::cli
