#include "acan/manager/conflict_log.h"

#include <gtest/gtest.h>

#include <filesystem>
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

// The text contains ids of clients, which may have any bytes.
TEST(ConflictLogTest, WhatIsNoUtf8IsReplaced) {
  const TestFolder folder;
  const ConflictLog log(folder.path() + "/conflicts.jsonl", "job");
  log.Add({"(\"run\", 1)", "of evil/\xff"});
  ASSERT_EQ(log.Read().size(), 1u);
  EXPECT_EQ(log.Read()[0].text, "of evil/\xEF\xBF\xBD");
}

TEST(ConflictLogTest, ALinkOutOfTheFolderIsNotFollowed) {
  const TestFolder folder;
  const std::string other = folder.Write("other", "of somebody else");
  std::filesystem::create_symlink(other, folder.Path("conflicts.jsonl"));
  ExpectError(
      [&] {
        ConflictLog(folder.Path("conflicts.jsonl"), "job").Add({"k", "t"});
      },
      {"conflicts.jsonl: is a symbolic link"}, Error::Kind::kFailure);
  EXPECT_EQ(ReadWhole(other), "of somebody else");
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
