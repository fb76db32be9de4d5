#include "task_keys.h"

#include "acan/core/names.h"
#include "fmt/format.h"

namespace acan {

using tuplespace::Key;

std::optional<std::string> ProblemOfKeys(const Task& task, const Key& key) {
  const Key run = RunOf(key);
  const auto is_of_run = [&](const Key& named) { return named.bytes().starts_with(run.bytes()); };
  for (const Output& output : task.outputs) {
    if (is_of_run(output.key)) continue;
    return fmt::format("task: its result {} belongs to another run", output.key.ToString());
  }
  for (const Ahead& tuple : task.ahead) {
    if (is_of_run(tuple.key)) continue;
    return fmt::format("task: {}, which it says to fetch ahead, belongs to another run",
                       tuple.key.ToString());
  }
  return std::nullopt;
}

}  // namespace acan
