#include "acan/manager/conflict_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "test_files.h"

namespace acan {
namespace {

TEST(ConflictLogTest, KeepsWhatWasAddedForItsOwnTraining) {
  const TestFolder folder;
  const std::string path = folder.path() + "/conflicts.jsonl";
  const ConflictLog log(path, "job");
  EXPECT_TRUE(log.Read().empty());
  log.Add({"(\"run\", 1)", "first"});
  ConflictLog(path, "another job").Add({"(\"run\", 1)", "of another"});
  std::ofstream(path, std::ios::app) << "{\"job\":\"job\",\"key\":\"cut sho";
  log.Add({"(\"run\", 2)", "second"});
  const std::vector<ResultConflict> conflicts = log.Read();
  ASSERT_EQ(conflicts.size(), 2u);
  EXPECT_EQ(conflicts[0].key, "(\"run\", 1)");
  EXPECT_EQ(conflicts[0].text, "first");
  EXPECT_EQ(conflicts[1].text, "second");
  log.Remove();
  EXPECT_TRUE(log.Read().empty());
}

TEST(ConflictLogTest, WhatCannotBeWrittenIsSaid) {
  const TestFolder folder;
  ExpectError(
      [&] {
        ConflictLog(folder.path() + "/no/conflicts.jsonl", "job").Add({"k", "t"});
      },
      {"no/conflicts.jsonl"}, Error::Kind::kFailure);
}

}  // namespace
}  // namespace acan
