#include "acan/manager/earlier_runs.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>

#include "acan/core/names.h"
#include "acan/manager/kept_metrics.h"
#include "acan/manager/kept_state.h"

namespace acan {
namespace {

using tuplespace::Client;
using tuplespace::FieldPattern;
using tuplespace::Pattern;

constexpr auto kGoodbyeWait = std::chrono::seconds(2);

}  // namespace

void EarlierRuns::Find() {
  for (const tuplespace::FoundTuple& found : context_.client.ListAll(AllRuns(context_.job_id))) {
    const std::string_view name = found.payload.text();
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.emplace_back(name);
  }
  tuplespace::Tuple mine;
  mine.key = RunKey(context_.job_id, context_.run);
  mine.payload = tuplespace::Payload::Copy(context_.run);
  context_.client.Put({mine});
}

std::vector<std::string> EarlierRuns::Left() const {
  std::vector<std::string> runs = names_;
  runs.push_back(context_.run);
  return runs;
}

void EarlierRuns::RemoveAll() {
  for (const std::string& name : names_) {
    leadership_.Keep();
    Remove(name, Client::kForever);
    context_.client.RetireAll(Pattern::Of(RunKey(context_.job_id, name)), false);
  }
  names_.clear();
}

void EarlierRuns::RemoveOwn() {
  Remove(context_.run, Client::kForever);
}

void EarlierRuns::SayGoodbye() {
  context_.client.SetInterrupt(nullptr);
  try {
    // Without the lead, another manager may be reading this run's tuples.
    if (context_.client.connected() && leadership_.leads()) Remove(context_.run, kGoodbyeWait);
  } catch (const std::exception&) {
  } catch (const RunLost&) {
  }
}

void EarlierRuns::Remove(const std::string& name, Client::Duration wait) {
  const auto tiles = context_.client.RetireAll(
      {{FieldPattern::Exact(name), FieldPattern::AtMost(INT64_MAX)}, true}, true, wait);
  // If the weights may remain, another manager may continue from them, and needs the rest.
  if (!tiles) return;
  context_.client.RetireAll(KeptMetrics::AllOf(context_.job_id, name), false, wait);
  context_.client.RetireAll(KeptState::AllOf(context_.job_id, name), false, wait);
}

}  // namespace acan
