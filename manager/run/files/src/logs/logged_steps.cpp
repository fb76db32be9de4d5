#include "acan/manager/logged_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "acan/core/text/json_text.h"
#include "acan/core/tuple_kinds.h"
#include "acan/model/parameter.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

struct LoggedTile {
  std::int64_t version = 0;
  std::string_view cell;  // the parameter and the ranges, as text
  double elements = 0;
};

// Takes the number with which the text begins away from it.
bool TakeNumber(std::string_view* text, std::int64_t* number) {
  const char* const begin = text->data();
  const auto end = std::from_chars(begin, begin + text->size(), *number);
  if (end.ec != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(end.ptr - begin));
  return true;
}

// The tile of a key of which `rest` is all after the run, as in a record; nullopt: of other tuples.
std::optional<LoggedTile> TileIn(std::string_view rest) {
  constexpr std::string_view kBetween = ", ";
  static const std::string kKind = fmt::format(R"(, \"{}\", )", WordOf(StepTuple::kTile));
  LoggedTile tile;
  if (!TakeNumber(&rest, &tile.version) || !rest.starts_with(kKind)) return std::nullopt;
  rest.remove_prefix(kKind.size());
  tile.cell = rest.substr(0, rest.find(')'));
  std::array<std::int64_t, 5> numbers = {};
  for (std::int64_t& number : numbers) {
    if (!TakeNumber(&rest, &number) || number < 0) return std::nullopt;
    if (rest.starts_with(kBetween)) rest.remove_prefix(kBetween.size());
  }
  const auto [parameter, row, row_end, column, column_end] = numbers;
  tile.elements = static_cast<double>(row_end - row) * static_cast<double>(column_end - column);
  return tile;
}

}  // namespace

std::int64_t TileElements(const TrainedModel& model) {
  std::int64_t elements = 0;
  for (const model::Parameter& parameter : model.training.parameters()) {
    if (!parameter.frozen) elements += parameter.elements();
  }
  return elements;
}

// A log may have millions of results, so only few records are parsed. Within a text of a record no
// quotation mark is without a backslash, so nothing that a handler says looks like these fields.
void LoggedSteps::On(std::string_view record) {
  if (record.find(R"("what":"begin")") != std::string_view::npos) return OnBegin(record);
  if (life_.empty()) return;
  if (record.find(R"("what":"done")") != std::string_view::npos) {
    is_done_ = true;
    life_.clear();
    return;
  }
  const std::size_t at = record.find(life_);
  if (at != std::string_view::npos) OnResult(record.substr(at + life_.size()));
}

void LoggedSteps::OnBegin(std::string_view record) {
  life_.clear();  // only one life writes to a log at a time
  const nlohmann::json begin = ParseJsonOrDiscard(record);
  if (!begin.is_object()) return;
  // By reference: a copy takes a stack frame for each level, and anybody can write such a record.
  const auto job = begin.find("job");
  if (job == begin.end() || *job != job_id_) return;
  const auto run = begin.find("run");
  if (run != begin.end() && run->is_string()) {
    life_ = fmt::format(R"("key":"(\"{}\", )", run->get_ref<const std::string&>());
  }
  const auto version = begin.find("version");
  if (version == begin.end() || !version->is_number_unsigned()) return;
  const auto steps = version->get<std::int64_t>();
  if (steps >= 0) BeginAfter(steps);
}

void LoggedSteps::BeginAfter(std::int64_t steps) {
  std::erase_if(gaps_, [steps](const Range& gap) { return gap.begin >= steps; });
  if (!gaps_.empty()) gaps_.back().end = std::min(gaps_.back().end, steps);
  steps_of_done_run_ = std::min(is_done_ ? logged_ : steps_of_done_run_, steps);
  is_done_ = false;
  if (steps > logged_) gaps_.push_back({logged_, steps});
  logged_ = steps;
  incomplete_.clear();
}

void LoggedSteps::OnResult(std::string_view rest_of_key) {
  const std::optional<LoggedTile> tile = TileIn(rest_of_key);
  if (!tile || tile->version <= logged_) return;
  Version& version = incomplete_[tile->version];
  // A result that was lost is computed again.
  if (!version.tiles.emplace(tile->cell).second) return;
  version.elements += tile->elements;
  if (version.elements < tile_elements_) return;
  logged_ = tile->version;
  incomplete_.erase(incomplete_.begin(), incomplete_.upper_bound(logged_));
}

}  // namespace acan
