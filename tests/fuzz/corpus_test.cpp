// Runs every fuzz target on its seeds and on the corpus in the tree, which also keeps every input
// that once revealed a defect (regression-*).
//
//   fuzz_corpus_test --write-seeds DIR     writes the seeds to DIR/<target>/seed-<name>
//   fuzz_corpus_test --run TARGET FILE...  runs inputs through one target and prints each outcome
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "target.h"

namespace acan::fuzz {
namespace {

namespace fs = std::filesystem;

std::string ReadWhole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

class FuzzTarget : public testing::TestWithParam<Target> {};

TEST_P(FuzzTarget, TakesItsSeeds) {
  const std::vector<Seed> seeds = GetParam().seeds();
  ASSERT_FALSE(seeds.empty());
  for (const Seed& seed : seeds) {
    SCOPED_TRACE(seed.name);
    EXPECT_TRUE(GetParam().run(seed.bytes))
        << "the decoder refuses a seed that is meant to be valid";
  }
}

TEST_P(FuzzTarget, RefusesWhatIsHostile) {
  for (const Seed& input : GetParam().hostile()) {
    SCOPED_TRACE(input.name);
    EXPECT_FALSE(GetParam().run(input.bytes));
  }
}

TEST_P(FuzzTarget, HoldsForPartsAndFlippedBytesOfItsSeeds) {
  for (const Seed& seed : GetParam().seeds()) {
    SCOPED_TRACE(seed.name);
    const std::size_t stride = 1 + seed.bytes.size() / 16;
    for (std::size_t at = 0; at < seed.bytes.size(); at += stride) {
      SCOPED_TRACE(at);
      GetParam().run(std::string_view(seed.bytes).substr(0, at));
      std::string flipped = seed.bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x81);
      GetParam().run(flipped);
    }
  }
}

TEST_P(FuzzTarget, HoldsForItsCorpus) {
  const fs::path folder = fs::path(FUZZ_CORPUS) / GetParam().name;
  ASSERT_TRUE(fs::is_directory(folder)) << folder << " is missing; --write-seeds makes it";
  int inputs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    GetParam().run(ReadWhole(entry.path()));
    ++inputs;
  }
  EXPECT_GT(inputs, 0) << folder << " is empty";
}

std::string NameOf(const testing::TestParamInfo<Target>& test) {
  return test.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, FuzzTarget, testing::ValuesIn(Targets()), NameOf);

// Nothing would run the inputs of a folder that has no target.
TEST(FuzzCorpus, HasFoldersOfTargetsOnly) {
  std::set<std::string> names;
  for (const Target& target : Targets()) names.insert(target.name);
  for (const fs::directory_entry& entry : fs::directory_iterator(FUZZ_CORPUS)) {
    EXPECT_TRUE(names.contains(entry.path().filename().string())) << entry.path();
  }
}

void WriteSeeds(const fs::path& root) {
  for (const Target& target : Targets()) {
    fs::create_directories(root / target.name);
    for (const Seed& seed : target.seeds()) {
      std::ofstream(root / target.name / ("seed-" + seed.name), std::ios::binary) << seed.bytes;
    }
  }
}

int RunFiles(const std::string& name, const std::vector<std::string>& files) {
  const auto target = std::find_if(Targets().begin(), Targets().end(),
                                   [&](const Target& one) { return one.name == name; });
  if (target == Targets().end()) {
    fmt::print(stderr, "there is no target {}\n", name);
    return 2;
  }
  for (const std::string& file : files) {
    fmt::print("{}: {}\n", file, target->run(ReadWhole(file)) ? "taken" : "refused");
  }
  return 0;
}

}  // namespace
}  // namespace acan::fuzz

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  if (given.size() == 2 && given[0] == "--write-seeds") {
    acan::fuzz::WriteSeeds(given[1]);
    return 0;
  }
  if (given.size() >= 3 && given[0] == "--run") {
    return acan::fuzz::RunFiles(given[1], {given.begin() + 2, given.end()});
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
