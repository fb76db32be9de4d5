#include "written_parts.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "views.h"

namespace acan {
namespace {

// Most tasks read a part soon after it was written.
constexpr std::size_t kRecentParts = 32;

bool Includes(const View& outer, const View& inner) {
  return outer.row <= inner.row && outer.col <= inner.col &&
         inner.row + inner.rows <= outer.row + outer.rows &&
         inner.col + inner.cols <= outer.col + outer.cols;
}

auto PlaceOf(const View& view) {
  return std::tuple(view.row, view.col, view.rows, view.cols);
}

}  // namespace

void WrittenParts::Write(const View& part, const BufferSpec& buffer) {
  if (known_ != Known::kNothing) return;
  if (part.rows == buffer.rows && part.cols == buffer.cols) {
    known_ = Known::kWhole;
  } else if (parts_.empty() || parts_.back() != part)
    parts_.push_back(part);
}

bool WrittenParts::Has(const View& part, const BufferSpec& buffer) {
  if (known_ != Known::kNothing) return known_ == Known::kWhole;
  const auto recent =
      parts_.end() - static_cast<std::ptrdiff_t>(std::min(parts_.size(), kRecentParts));
  if (std::any_of(recent, parts_.end(), [&](const View& each) { return Includes(each, part); })) {
    return true;
  }
  known_ = Tile(buffer) ? Known::kWhole : Known::kGaps;
  return known_ == Known::kWhole;
}

// Sweeps over the rows, with the parts that the present row crosses ordered by their columns.
bool WrittenParts::Tile(const BufferSpec& buffer) {
  std::ranges::sort(parts_, {}, PlaceOf);
  parts_.erase(std::unique(parts_.begin(), parts_.end()), parts_.end());
  std::int64_t area = 0;
  std::map<std::int32_t, const View*> open;        // by their first columns
  std::multimap<std::int32_t, std::int32_t> ends;  // rows, and first columns
  for (const View& part : parts_) {
    while (!ends.empty() && ends.begin()->first <= part.row) {
      open.erase(ends.begin()->second);
      ends.erase(ends.begin());
    }
    const auto next = open.lower_bound(part.col);
    if (next != open.end() && next->first < part.col + part.cols) return false;
    if (next != open.begin()) {
      const View& before = *std::prev(next)->second;
      if (before.col + before.cols > part.col) return false;
    }
    open.emplace(part.col, &part);
    ends.emplace(part.row + part.rows, part.col);
    area += std::int64_t{part.rows} * part.cols;
  }
  return area == std::int64_t{buffer.rows} * buffer.cols;
}

}  // namespace acan
