#include "acan/manager/tuple_names.h"

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "acan/core/names.h"
#include "acan/core/optimizers.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Key;

namespace {

constexpr std::array kStateWhat = {"state0", "state1", "state2", "state3"};
static_assert(MostStates() <= static_cast<int>(kStateWhat.size()));

const char* TileWhat(int state) {
  return state < 0 ? "tile" : kStateWhat[static_cast<std::size_t>(state)];
}

}  // namespace

Key TileKey(const std::string& job, std::int64_t version, int tensor, int state,
            const Range& outputs, const Range& inputs) {
  return Key{job,           version,     TileWhat(state), std::int64_t{tensor},
             outputs.begin, outputs.end, inputs.begin,    inputs.end};
}

tuplespace::Pattern TilesOfTensor(const std::string& job, FieldPattern version, int tensor,
                                  int state) {
  return {{FieldPattern::Exact(job), std::move(version), FieldPattern::Exact(TileWhat(state)),
           FieldPattern::Exact(std::int64_t{tensor})},
          true};
}

std::vector<tuplespace::Pattern> StepWithoutTiles(const std::string& job, std::int64_t step) {
  std::vector<tuplespace::Pattern> patterns;
  for (const char* what : {"act", "pre", "delta", "part.", "loss", "target"}) {
    patterns.push_back(
        {{FieldPattern::Exact(job), FieldPattern::Exact(step), FieldPattern::Prefix(what)}, true});
  }
  return patterns;
}

std::optional<std::pair<std::int64_t, TileCell>> TileOfKey(const Key& key) {
  const std::vector<tuplespace::Field> fields = key.Fields();
  if (fields.size() != 8) return std::nullopt;
  const auto* what = std::get_if<std::string>(&fields[2]);
  std::int64_t numbers[6] = {};
  for (std::size_t i = 0; i < 6; ++i) {
    const auto* number = std::get_if<std::int64_t>(&fields[i == 0 ? 1 : i + 2]);
    if (number == nullptr) return std::nullopt;
    numbers[i] = *number;
  }
  if (what == nullptr) return std::nullopt;
  for (int state = -1; state < MostStates(); ++state) {
    if (*what != TileWhat(state)) continue;
    return std::pair{numbers[0],
                     TileCell{key, static_cast<int>(numbers[1]), state,
                              Range{numbers[2], numbers[3]}, Range{numbers[4], numbers[5]}}};
  }
  return std::nullopt;
}

Key Names::Features(const char* what, int boundary, const Range& rows,
                    const Range& features) const {
  return Key{job_,       step_,    what,           batch_id_,   std::int64_t{boundary},
             rows.begin, rows.end, features.begin, features.end};
}

Key Names::Rows(const char* what, const Range& rows) const {
  return Key{job_, step_, what, batch_id_, rows.begin, rows.end};
}

Key Names::Box(const char* what, int layer, const Range& rows, const Range& outputs,
               const Range& inputs) const {
  return Key{job_,     step_,         what,        batch_id_,    std::int64_t{layer}, rows.begin,
             rows.end, outputs.begin, outputs.end, inputs.begin, inputs.end};
}

Key Names::Task(const char* kind, Precision precision, int layer, const Range& rows,
                const Range& outputs, const Range& inputs) const {
  return Key{job_,
             step_,
             "task",
             PrecisionName(precision),
             kind,
             batch_id_,
             std::int64_t{layer},
             rows.begin,
             rows.end,
             outputs.begin,
             outputs.end,
             inputs.begin,
             inputs.end};
}

}  // namespace acan
