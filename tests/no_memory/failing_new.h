// Makes operator new fail, for tests of what must not allocate.
#pragma once

namespace acan::testing {

// While one exists, operator new throws bad_alloc on this thread.
class FailingNew {
 public:
  FailingNew();
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;
};

}  // namespace acan::testing
