// The text of JSON values, and back. nlohmann/json's parser and writer are compiled in
// json_text.cpp alone: each other source that called json::parse or dump would spend about two
// seconds on them. Thread safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace acan {

// One line, or with `indent` >= 0 one line an element. Throws nlohmann::json::type_error if a
// string is not UTF-8.
std::string JsonText(const nlohmann::json& value, int indent = -1);
// The same with U+FFFD in place of bytes that are not UTF-8.
std::string JsonTextReplacing(const nlohmann::json& value, int indent = -1);

// Throws nlohmann::json::parse_error.
nlohmann::json ParseJson(std::string_view text);
// As ParseJson, of whose value one entry for each key is the last. `*repeated`: a key that an
// object in `text` has more than once, for which other readers may take another entry.
nlohmann::json ParseJson(std::string_view text, std::optional<std::string>* repeated);
// If `text` is not JSON, the value is_discarded().
nlohmann::json ParseJsonOrDiscard(std::string_view text);

}  // namespace acan
