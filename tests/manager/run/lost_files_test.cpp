// Lives in vain: the disk does not keep the run's files.
#include "lost_files.h"

#include <gtest/gtest.h>

#include <string>

#include "test_files.h"

namespace acan {
namespace {

const FilesLost kFilesLost{{"metrics.jsonl: cannot sync"}};

TEST(LostFilesTest, TheRunEndsAfterManyLivesWithoutANewStep) {
  LostFiles files;
  files.OnLost(kFilesLost, 52);
  for (int life = 1; life < LostFiles::kMostLives; ++life) files.OnLost(kFilesLost, 50 + life % 3);
  ExpectError([&] { files.OnLost(kFilesLost, 52); },
              {kFilesLost.why, std::to_string(LostFiles::kMostLives) + " lives", "--resume"},
              Error::Kind::kFailure);
}

TEST(LostFilesTest, ANewStepLetsTheRunGoOn) {
  LostFiles files;
  for (int step = 0; step < 3 * LostFiles::kMostLives; ++step) files.OnLost(kFilesLost, step);
  for (int life = 1; life < LostFiles::kMostLives; ++life) files.OnLost(kFilesLost, 0);
  files.OnLost(kFilesLost, 3 * LostFiles::kMostLives);
  for (int life = 1; life < LostFiles::kMostLives; ++life) files.OnLost(kFilesLost, 0);
}

}  // namespace
}  // namespace acan
