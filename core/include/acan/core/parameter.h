// Parameters: the matrices of a model that training changes, and the matrices that a run keeps of
// each of them. Pure values.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "acan/core/model.h"

namespace acan {

// The number of a parameter in its model, from 0. It is in the keys of tiles (tuple_kinds.h) and in
// the counters from which initial weights are drawn, so the number of a parameter never changes.
enum class ParameterId : std::int64_t {};

enum class ParameterRole : std::uint8_t { kWeight, kBias };

// What a run keeps of a parameter: its value, and the state of the optimizer, which has the same
// shape. Momentum has one matrix of state (its buffer), AdamW two (the means of the gradients and
// of their squares).
enum class ParameterState : std::uint8_t { kValue, kFirstMoment, kSecondMoment };

inline constexpr int kMostOptimizerStates = 2;

// The value and `optimizer_states` matrices of state, in order.
// REQUIRES: 0 <= optimizer_states <= kMostOptimizerStates.
std::span<const ParameterState> StatesOf(int optimizer_states);

// What files add to a parameter's name: "", or ".state0" of the first state.
std::string StateSuffix(ParameterState state);

struct Parameter {
  ParameterId id{};
  ParameterRole role = ParameterRole::kWeight;
  int layer = 0;
  std::int64_t rows = 0;  // outputs
  std::int64_t cols = 0;  // inputs; of a bias: 1

  bool IsBias() const { return role == ParameterRole::kBias; }
  // "layers.0.weight"; of the optimizer's state: "layers.0.weight.state0".
  std::string Name(ParameterState state = ParameterState::kValue) const;
};

Parameter WeightOf(const Model& model, int layer);  // [outputs, inputs]
Parameter BiasOf(const Model& model, int layer);    // [outputs, 1]
// All of them, in the order of their ids.
std::vector<Parameter> ParametersOf(const Model& model);

// One matrix of a run.
struct MatrixId {
  ParameterId parameter{};
  ParameterState state = ParameterState::kValue;
  friend auto operator<=>(const MatrixId&, const MatrixId&) = default;
};

}  // namespace acan
