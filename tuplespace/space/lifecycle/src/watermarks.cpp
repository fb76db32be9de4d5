#include "watermarks.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tuplespace::internal {

namespace {

using Op = FieldPattern::Op;

std::int64_t MarkOf(const Pattern& pattern) {
  for (const FieldPattern& field : pattern.fields) {
    if (field.op == Op::kAtMost) return std::get<std::int64_t>(field.value);
  }
  assert(false);
  return INT64_MIN;
}

void SetMark(Pattern* pattern, std::int64_t mark) {
  for (FieldPattern& field : pattern->fields) {
    if (field.op == Op::kAtMost) field.value = mark;
  }
}

// Whether the patterns are equal except for the mark.
bool SameButMark(const Pattern& a, const Pattern& b) {
  Pattern raised = a;
  SetMark(&raised, MarkOf(b));
  return SamePattern(raised, b);
}

}  // namespace

bool Watermarks::IsRetired(const Key& key) const {
  bool retired = false;
  watermarks_.ForEachMatch(key.bytes(), [&](const Watermark*) {
    retired = true;
    return false;
  });
  return retired;
}

void Watermarks::Raise(const Pattern& pattern) {
  Watermark* mark = watermarks_.Find(pattern, SameButMark);
  if (mark != nullptr) {
    SetMark(&mark->pattern, std::max(MarkOf(mark->pattern), MarkOf(pattern)));
    by_age_.erase(mark->raised_at);
  } else {
    // Each run leaves a watermark behind, so the oldest must go eventually.
    while (!by_age_.empty() && watermarks_.size() >= state_.limits.watermarks) {
      const auto oldest = by_age_.begin();
      watermarks_.Remove(oldest->second);
      by_age_.erase(oldest);
    }
    mark = watermarks_.Add(std::make_unique<Watermark>(Watermark{pattern, 0}));
  }
  mark->raised_at = state_.next_sequence++;
  by_age_.emplace(mark->raised_at, mark);
}

}  // namespace tuplespace::internal
