#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/text_file.h"
#include "acan/manager/tuning.h"
#include "nlohmann/json.hpp"

namespace acan {

TuningLog::TuningLog(std::string path, bool anew) : path_(std::move(path)) {
  RequireKeptFile(path_, Devices::kAllowed, Links::kRefused);
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (anew ? O_TRUNC : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0) Fail("open", errno);
}

TuningLog::~TuningLog() {
  ::close(descriptor_);
}

void TuningLog::Fail(const char* doing, int error) const {
  throw FailureError(fmt::format("{}: cannot {}: {}", path_, doing, SystemErrorText(error)));
}

void TuningLog::Write(const Tuning& t) {
  const std::string line = JsonText({{"unix_s", t.unix_s},
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
                           "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t wrote = ::write(descriptor_, line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) Fail("write", errno);
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace acan
