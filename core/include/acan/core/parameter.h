// Parameters: the matrices of a model that training changes, and the matrices that a run keeps of
// each of them. Pure values.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

namespace acan {

// The number of a parameter in its model, from 0. It is in the keys of tiles (tuple_kinds.h) and in
// the counters from which initial weights are drawn, so the number of a parameter never changes.
enum class ParameterId : std::int64_t {};

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

// One matrix of a run.
struct MatrixId {
  ParameterId parameter{};
  ParameterState state = ParameterState::kValue;
  friend auto operator<=>(const MatrixId&, const MatrixId&) = default;
};

}  // namespace acan
