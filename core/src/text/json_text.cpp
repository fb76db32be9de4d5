#include "acan/core/text/json_text.h"

#include <set>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace acan {

using nlohmann::json;

std::string JsonText(const json& value, int indent) {
  return value.dump(indent);
}

std::string JsonTextReplacing(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

json ParseJson(std::string_view text) {
  return json::parse(text);
}

json ParseJson(std::string_view text, std::optional<std::string>* repeated) {
  repeated->reset();
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto note = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      auto key = parsed.get<std::string>();
      if (!keys.back().insert(key).second) *repeated = std::move(key);
    }
    return true;
  };
  return json::parse(text, note);
}

json ParseJsonOrDiscard(std::string_view text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace acan
