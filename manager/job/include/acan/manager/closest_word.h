// The word a user may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace acan {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word` (letter case ignored), or an empty string if none is close: more
// than a third of the letters, and more than one, would have to change.
std::string ClosestWord(std::string_view word, const std::vector<std::string>& candidates);

// ": did you mean 'epochs'?", or ": expected one of a, b, c" if nothing is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace acan
