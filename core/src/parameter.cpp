#include "acan/core/parameter.h"

#include <cassert>

#include "acan/core/optimizers.h"
#include "fmt/format.h"

namespace acan {
namespace {

constexpr ParameterState kStates[] = {ParameterState::kValue, ParameterState::kFirstMoment,
                                      ParameterState::kSecondMoment};
static_assert(std::size(kStates) == 1 + kMostOptimizerStates);
static_assert(MostStates() <= kMostOptimizerStates);

// Weights have even numbers, and the bias of a layer follows its weights.
ParameterId IdOf(ParameterRole role, int layer) {
  return ParameterId{2 * std::int64_t{layer} + (role == ParameterRole::kBias ? 1 : 0)};
}

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

std::string Parameter::Name(ParameterState state) const {
  const std::string name = fmt::format("layers.{}.{}", layer, IsBias() ? "bias" : "weight");
  return name + StateSuffix(state);
}

Parameter WeightOf(const Model& model, int layer) {
  constexpr ParameterRole kRole = ParameterRole::kWeight;
  return {IdOf(kRole, layer), kRole, layer, model.outputs(layer), model.inputs(layer)};
}

Parameter BiasOf(const Model& model, int layer) {
  constexpr ParameterRole kRole = ParameterRole::kBias;
  return {IdOf(kRole, layer), kRole, layer, model.outputs(layer), 1};
}

std::vector<Parameter> ParametersOf(const Model& model) {
  std::vector<Parameter> parameters;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    parameters.push_back(WeightOf(model, layer));
    parameters.push_back(BiasOf(model, layer));
  }
  return parameters;
}

}  // namespace acan
