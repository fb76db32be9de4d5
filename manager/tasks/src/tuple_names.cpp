#include "acan/manager/tuple_names.h"

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "acan/core/names.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Key;

namespace {

StepTuple KindOf(ParameterState state) {
  switch (state) {
    case ParameterState::kFirstMoment:
      return StepTuple::kFirstMoment;
    case ParameterState::kSecondMoment:
      return StepTuple::kSecondMoment;
    case ParameterState::kValue:
      break;
  }
  return StepTuple::kTile;
}

// The prefixes of the kinds of tuples that a step leaves besides tasks, audits and tiles.
const std::array<const char*, 5> kWithoutTiles = {
    WordOf(StepTuple::kActivation), kPartPrefix,
    WordOf(StepTuple::kLoss),       WordOf(StepTuple::kGradientNorm),
    WordOf(StepTuple::kClipFactor),
};

std::int64_t NumberOf(ParameterId parameter) {
  return static_cast<std::int64_t>(parameter);
}

}  // namespace

Key TileKey(const std::string& job, std::int64_t version, MatrixId matrix, const Range& outputs,
            const Range& inputs) {
  return Key{job,
             version,
             WordOf(KindOf(matrix.state)),
             NumberOf(matrix.parameter),
             outputs.begin,
             outputs.end,
             inputs.begin,
             inputs.end};
}

Key FrozenTileKey(const std::string& job, ParameterId parameter, const Range& outputs,
                  const Range& inputs) {
  return Key{job,
             kFrozenVersion,
             WordOf(StepTuple::kFrozen),
             NumberOf(parameter),
             outputs.begin,
             outputs.end,
             inputs.begin,
             inputs.end};
}

tuplespace::Pattern FrozenTilesOf(const std::string& job, ParameterId parameter) {
  return {
      {FieldPattern::Exact(job), FieldPattern::Exact(kFrozenVersion),
       FieldPattern::Exact(WordOf(StepTuple::kFrozen)), FieldPattern::Exact(NumberOf(parameter))},
      true};
}

tuplespace::Pattern TilesOf(const std::string& job, FieldPattern version, MatrixId matrix) {
  return {{FieldPattern::Exact(job), std::move(version),
           FieldPattern::Exact(WordOf(KindOf(matrix.state))),
           FieldPattern::Exact(NumberOf(matrix.parameter))},
          true};
}

tuplespace::Pattern TasksOf(const std::string& job, FieldPattern step) {
  return {
      {FieldPattern::Exact(job), std::move(step), FieldPattern::Exact(WordOf(StepTuple::kTask))},
      true};
}

std::vector<tuplespace::Pattern> StepWithoutTiles(const std::string& job, std::int64_t step) {
  std::vector<tuplespace::Pattern> patterns;
  for (const char* prefix : kWithoutTiles) {
    patterns.push_back(
        {{FieldPattern::Exact(job), FieldPattern::Exact(step), FieldPattern::Prefix(prefix)},
         true});
  }
  return patterns;
}

std::vector<tuplespace::Pattern> TilesOfVersion(const std::string& job, std::int64_t version) {
  std::vector<tuplespace::Pattern> patterns;
  for (const ParameterState state : StatesOf(kMaxOptimizerStates)) {
    patterns.push_back({{FieldPattern::Exact(job), FieldPattern::Exact(version),
                         FieldPattern::Exact(WordOf(KindOf(state)))},
                        true});
  }
  return patterns;
}

std::vector<tuplespace::Pattern> AllAfter(const std::string& job, std::int64_t step) {
  std::vector<const char*> prefixes = {WordOf(StepTuple::kTask), WordOf(StepTuple::kAudit)};
  prefixes.insert(prefixes.end(), kWithoutTiles.begin(), kWithoutTiles.end());
  for (const ParameterState state : StatesOf(kMaxOptimizerStates)) {
    prefixes.push_back(WordOf(KindOf(state)));
  }
  std::vector<tuplespace::Pattern> patterns;
  for (const char* prefix : prefixes) {
    patterns.push_back(
        {{FieldPattern::Exact(job), FieldPattern::AtLeast(step + 1), FieldPattern::Prefix(prefix)},
         true});
  }
  return patterns;
}

std::optional<std::pair<std::int64_t, TileCell>> TileOfKey(const Key& key) {
  const std::vector<tuplespace::Field> fields = key.Fields();
  if (fields.size() != 8) return std::nullopt;
  const auto* kind = std::get_if<std::string>(&fields[2]);
  std::int64_t numbers[6] = {};
  for (std::size_t i = 0; i < 6; ++i) {
    const auto* number = std::get_if<std::int64_t>(&fields[i == 0 ? 1 : i + 2]);
    if (number == nullptr) return std::nullopt;
    numbers[i] = *number;
  }
  if (kind == nullptr) return std::nullopt;
  const auto [version, parameter, o_begin, o_end, i_begin, i_end] = numbers;
  if (*kind == WordOf(StepTuple::kFrozen)) {
    return std::pair{version, TileCell{key,
                                       {ParameterId{parameter}, ParameterState::kValue},
                                       Range{o_begin, o_end},
                                       Range{i_begin, i_end},
                                       true}};
  }
  for (const ParameterState state : StatesOf(kMaxOptimizerStates)) {
    if (*kind != WordOf(KindOf(state))) continue;
    return std::pair{
        version,
        TileCell{
            key, {ParameterId{parameter}, state}, Range{o_begin, o_end}, Range{i_begin, i_end}}};
  }
  return std::nullopt;
}

Key PassKeys::Features(StepTuple kind, int value, const Range& rows, const Range& features) const {
  return Key{job_,       step_,    WordOf(kind),   batch_id_,   std::int64_t{value},
             rows.begin, rows.end, features.begin, features.end};
}

Key PassKeys::Rows(StepTuple kind, const Range& rows) const {
  return Key{job_, step_, WordOf(kind), batch_id_, rows.begin, rows.end};
}

Key PassKeys::Batch(StepTuple kind) const {
  return Key{job_, step_, WordOf(kind), batch_id_};
}

Key PassKeys::Box(StepTuple kind, int of, const Range& rows, const Range& outputs,
                  const Range& inputs) const {
  return Key{job_,     step_,         WordOf(kind), batch_id_,    std::int64_t{of}, rows.begin,
             rows.end, outputs.begin, outputs.end,  inputs.begin, inputs.end};
}

Key PassKeys::Task(TaskName name, Precision precision, int of, const Range& rows,
                   const Range& outputs, const Range& inputs) const {
  return Key{job_,
             step_,
             WordOf(StepTuple::kTask),
             PrecisionName(precision),
             WordOf(name),
             batch_id_,
             std::int64_t{of},
             rows.begin,
             rows.end,
             outputs.begin,
             outputs.end,
             inputs.begin,
             inputs.end};
}

}  // namespace acan
