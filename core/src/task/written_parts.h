// WrittenParts: which parts of a task's buffer have been written so far, to find buffers of which a
// task may read elements that nobody wrote.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/core/task.h"

namespace acan {

// The parts of one buffer. Errs on the side of "not written".
class WrittenParts {
 public:
  void Write(const View& part, const BufferSpec& buffer);
  // Whether every element of `part` has been written. The first answer of false is final. Takes
  // O(n log n) for n parts once, otherwise a constant number of steps.
  bool Has(const View& part, const BufferSpec& buffer);

 private:
  enum class Known : std::uint8_t { kNothing, kWhole, kGaps };

  bool Tile(const BufferSpec& buffer);  // whether the parts, which do not overlap, are all of it

  std::vector<View> parts_;  // no two equal ones follow each other
  Known known_ = Known::kNothing;
};

}  // namespace acan
