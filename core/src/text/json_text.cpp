#include "acan/core/text/json_text.h"

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

json ParseJsonOrDiscard(std::string_view text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace acan
