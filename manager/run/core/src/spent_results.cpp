#include "acan/manager/spent_results.h"

#include <cassert>
#include <unordered_map>

#include "acan/manager/planted.h"

namespace acan {
namespace {

// Each result takes a request of its own, and its task is reported alone. That is not worth it
// before the results of a unit have more bytes together than so many of the least size.
constexpr std::uint64_t kLeastTogether = 16;

}  // namespace

SpentResults::SpentResults(const std::vector<PlannedTask>& tasks, std::uint64_t least_bytes) {
  struct Made {
    std::size_t by = 0;
    std::uint64_t bytes = 0;
    std::vector<std::size_t> read_by;
  };
  std::unordered_map<tuplespace::Key, Made> made;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const Output& output : tasks[i].task.outputs) {
      const std::uint64_t bytes = output.view.bytes();
      if (bytes >= least_bytes) made[output.key] = {i, bytes, {}};
    }
  }
  if (made.empty()) return;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const tuplespace::Key& input : tasks[i].inputs) {
      const auto it = made.find(input);
      if (it != made.end()) it->second.read_by.push_back(i);
    }
  }
  std::uint64_t together = 0;
  for (const auto& [key, result] : made) together += result.read_by.empty() ? 0 : result.bytes;
  if (together / kLeastTogether < least_bytes) return;
  of_task_.resize(tasks.size());
  for (auto& [key, result] : made) {
    if (result.read_by.empty()) continue;  // for later units
    of_task_[result.by].push_back(results_.size());
    for (const std::size_t reader : result.read_by) of_task_[reader].push_back(results_.size());
    results_.push_back({key, 1 + result.read_by.size()});
  }
}

void SpentResults::Done(std::size_t task, std::vector<tuplespace::Key>* spent) {
  if (results_.empty()) return;
  for (const std::size_t of : of_task_.at(task)) {
    Result& result = results_[of];
    assert(result.waits_for > 0);
    if (--result.waits_for == (IsPlanted(ManagerBug::kRemovesResultsStillNeeded) ? 1 : 0))
      spent->push_back(std::move(result.key));
  }
}

}  // namespace acan
