#include "task_keys.h"

#include <string_view>

#include "acan/core/names.h"
#include "fmt/format.h"

namespace acan {

using tuplespace::Key;

std::optional<std::string> ProblemOfKeys(const Task& task, const Key& key,
                                         const std::vector<Key>& inputs) {
  const std::string_view run = key.FirstBytes(1);
  const auto problem_of = [&](const Key& named) -> const char* {
    if (!named.bytes().starts_with(run)) return "belongs to another run";
    return IsOfStep(named) ? nullptr : "is no tuple of a step";
  };
  for (const Key& input : inputs) {
    if (const char* problem = problem_of(input)) {
      return fmt::format("task: its input {} {}", input.ToString(), problem);
    }
  }
  for (const Output& output : task.outputs) {
    if (const char* problem = problem_of(output.key)) {
      return fmt::format("task: its result {} {}", output.key.ToString(), problem);
    }
  }
  for (const Ahead& tuple : task.ahead) {
    if (const char* problem = problem_of(tuple.key)) {
      return fmt::format("task: {}, which it says to fetch ahead, {}", tuple.key.ToString(),
                         problem);
    }
  }
  return std::nullopt;
}

}  // namespace acan
