// Sums of parts that lie in the space, where each part covers a range of the reduced axis.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "acan/manager/task_builder.h"
#include "pass_context.h"
#include "tuplespace/space_limits.h"

namespace acan {

struct SumPart {
  Range range;
  tuplespace::Key key;
  bool is_hidden = false;  // no element of the range counts, so there is no tuple
};

// The boxes for which a node makes parts of its sums or of the loss, ascending.
std::vector<Box> PartBoxesOf(const PassContext& context, int node);
// The parts that the boxes of its segment make of a tile of a sum over rows.
std::vector<SumPart> PartsOfSum(const PassContext& context, int value, const ParameterTile& tile);

// The maximum number of parts of a sum that one task reads.
inline constexpr std::uint64_t kMaxPartsOfSum = tuplespace::SpaceLimits{}.task_inputs / 4;

// The number of matrices of a part's size that are held while `parts` parts are added: the parts,
// and the intermediate sums of the tree.
std::uint64_t MatricesOfSum(std::uint64_t parts);
// The maximum number of matrices that a task holds besides a sum: the values and states of its
// tile, before and after.
std::uint64_t MatricesBesideSums(const Training& training);

// The keys of partial sums and of their tasks.
struct SumNames {
  std::function<tuplespace::Key(const Range&)> key;       // of the sum over a range
  std::function<tuplespace::Key(const Range&)> task_key;  // of the task that makes this sum
  std::int64_t priority = 0;
  int segment = 0;         // PlannedTask::segment
  std::uint64_t sums = 1;  // number of such sums that the task that reads the parts adds up
  // Number of matrices of a part's size that this task holds besides parts and sums.
  std::uint64_t beside = 0;
  // Combines parts in a task and returns the buffer of the whole.
  std::function<int(TaskBuilder&, const std::vector<SumPart>&)> add = {};  // empty: SumOfParts
};

// Adds tasks that combine some of the parts [rows, columns] until few enough are left for one task.
// Such a task holds only parts and sums, unless `names.add` combines them.
std::vector<SumPart> ReduceParts(const PassContext& context, std::vector<SumPart> parts,
                                 std::int64_t rows, std::int64_t columns, const SumNames& names,
                                 std::vector<PlannedTask>* tasks);
// The buffer of the sum of the parts, which become inputs of the task. REQUIRES: at least one part
// is not hidden.
int SumOfParts(TaskBuilder& task, const std::vector<SumPart>& parts, std::int64_t rows,
               std::int64_t columns);

}  // namespace acan
