// Converts JSON values to text and back. Only json_text.cpp compiles nlohmann/json's parser and
// writer, as every other source that called json::parse or dump would spend about two seconds on
// compiling them. Thread safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace acan {

// One line, or one line for each element if `indent` >= 0. Throws nlohmann::json::type_error if a
// string is not UTF-8.
std::string JsonText(const nlohmann::json& value, int indent = -1);
// As JsonText, but replaces bytes that are not UTF-8 with U+FFFD.
std::string JsonTextReplacing(const nlohmann::json& value, int indent = -1);

// Throws nlohmann::json::parse_error.
nlohmann::json ParseJson(std::string_view text);
// As ParseJson; of the entries with a repeated key the last one stays. `*repeated` becomes a key
// that an object in `text` has more than once, because other readers may use another of its
// entries.
nlohmann::json ParseJson(std::string_view text, std::optional<std::string>* repeated);
// Returns a value for which is_discarded() is true if `text` is not JSON.
nlohmann::json ParseJsonOrDiscard(std::string_view text);

}  // namespace acan
