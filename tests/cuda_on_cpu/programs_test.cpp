// Random programs find nothing in the backend, and find each bug that is planted in it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

constexpr int kFound = 0, kNotFound = 1;  // exit codes of the process that looks for a bug

// `*at` is the seed that runs, in memory that the parent sees.
int LookFor(const PlantedName& name, volatile std::uint64_t* at) {
  Plant(name.bug);
  for (std::uint64_t seed = 1; seed <= kMaxSeedsToFind; ++seed) {
    *at = seed;
    const std::string wrong = RunProgram(seed);
    if (wrong.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
    std::fflush(stdout);
    return kFound;
  }
  return kNotFound;
}

// Whether a bug may have ended the process in this way. Others, such as SIGKILL for lack of memory,
// show nothing.
bool IsFinding(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status) == kFound;
  constexpr std::array kSignals = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE};
  return WIFSIGNALED(status) && std::ranges::find(kSignals, WTERMSIG(status)) != kSignals.end();
}

// In a separate process, since the bug may end it.
TEST_P(PlantedBugTest, FindIt) {
  void* const shared = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const at = static_cast<std::uint64_t*>(shared);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(LookFor(GetParam(), at));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const std::uint64_t seed = *at;
  ASSERT_TRUE(IsFinding(status)) << (WIFSIGNALED(status)
                                         ? "killed by signal " + std::to_string(WTERMSIG(status)) +
                                               " at seed " + std::to_string(seed)
                                         : "not found within " + std::to_string(kMaxSeedsToFind) +
                                               " seeds");
  EXPECT_EQ(RunProgram(seed), "") << "without the bug, so it is no finding of the bug: seed "
                                  << seed;
}

INSTANTIATE_TEST_SUITE_P(Planted, PlantedBugTest, testing::ValuesIn(kPlantedNames),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace cuda_on_cpu
