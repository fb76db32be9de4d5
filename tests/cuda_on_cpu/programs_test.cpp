// Random programs find nothing in the backend, and find each bug that is planted in it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "programs/planted_names.h"
#include "programs/program.h"

namespace cuda_on_cpu {
namespace {

constexpr std::uint64_t kSeedsOfAPart = 150;
constexpr std::uint64_t kMaxSeedsToFind = 600;

class Programs : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Programs, FindNothing) {
  for (std::uint64_t i = 1; i <= kSeedsOfAPart; ++i) {
    const std::uint64_t seed = GetParam() * kSeedsOfAPart + i;
    ASSERT_EQ(RunProgram(seed), "") << "again: cuda_programs --seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Part, Programs, testing::Range<std::uint64_t>(0, 4));

class PlantedBugTest : public testing::TestWithParam<PlantedName> {};

// In a separate process, since the bug may end it.
TEST_P(PlantedBugTest, FindIt) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Plant(GetParam().bug);
    for (std::uint64_t seed = 1; seed <= kMaxSeedsToFind; ++seed) {
      const std::string wrong = RunProgram(seed);
      if (wrong.empty()) continue;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
      std::fflush(stdout);
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE((WIFEXITED(status) && WEXITSTATUS(status) == 0) || WIFSIGNALED(status))
      << "not found within " << kMaxSeedsToFind << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Planted, PlantedBugTest, testing::ValuesIn(kPlantedNames),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace cuda_on_cpu
