#include "watermarks.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <string>
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

void Watermarks::Raise(const ClientState& client, const Pattern& pattern) {
  const bool is_limited = client.limits.watermarks_of_key != UINT64_MAX;
  const std::string owner = is_limited ? client.principal : std::string();
  Watermark* mark = watermarks_.Find(pattern, SameButMark);
  if (mark != nullptr) {
    SetMark(&mark->pattern, std::max(MarkOf(mark->pattern), MarkOf(pattern)));
    Unlist(mark);
    if (!is_limited) mark->owner.clear();
  } else {
    // Each run leaves a watermark behind, so the oldest must go eventually.
    while (!by_age_.empty() && watermarks_.size() >= state_.limits.watermarks) {
      Drop(by_age_.begin()->second);
    }
    // Those of one key may all have to be compared with each key that is put.
    std::map<std::uint64_t, Watermark*>& own = of_keys_[owner];
    while (is_limited && !own.empty() && own.size() >= client.limits.watermarks_of_key) {
      Drop(own.begin()->second);
    }
    mark = watermarks_.Add(std::make_unique<Watermark>(Watermark{pattern, 0, owner}));
  }
  mark->raised_at = state_.next_sequence++;
  by_age_.emplace(mark->raised_at, mark);
  of_keys_[mark->owner].emplace(mark->raised_at, mark);
}

void Watermarks::Unlist(const Watermark* mark) {
  by_age_.erase(mark->raised_at);
  of_keys_[mark->owner].erase(mark->raised_at);
}

void Watermarks::Drop(Watermark* mark) {
  Unlist(mark);
  watermarks_.Remove(mark);
}

}  // namespace tuplespace::internal
