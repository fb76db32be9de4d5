// Audit logs: a log without a problem can be continued, and a log with one is refused.
//
// Input: the file
#include <algorithm>

#include "acan/core/error.h"
#include "acan/manager/audit_log.h"
#include "memory_file.h"
#include "nlohmann/json.hpp"
#include "scratch_folder.h"
#include "target.h"

namespace acan::fuzz::audit_log_target {
namespace {

constexpr const char* kName = "audit.jsonl";

bool Run(std::string_view input) {
  static const ScratchFolder folder;
  const std::string path = folder.Write(kName, input);
  const HeapWatch heap;
  const AuditLogCheck check = CheckAuditLog(path);
  heap.RequireAtMost((64 << 10) + 64 * input.size());
  Require(check.bytes <= static_cast<std::int64_t>(input.size()) && check.records <= check.bytes,
          "{} records in {} bytes", check.records, check.bytes);
  try {
    AuditLog log(path);
    Require(!check.problem, "a log with a problem is gone on with");
    log.Add({{"key", "a"}});
  } catch (const Error& refused) {
    Require(check.problem && refused.kind() == Error::Kind::kUsage, "{}", refused.what());
    return false;
  }
  const AuditLogCheck longer = CheckAuditLog(path);
  Require(!longer.problem && !longer.torn && longer.records == check.records + 1,
          "a log that was gone on with is broken");
  return check.records > 0;
}

std::vector<Seed> Seeds() {
  const ScratchFolder folder;
  {
    AuditLog log(folder.Path(kName));
    for (int i = 0; i < 3; ++i) log.Add({{"key", "job"}, {"by", "handler/1"}, {"i", i}});
  }
  const std::string file = folder.Read(kName);
  return {{"whole", file}, {"torn", file.substr(0, file.size() - 9)}};
}

const Registration registration({"audit_log", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz::audit_log_target
