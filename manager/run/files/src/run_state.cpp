#include "acan/manager/run_state.h"

#include <cmath>

#include "acan/core/text/json_text.h"
#include "nlohmann/json.hpp"

namespace acan {

std::string TextOf(const RunState& state) {
  nlohmann::json fields = {{"version", state.version},
                           {"tasks_done", state.tasks_done},
                           {"seconds", state.seconds},
                           {"failures", state.failures}};
  if (!state.contributors.empty()) fields["contributors"] = state.contributors;
  if (state.audits_passed > 0) fields["audits_passed"] = state.audits_passed;
  if (state.audits_skipped > 0) fields["audits_skipped"] = state.audits_skipped;
  if (!state.begun) fields["begun"] = false;
  for (const ResultConflict& conflict : state.conflicts) {
    fields["conflicts"].push_back({{"key", conflict.key}, {"text", conflict.text}});
  }
  if (state.train_loss && std::isfinite(*state.train_loss))
    fields["train_loss"] = *state.train_loss;
  // The texts of conflicts contain words that handlers choose.
  return JsonTextReplacing(fields);
}

std::optional<RunState> ParseRunState(const std::string& text) {
  const nlohmann::json fields = ParseJsonOrDiscard(text);
  try {
    bool good = true;
    const auto count = [&](const char* name) -> std::int64_t {
      const nlohmann::json& value = fields.at(name);
      good = good && value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
      return good ? value.get<std::int64_t>() : 0;
    };
    RunState state;
    state.version = count("version");
    state.tasks_done = count("tasks_done");
    state.seconds = fields.at("seconds").get<double>();
    state.failures = count("failures");
    if (fields.contains("contributors")) {
      state.contributors = fields.at("contributors").get<std::vector<std::string>>();
    }
    if (fields.contains("audits_passed")) state.audits_passed = count("audits_passed");
    if (fields.contains("audits_skipped")) state.audits_skipped = count("audits_skipped");
    state.begun = fields.value("begun", true);
    if (fields.contains("conflicts")) {
      for (const nlohmann::json& one : fields.at("conflicts")) {
        state.conflicts.push_back(
            {one.at("key").get<std::string>(), one.at("text").get<std::string>()});
      }
    }
    if (fields.contains("train_loss")) state.train_loss = fields.at("train_loss").get<double>();
    if (!good) return std::nullopt;
    return state;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace acan
