// The inputs of tasks that are built piece by piece.
#include "acan/manager/task_builder.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "acan/core/model.h"
#include "acan/core/task.h"
#include "acan/manager/planned_task.h"
#include "tuplespace/key.h"

namespace acan {
namespace {

tuplespace::Key Cell(std::int64_t number) {
  return tuplespace::Key{"run", 1, "cell", number};
}

// A tuple that several pieces come from is one input, whether there are so few inputs that all are
// compared or an index finds them.
TEST(TaskBuilderTest, ATupleIsOneInputHoweverManyInputsThereAre) {
  for (const std::int64_t tuples : {1, 7, 8, 9, 16, 17, 200}) {
    std::mt19937 random(1);
    TaskBuilder task(TaskKind::kForward, Training{});
    const int buffer = task.NewBuffer(3 * tuples, 1);
    std::vector<std::int64_t> cells;
    for (std::int64_t i = 0; i < 3 * tuples; ++i) {
      cells.push_back(i < tuples ? i : static_cast<std::int64_t>(random()) % tuples);
      task.AddPiece(buffer, Cell(cells.back()), i, 0, 1, 1);
    }
    const PlannedTask planned = std::move(task).Finish(Cell(-1), 0, 0);
    ASSERT_EQ(planned.inputs.size(), static_cast<std::size_t>(tuples));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      EXPECT_EQ(planned.inputs[planned.task.pieces[i].input], Cell(cells[i])) << tuples;
    }
  }
}

}  // namespace
}  // namespace acan
