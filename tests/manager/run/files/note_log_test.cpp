#include "acan/manager/note_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "descriptor_limit.h"
#include "test_files.h"

namespace acan {
namespace {

TEST(NoteLogTest, KeepsWhatWasAddedForItsOwnTraining) {
  const TestFolder folder;
  const std::string path = folder.path() + "/conflicts.jsonl";
  const NoteLog log(path, "job", "key");
  EXPECT_TRUE(log.Read().empty());
  log.Add({"(\"run\", 1)", "first"});
  NoteLog(path, "another job", "key").Add({"(\"run\", 1)", "of another"});
  std::ofstream(path, std::ios::app) << "{\"job\":\"job\",\"key\":\"cut sho";
  log.Add({"(\"run\", 2)", "second"});
  const std::vector<Note> conflicts = log.Read();
  ASSERT_EQ(conflicts.size(), 2u);
  EXPECT_EQ(conflicts[0].about, "(\"run\", 1)");
  EXPECT_EQ(conflicts[0].text, "first");
  EXPECT_EQ(conflicts[1].text, "second");
  log.Remove();
  EXPECT_TRUE(log.Read().empty());
}

// The text contains ids of clients, which may have any bytes.
TEST(NoteLogTest, WhatIsNoUtf8IsReplaced) {
  const TestFolder folder;
  const NoteLog log(folder.path() + "/conflicts.jsonl", "job", "key");
  log.Add({"(\"run\", 1)", "of evil/\xff"});
  ASSERT_EQ(log.Read().size(), 1u);
  EXPECT_EQ(log.Read()[0].text, "of evil/\xEF\xBF\xBD");
}

TEST(NoteLogTest, ALinkOutOfTheFolderIsNotFollowed) {
  const TestFolder folder;
  const std::string other = folder.Write("other", "of somebody else");
  std::filesystem::create_symlink(other, folder.Path("conflicts.jsonl"));
  ExpectError(
      [&] {
        NoteLog(folder.Path("conflicts.jsonl"), "job", "key").Add({"k", "t"});
      },
      {"conflicts.jsonl: is a symbolic link"}, Error::Kind::kFailure);
  EXPECT_EQ(ReadWhole(other), "of somebody else");
}

// Opening a pipe waits for a writer, and /dev/zero has no end.
TEST(NoteLogTest, PipesAndDevicesAreNotRead) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo(folder.Path("conflicts.jsonl").c_str(), 0600), 0);
  EXPECT_TRUE(NoteLog(folder.Path("conflicts.jsonl"), "job", "key").Read().empty());
  std::filesystem::create_symlink("/dev/zero", folder.Path("quarantine.jsonl"));
  EXPECT_TRUE(NoteLog(folder.Path("quarantine.jsonl"), "job", "handler").Read().empty());
}

// A handler whose quarantine is not read would be trusted again.
TEST(NoteLogTest, AFileThatCannotBeReadIsNotTakenForAnEmptyOne) {
  const TestFolder folder;
  const NoteLog log(folder.Path("quarantine.jsonl"), "job", "handler");
  log.Add({"evil/7", "wrong"});
  {
    const DescriptorLimit none;
    ExpectError([&] { log.Read(); }, {"quarantine.jsonl", "Too many open files"},
                Error::Kind::kFailure);
  }
  EXPECT_EQ(log.Read().size(), 1u);
}

// Such a file needs no room on a disk, but would fill the memory.
TEST(NoteLogTest, ALineWithoutEndIsRefusedBeforeItsEnd) {
  const TestFolder folder;
  const NoteLog log(folder.Write("quarantine.jsonl", ""), "job", "handler");
  log.Add({"evil/7", "wrong"});
  std::filesystem::resize_file(folder.Path("quarantine.jsonl"), std::uintmax_t{1} << 32);
  ExpectError([&] { log.Read(); }, {"quarantine.jsonl: has a line longer than any note"},
              Error::Kind::kFailure);
}

TEST(NoteLogTest, ANoteThatCouldNotBeReadAgainIsNotWritten) {
  const TestFolder folder;
  const NoteLog log(folder.Path("conflicts.jsonl"), "job", "key");
  ExpectError(
      [&] {
        log.Add({"k", std::string(1 << 20, 'x')});
      },
      {"the limit is 1048576"}, Error::Kind::kFailure);
  EXPECT_TRUE(log.Read().empty());
}

TEST(NoteLogTest, WhatCannotBeWrittenIsSaid) {
  const TestFolder folder;
  ExpectError(
      [&] {
        NoteLog(folder.path() + "/no/conflicts.jsonl", "job", "key").Add({"k", "t"});
      },
      {"no/conflicts.jsonl"}, Error::Kind::kFailure);
}

}  // namespace
}  // namespace acan
