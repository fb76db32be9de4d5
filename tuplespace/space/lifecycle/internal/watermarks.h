// Watermarks: which keys are retired for good, so that a late put of one changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "space_pattern_index.h"
#include "space_state.h"

namespace tuplespace::internal {

class Watermarks {
 public:
  explicit Watermarks(SpaceState& state) : state_(state) {}

  bool IsRetired(const Key& key) const;
  // REQUIRES: exactly one field of the pattern is bounded.
  void Raise(const ClientState& client, const Pattern& pattern);

 private:
  void Unlist(const Watermark* mark);  // it has no age any more
  void Drop(Watermark* mark);

  SpaceState& state_;
  PatternIndex<Watermark> watermarks_{state_.key_hash};
  std::map<std::uint64_t, Watermark*> by_age_;  // by raised_at
  // The same by owner; an owner that once had some keeps its entry.
  std::map<std::string, std::map<std::uint64_t, Watermark*>> of_keys_;
};

}  // namespace tuplespace::internal
