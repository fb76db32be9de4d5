// What handlers publish about themselves and managers read: their capacity and their reports.
//
// Input: the text
#include <cmath>

#include "acan/core/names.h"
#include "target.h"

namespace acan::fuzz::report_target {
namespace {

bool Run(std::string_view input) {
  const std::string text(input);
  const HeapWatch heap;
  const auto capacity = CapacityFromJson(text);
  const auto report = ReportFromJson(text);
  heap.RequireAtMost((64 << 10) + 256 * input.size());
  if (capacity) {
    Require(capacity->threads >= 0 && std::isfinite(capacity->gflops) && capacity->gflops >= 0,
            "a handler of {} threads and {} GFLOP/s", capacity->threads, capacity->gflops);
    const std::string written = CapacityToJson(*capacity);
    const auto again = CapacityFromJson(written);
    Require(again && CapacityToJson(*again) == written, "a capacity changes: {}", written);
  }
  if (report) {
    Require(std::isfinite(report->busy_s) && std::isfinite(report->gflop) && report->gflop >= 0,
            "a report of {} s and {} GFLOP", report->busy_s, report->gflop);
    Require(report->speed >= kMinSpeed && report->speed <= kMaxSpeed, "a speed of {}",
            report->speed);
    const std::string written = ReportToJson(*report);
    const auto again = ReportFromJson(written);
    Require(again && ReportToJson(*again) == written, "a report changes: {}", written);
  }
  return capacity || report;
}

std::vector<Seed> Seeds() {
  const Capacity capacity{.name = "host/1",
                          .device = "cpu:1",
                          .description = "a processor",
                          .limit_bytes = 1 << 30,
                          .memory_bytes = 1 << 29,
                          .threads = 2,
                          .gflops = 12.5,
                          .exact = true,
                          .fast = true,
                          .own_memory = false,
                          .bytes_travel = true,
                          .jobs = "a*",
                          .conformance_hash = "hash"};
  return {{"capacity", CapacityToJson(capacity)},
          {"report", ReportToJson({10, 1, 5, 1 << 20, 0.5, 3.25})},
          {"slow", ReportToJson({.tasks = 10, .busy_s = 0.5, .gflop = 3.25, .speed = 0.4})}};
}

// Numbers that do not fit into their types.
std::vector<Seed> Hostile() {
  const std::string rest =
      R"("failed":0,"tile_hits":0,"peak_bytes":0,"busy_s":0.5,"gflop":1.5,"tasks":)";
  return {{"huge-count", "{" + rest + "1e300}"},
          {"negative-count", "{" + rest + "-1}"},
          {"half-a-task", "{" + rest + "0.5}"}};
}

const Registration registration({"report", Run, Seeds, Hostile});

}  // namespace
}  // namespace acan::fuzz::report_target
