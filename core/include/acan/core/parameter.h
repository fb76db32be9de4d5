// Parameters: the matrices of a model that training changes, and the matrices that a run keeps for
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

// What a run keeps for a parameter: its value and the optimizer's state, which has the same shape.
// Momentum has one matrix of state (its buffer), AdamW two (the means of the gradients and of their
// squares).
enum class ParameterState : std::uint8_t { kValue, kFirstMoment, kSecondMoment };

inline constexpr int kMaxOptimizerStates = 2;

// The value and `optimizer_states` state matrices, in order.
// REQUIRES: 0 <= optimizer_states <= kMaxOptimizerStates.
std::span<const ParameterState> StatesOf(int optimizer_states);

// The suffix of a parameter's name in files: "" for the value, ".state0" for the first state.
std::string StateSuffix(ParameterState state);

// One matrix of a run.
struct MatrixId {
  ParameterId parameter{};
  ParameterState state = ParameterState::kValue;
  friend auto operator<=>(const MatrixId&, const MatrixId&) = default;
};

}  // namespace acan
