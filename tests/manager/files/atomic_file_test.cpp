// Files that appear complete or not at all, and leftovers of killed writers.
#include "acan/manager/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "test_files.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

class AtomicFileTest : public testing::Test {
 protected:
  std::vector<std::string> Names() const { return folder_.Names(""); }

  TestFolder folder_;
  std::string path_ = folder_.Path("receipt.json");
};

// In a container each process of a program may have the same pid.
TEST_F(AtomicFileTest, NamesThatAnEarlierLifeHasTakenArePassedOver) {
  int number = 0;
  {
    const AtomicFile first(path_);
    ASSERT_EQ(Names().size(), 1u);
    const std::string before = "receipt.json." + std::to_string(::getpid()) + ".";
    ASSERT_TRUE(Names()[0].starts_with(before)) << Names()[0];
    number = std::stoi(Names()[0].substr(before.size()));
  }
  for (int taken = number + 1; taken <= number + 3; ++taken) {
    folder_.Write(
        "receipt.json." + std::to_string(::getpid()) + "." + std::to_string(taken) + ".tmp",
        "of an earlier life");
  }
  WriteFileAtomically(path_, "new");
  EXPECT_EQ(ReadWhole(path_), "new");
  EXPECT_EQ(Names().size(), 4u);
  RemoveUnfinished(path_);
  EXPECT_THAT(Names(), ElementsAre("receipt.json"));
}

TEST_F(AtomicFileTest, OnlyUnfinishedFilesOfTheNameAreRemoved) {
  const std::vector<std::string> others = {"receipt.json",         "receipt.json.tmp",
                                           "receipt.json.7.tmp",   "receipt.json.7.8.9.tmp",
                                           "receipt.json.a.8.tmp", "receipt.json.7..tmp",
                                           "receipt.json..8.tmp",  "receipt.json.7.8.tmp.old",
                                           "receipt.json7.8.tmp",  "my.receipt.json.7.8.tmp",
                                           "metrics.jsonl.7.8.tmp"};
  for (const std::string& name : others) folder_.Write(name, "kept");
  folder_.Write("receipt.json.7.8.tmp", "unfinished");
  folder_.Write("receipt.json.1234567.0.tmp", "unfinished");
  RemoveUnfinished(path_);
  EXPECT_THAT(Names(), UnorderedElementsAreArray(others));
}

TEST_F(AtomicFileTest, WhatIsBeingWrittenStays) {
  AtomicFile file(path_);
  file.WriteAt(0, "whole", 5);
  RemoveUnfinished(path_);
  file.Commit();
  EXPECT_EQ(ReadWhole(path_), "whole");
  EXPECT_THAT(Names(), ElementsAre("receipt.json"));
}

TEST_F(AtomicFileTest, AFolderThatIsNotThereHasNothingToRemove) {
  RemoveUnfinished(folder_.Path("none/receipt.json"));
  EXPECT_EQ(folder_.FileCount(), 0u);
}

}  // namespace
}  // namespace acan
