// A child process that cannot be started.
#include "child.h"

#include "acan/core/error.h"
#include "free_descriptors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace acan::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Child, ThatGetsOnlyOneOfItsPipesLeavesNoDescriptors) {
  const int before = testing::NextDescriptor();
  {
    const testing::FreeDescriptors one_pipe(2);
    EXPECT_THAT([] { const Child child({"version"}); },
                ThrowsMessage<Error>(HasSubstr("cannot make a pipe to a child process")));
  }
  EXPECT_EQ(testing::NextDescriptor(), before);
}

}  // namespace
}  // namespace acan::cli
