// A shared object that makes the thread that loads it flush denormal numbers to zero, as those do
// that gcc 12 links with -ffast-math. Preloaded, it does so in the program's first thread.
#include "float_mode.h"

namespace {

[[gnu::constructor]] void Flush() {
  acan::test::SetFloatMode(acan::test::FloatMode() | acan::test::kFlushing);
}

}  // namespace
