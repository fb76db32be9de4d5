// Trains the models of graph files under many cuts (tried_model.h). Run it by hand:
//
//   python3 tests/end_to_end/random_jobs/random_jobs.py --graphs graphs --seed 1 --count 100
//   build/ci/bin/lowering_try_cuts graphs/*.json
#include <fstream>
#include <iterator>

#include "acan/core/error.h"
#include "tried_model.h"

namespace acan {
namespace {

std::vector<std::string> files;

TEST(TryCuts, EveryCutOfEveryFileTrainsTheSameBits) {
  ASSERT_FALSE(files.empty()) << "name graph files";
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    try {
      std::ifstream stream(file, std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(stream), {});
      TriedModel(file, text).TryAll();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace
}  // namespace acan

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  acan::files.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
