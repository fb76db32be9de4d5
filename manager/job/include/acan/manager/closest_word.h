// Finds the word that a user may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace acan {

// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word` (ignoring case), or an empty string if none is close, that is, if
// more than a third of the letters, and more than one, would have to change.
std::string ClosestWord(std::string_view word, const std::vector<std::string>& candidates);

// ": did you mean 'epochs'?", or ": expected one of a, b, c" if no candidate is close.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace acan
