#include "input_sizes.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace acan {

using tuplespace::FoundTuple;

std::optional<std::string> ProblemOfInputs(
    const Task& task, const tuplespace::Grant& grant,
    const std::function<bool(const tuplespace::Key&)>& is_here) {
  const std::vector<std::uint64_t> right_bytes = InputBytes(task, grant.task->inputs.size());
  for (std::size_t i = 0; i < right_bytes.size(); ++i) {
    if (right_bytes[i] != 0) continue;
    return fmt::format("its input {} is no part of its matrices", grant.task->inputs[i].ToString());
  }
  for (std::size_t i = 0; i < grant.inputs.size() && i < right_bytes.size(); ++i) {
    const FoundTuple& input = grant.inputs[i];
    const bool is_known = input.payload_bytes != 0;
    if (grant.input_sent[i] || !is_known || input.payload_bytes == right_bytes[i]) continue;
    if (input.resident) continue;  // the space may still lose it, and then it is made again
    if (is_here(grant.task->inputs[i])) continue;
    return fmt::format("its input {}{}{} has {} bytes, must have {}",
                       grant.task->inputs[i].ToString(), input.put_by.empty() ? "" : " of ",
                       input.put_by, input.payload_bytes, right_bytes[i]);
  }
  return std::nullopt;
}

}  // namespace acan
