#include "acan/core/parameter.h"

#include <cassert>

#include "acan/core/optimizers.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr ParameterState kStates[] = {ParameterState::kValue, ParameterState::kFirstMoment,
                                      ParameterState::kSecondMoment};
static_assert(std::size(kStates) == 1 + kMaxOptimizerStates);
static_assert(MostStates() <= kMaxOptimizerStates);

}  // namespace

std::span<const ParameterState> StatesOf(int optimizer_states) {
  const auto count = 1 + static_cast<std::size_t>(optimizer_states);
  assert(count >= 1 && count <= std::size(kStates));
  return std::span(kStates).first(count);
}

std::string StateSuffix(ParameterState state) {
  if (state == ParameterState::kValue) return "";
  return fmt::format(".state{}", static_cast<int>(state) - 1);
}

}  // namespace acan
