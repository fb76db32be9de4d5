#include "cluster/drawn.h"

#include "fmt/format.h"

namespace acan::simulation {
namespace {

std::string Line(const char* name, const std::string& value) {
  return fmt::format("  {:<10} {}\n", name, value);
}

double Ms(std::int64_t us) {
  return static_cast<double>(us) * 1e-3;
}

std::string Describe(const HandlerTraits& handler) {
  std::string text = fmt::format("{} KiB, {} GFLOPS, {:.1f} ms a task", handler.memory_bytes >> 10,
                                 handler.gflops, Ms(handler.task_us));
  if (handler.own_memory) text += ", memory of its own";
  if (handler.over_link) text += ", over a link";
  if (handler.wrong_results > 0) {
    text += fmt::format(", computes {:.1f} % wrong", 100 * handler.wrong_results);
  }
  return text;
}

std::string Describe(const NetworkConditions& network) {
  std::string text = fmt::format("a message takes {:.2f} to {:.2f} ms", Ms(network.least_delay_us),
                                 Ms(network.most_delay_us));
  if (network.unreachable_one_in == 1) text += ", and none goes from handler to handler";
  if (network.one_late_in == 0) return text;
  return text + fmt::format(", one in {} up to {:.0f} s", network.one_late_in,
                            Ms(network.very_late_us) * 1e-3);
}

std::string DescribeCuts(const Drawn& drawn) {
  if (drawn.task_bytes == 0) return "as the job says";
  std::string text = fmt::format("{} bytes of weights a task", drawn.task_bytes);
  if (drawn.task_rows > 0) text += fmt::format(", {} samples", drawn.task_rows);
  return text;
}

std::string DescribeFaults(const Drawn& drawn) {
  if (drawn.faults.empty()) return "none";
  std::string text = fmt::format("one in {:.0f} ms, until {:.1f} s:", Ms(drawn.mean_gap_us),
                                 Ms(drawn.heals_at_us) * 1e-3);
  for (const Fault fault : drawn.faults) {
    text += fmt::format("{}{}", fault == drawn.faults.front() ? " " : ", ", NameOf(fault));
  }
  return text + (drawn.faults_are_given ? " (--fault)" : "");
}

}  // namespace

std::string Describe(const Drawn& drawn) {
  std::string text = fmt::format("seed {}\n", drawn.seed);
  text += Line("job", drawn.job);
  text += Line("folders", drawn.own_folders ? "one for each manager" : "one for all managers");
  text += Line("links", drawn.knows_links ? "are known, and tasks name handlers" : "are not known");
  text += Line("cuts", DescribeCuts(drawn));
  for (std::size_t i = 0; i < drawn.handlers.size(); ++i) {
    text += Line(fmt::format("handler {}", i).c_str(), Describe(drawn.handlers[i]));
  }
  text += Line("network", Describe(drawn.network));
  text += Line("faults", DescribeFaults(drawn));
  if (!drawn.faults.empty()) {
    text += Line("tasks", fmt::format("at most {} fail on their devices", drawn.device_failures));
  }
  text += Line("liar", drawn.lies_one_in == 0
                           ? "none"
                           : fmt::format("puts one result in {} again, with other bytes",
                                         drawn.lies_one_in));
  text += Line("limited", drawn.hostile_manager.empty() ? "none" : drawn.hostile_manager);
  text += Line("hostile", drawn.hostile.empty() ? "none" : drawn.hostile);
  if (!drawn.hostile.empty()) {
    text +=
        Line("drawn", drawn.adds_hostile ? "whatever the seed says (--hostile)" : "by the seed");
    text += Line("its key", drawn.key_is_shared ? "all handlers have it" : "is its own");
  }
  return text;
}

}  // namespace acan::simulation
