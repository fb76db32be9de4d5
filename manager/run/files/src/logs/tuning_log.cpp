#include <fcntl.h>

#include "acan/core/text/json_text.h"
#include "acan/manager/text_file.h"
#include "acan/manager/tuning.h"
#include "nlohmann/json.hpp"

namespace acan {

TuningLog::TuningLog(const std::string& path, bool anew) : lines_(path) {
  RequireKeptFile(path, Devices::kAllowed, Links::kRefused);
  lines_.Open(O_CREAT | (anew ? O_TRUNC : 0));
}

void TuningLog::Write(const Tuning& t) {
  lines_.Add(JsonText({{"unix_s", t.unix_s},
                       {"step", t.step},
                       {"pouches", t.pouches},
                       {"pouch", t.pouch},
                       {"in_flight", t.in_flight},
                       {"timeout_ms", static_cast<double>(t.timeout_us) * 1e-3},
                       {"handlers", t.handlers},
                       {"gflops", t.gflops},
                       {"busy_s", t.busy_s},
                       {"tasks_done", t.tasks_done},
                       {"gflop_done", t.gflop_done},
                       {"reissued", t.reissued}}) +
             "\n");
}

}  // namespace acan
