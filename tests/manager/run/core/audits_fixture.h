// For tests of Audits alone; the test provides handlers, results and votes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "acan/manager/audits.h"

namespace acan {

inline constexpr std::uint64_t kRightResult = 1;  // result of an honest handler

inline PlannedTask TaskNumber(std::int64_t number, int outputs = 1) {
  PlannedTask task;
  task.key = tuplespace::Key{"run", 5, "task", "exact", "forward", number};
  task.task.buffers = {{4, 4}};
  for (int i = 0; i < outputs; ++i) {
    task.task.outputs.push_back(
        {tuplespace::Key{"run", 5, "act", number, i}, {0, 0, 0, 4, 4}, true});
  }
  return task;
}

class AuditsFixture : public ::testing::Test {
 protected:
  void Present(std::initializer_list<const char*> names, std::uint64_t memory_bytes = 1 << 20) {
    std::map<std::string, Capacity> handlers;
    for (const char* name : names) handlers[name].memory_bytes = memory_bytes;
    audits_.OnHandlers(handlers);
  }
  static std::vector<SeenResult> Results(const PlannedTask& task, const char* by,
                                         std::uint64_t value = kRightResult) {
    std::vector<SeenResult> results;
    for (const acan::Output& output : task.task.outputs) {
      results.push_back({output.key, by, tuplespace::PayloadHash{value, 0}, output.view.bytes()});
    }
    return results;
  }
  void Put(const PlannedTask& task) { audits_.OnPut(1, task); }
  void Compute(const PlannedTask& task, const char* by, std::uint64_t value = kRightResult) {
    audits_.OnResults(Results(task, by, value));
  }
  // Returns the vote that is requested; there must be exactly one.
  PlannedTask Vote() {
    auto output = audits_.TakeOutput();
    EXPECT_EQ(output.put.size(), 1u);
    EXPECT_FALSE(output.verdict);
    if (output.put.empty()) return {};
    id_ = output.put[0].audit;
    return output.put[0].task;
  }
  void Answer(const PlannedTask& vote, const char* by, std::uint64_t value = kRightResult) {
    EXPECT_THAT(vote.not_by, ::testing::Not(::testing::Contains(by)));
    audits_.OnVote(id_, Results(vote, by, value));
  }

  Audits audits_{1.0, 7};
  AuditId id_ = 0;
};

}  // namespace acan
