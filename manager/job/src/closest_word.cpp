#include "acan/manager/closest_word.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace acan {
namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> before(columns), previous(columns), current(columns);
  for (std::size_t j = 0; j < columns; ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < columns; ++j) {
      const int replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous.back();
}

std::string ClosestWord(std::string_view word, const std::vector<std::string>& candidates) {
  // A longer word is not a misspelling, and the cost of the distance is quadratic.
  constexpr std::size_t kMaxWord = 64;
  if (word.size() > kMaxWord) return "";
  std::string best;
  int best_distance = std::max(1, static_cast<int>(word.size()) / 3);
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(LowerCase(word), LowerCase(candidate));
    if (distance < best_distance || (distance == best_distance && best.empty())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = ClosestWord(word, candidates);
  if (!near.empty()) return fmt::format(": did you mean '{}'?", near);
  return fmt::format(": expected one of {}", fmt::join(candidates, ", "));
}

}  // namespace acan
