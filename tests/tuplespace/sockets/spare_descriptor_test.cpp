// A descriptor can be duplicated although the process may open no more files.
#include "spare_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace tuplespace {
namespace {

TEST(SpareDescriptor, BecomesADuplicateWithoutAnotherFile) {
  SpareDescriptor spare;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{static_cast<rlim_t>(spare.get()) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> all;
  for (int next = dup(ends[0]); next >= 0; next = dup(ends[0])) all.push_back(next);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(spare.Duplicate(ends[1]));
    EXPECT_EQ(write(spare.get(), "x", 1), 1);
    spare.Release();
  }
  EXPECT_FALSE(spare.Duplicate(-1));
  setrlimit(RLIMIT_NOFILE, &before);
  for (const int one : all) close(one);
  close(ends[1]);
  char text[4];
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 3);
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 0) << "a released duplicate keeps nothing open";
  close(ends[0]);
}

}  // namespace
}  // namespace tuplespace
