// SpentResults alone: which results are worth a request.
#include "acan/manager/spent_results.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "acan/manager/task_builder.h"

namespace acan {
namespace {

constexpr std::uint64_t kBytes = 256;  // of a result [1, 64]

// A task that makes so many results, and one that reads them.
std::vector<PlannedTask> MakerAndReader(std::int64_t results) {
  std::vector<PlannedTask> tasks;
  TaskBuilder maker(TaskKind::kForward, Training{});
  TaskBuilder reader(TaskKind::kForward, Training{});
  for (std::int64_t i = 0; i < results; ++i) {
    maker.Put({"result", i}, maker.All(maker.NewBuffer(1, 64)));
    reader.Input({"result", i}, 1, 64);
  }
  tasks.push_back(std::move(maker).Finish({"task", 0}, 0, 0));
  tasks.push_back(std::move(reader).Finish({"task", 1}, 0, 1));
  return tasks;
}

TEST(SpentResultsTest, ResultsAreSpentOnceTheirMakerAndTheirReaderAreDone) {
  SpentResults spent(MakerAndReader(20), kBytes);
  std::vector<tuplespace::Key> keys;
  spent.Done(1, &keys);
  EXPECT_EQ(keys.size(), 0u);
  spent.Done(0, &keys);
  EXPECT_EQ(keys.size(), 20u);
}

TEST(SpentResultsTest, FewResultsAreNotWorthARequestEach) {
  EXPECT_TRUE(SpentResults(MakerAndReader(15), kBytes).empty());
  EXPECT_FALSE(SpentResults(MakerAndReader(16), kBytes).empty());
  EXPECT_FALSE(SpentResults(MakerAndReader(4), kBytes / 4).empty()) << "they are large";
  EXPECT_TRUE(SpentResults(MakerAndReader(20), kBytes + 1).empty()) << "they are small";
}

// The next version's tiles and losses, which no task of the unit reads, do not count.
TEST(SpentResultsTest, OnlyResultsThatAreReadCount) {
  std::vector<PlannedTask> tasks = MakerAndReader(16);
  tasks[1].inputs.pop_back();
  EXPECT_TRUE(SpentResults(tasks, kBytes).empty());
}

}  // namespace
}  // namespace acan
