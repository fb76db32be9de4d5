// metrics.jsonl from before a run was resumed: the resumed run truncates it and continues it.
//
// Input: [first step: 4][file]
#include "acan/core/error.h"
#include "acan/manager/metrics_log.h"
#include "acan/manager/receipt.h"
#include "nlohmann/json.hpp"
#include "scratch_folder.h"
#include "target.h"

namespace acan::fuzz::metrics_target {
namespace {

using nlohmann::json;

constexpr const char* kName = "metrics.jsonl";

// Every line that is kept must be complete and belong to an earlier step.
void CheckLines(const std::string& kept, std::int64_t first_step) {
  for (std::size_t begin = 0; begin < kept.size();) {
    const std::size_t end = kept.find('\n', begin);
    Require(end != std::string::npos, "a torn line is kept");
    const json line = json::parse(kept.substr(begin, end - begin), nullptr, false);
    Require(line.is_object() && line.contains("step"), "a line without a step is kept");
    const json& step = line.at("step");
    Require(step.is_number_unsigned() &&
                step.get<std::uint64_t>() < static_cast<std::uint64_t>(first_step),
            "a line of step {} is kept, the run goes on with step {}", step.dump(), first_step);
    begin = end + 1;
  }
}

// Whether all lines of `kept` are lines of `file`, in the same order.
bool AreLinesOf(std::string_view kept, std::string_view file) {
  while (!kept.empty()) {
    const std::size_t end = file.find('\n');
    if (end == std::string_view::npos) return false;
    const std::string_view line = file.substr(0, end + 1);
    file.remove_prefix(end + 1);
    if (kept.starts_with(line)) kept.remove_prefix(line.size());
  }
  return true;
}

std::string AfterResume(const ScratchFolder& folder, std::int64_t first_step) {
  const MetricsLog log(folder.Path(kName), first_step);
  return folder.Read(kName);
}

bool Run(std::string_view input) {
  InputReader in(input);
  const auto first_step = static_cast<std::int64_t>(in.Number(4));
  const std::string_view file = in.Rest();
  static const ScratchFolder folder;
  folder.Write(kName, file);
  const HeapWatch heap;
  const std::string kept = AfterResume(folder, first_step);
  heap.RequireAtMost((256 << 10) + 256 * file.size());
  Require(AreLinesOf(kept, file), "what is kept was not there, or in another order");
  Require(first_step > 0 || kept.empty(), "a run that begins anew keeps lines");
  CheckLines(kept, first_step);
  Require(AfterResume(folder, first_step) == kept, "resuming twice keeps other lines");
  {
    MetricsLog log(folder.Path(kName), first_step);
    log.Step({first_step, 0, 0.5, 0.1, 10, 1, 0});
  }
  const std::string longer = AfterResume(folder, first_step + 1);
  Require(longer.size() > kept.size() && longer.starts_with(kept), "a line that was added is lost");
  return !kept.empty();
}

std::vector<Seed> Seeds() {
  const ScratchFolder folder;
  {
    MetricsLog log(folder.Path(kName));
    for (std::int64_t step = 0; step < 3; ++step) log.Step({step, 0, 0.5, 0.1, 10, 1, 0});
    log.Evaluation({2, 0, 0.25, 0.75});
  }
  const std::string file = folder.Read(kName);
  return {{"all", NumberBytes(3, 4) + file},
          {"cut", NumberBytes(2, 4) + file},
          {"torn", NumberBytes(9, 4) + file.substr(0, file.size() - 5)}};
}

const Registration registration({"metrics", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz::metrics_target
