// Sums of parts that lie in the space, each of a range of the axis that is reduced.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "acan/manager/task_builder.h"
#include "pass_context.h"
#include "tuplespace/space.h"

namespace acan {

struct SumPart {
  Range range;
  tuplespace::Key key;
  bool is_hidden = false;  // nothing of the range counts: there is no tuple
};

// The boxes that a node makes a part of its sums, or of the loss, for: ascending.
std::vector<Box> PartBoxesOf(const PassContext& context, int node);
// The parts of a sum over rows that the boxes of its segment make, of a tile of it.
std::vector<SumPart> PartsOfSum(const PassContext& context, int value, const ParameterTile& tile);

// Most parts of a sum that are inputs of one task.
inline constexpr std::uint64_t kMostPartsOfSum = tuplespace::SpaceLimits{}.task_inputs / 4;

// Matrices of a part's size that it takes to add so many parts: these, and sums on the way up the
// tree.
std::uint64_t MatricesOfSum(std::uint64_t parts);
// Most that a task makes of a sum: the values and states of its tile before and after.
std::uint64_t MatricesBesideSums(const Training& training);

// How sums of some parts are named, and their tasks.
struct SumNames {
  std::function<tuplespace::Key(const Range&)> key;       // of the sum of a range
  std::function<tuplespace::Key(const Range&)> task_key;  // of the task that makes it
  std::int64_t priority = 0;
  int layer = 0;
  std::uint64_t sums = 1;  // like this one, which the task that reads the parts adds up
  // Matrices of a part's size that this task holds beside parts and sums.
  std::uint64_t beside = 0;
  // Puts parts together in a task; returns the buffer of the whole.
  std::function<int(TaskBuilder&, const std::vector<SumPart>&)> add = {};  // empty: SumOfParts
};

// Adds tasks that add some of the parts [rows, columns] until few enough are left for one task.
// Such a task holds nothing beside parts and sums, unless `names.add` puts them together.
std::vector<SumPart> ReduceParts(const PassContext& context, std::vector<SumPart> parts,
                                 std::int64_t rows, std::int64_t columns, const SumNames& names,
                                 std::vector<PlannedTask>* tasks);
// The buffer of the sum of the parts, which become inputs of the task. REQUIRES: one is not hidden.
int SumOfParts(TaskBuilder& task, const std::vector<SumPart>& parts, std::int64_t rows,
               std::int64_t columns);

}  // namespace acan
