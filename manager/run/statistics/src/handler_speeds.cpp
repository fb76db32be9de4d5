#include "handler_speeds.h"

namespace acan {

void HandlerSpeeds::See(const std::map<std::string, Capacity>& present) {
  present_ = present;
}

void HandlerSpeeds::Note(const std::string& id, const Report& report) {
  Reported& known = reported_[id];
  const double gflop = report.gflop - known.last.gflop;
  const double busy_s = report.busy_s - known.last.busy_s;
  if (gflop > 0 && busy_s > 0) known.gflops = gflop / busy_s;
  known.last = report;
}

double HandlerSpeeds::Gflops() const {
  double sum = 0;
  for (const auto& [id, capacity] : present_) {
    const auto it = reported_.find(id);
    const bool measured = it != reported_.end() && it->second.gflops > 0;
    sum += measured ? it->second.gflops : capacity.gflops;
  }
  return sum;
}

double HandlerSpeeds::busy_s() const {
  double sum = 0;
  for (const auto& [id, reported] : reported_) sum += reported.last.busy_s;
  return sum;
}

}  // namespace acan
