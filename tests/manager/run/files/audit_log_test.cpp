// The audit log: a file that reveals changes to it.
#include "acan/manager/audit_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/manager/descriptor.h"
#include "acan/manager/file_lock.h"
#include "failing_sync.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

using ::testing::HasSubstr;

class AuditLogTest : public ::testing::Test {
 protected:
  // Writes three records, as a run does.
  void WriteThree() {
    AuditLog log(path_);
    for (int i = 0; i < 3; ++i) log.Add({{"key", "(\"run\", 1)"}, {"value", i}});
  }
  std::string Text() const { return ReadWhole(path_); }
  void Write(const std::string& text) const { folder_.Write("audit.jsonl", text); }
  std::vector<std::string> MovedText() const {
    return {path_ + ": was moved or removed, or another file was put in its place", "rotated"};
  }

  TestFolder folder_;
  std::string path_ = folder_.Path("audit.jsonl");
};

TEST_F(AuditLogTest, IsAChainAndGoesOn) {
  WriteThree();
  std::string head;
  {
    AuditLog log(path_);
    log.Add({{"value", 3}});
    log.Sync();
    head = log.head();
  }
  const AuditLogCheck check = CheckAuditLog(path_);
  EXPECT_EQ(check.problem, std::nullopt);
  EXPECT_FALSE(check.torn);
  EXPECT_EQ(check.records, 4);
  EXPECT_EQ(check.head, head);
  EXPECT_THAT(Text(), HasSubstr("\"n\":3"));
}

// Another manager may be writing the log, so this only tests whether it is writable.
TEST_F(AuditLogTest, AskingWhetherItCanBeWrittenChangesNothing) {
  AuditLog::CheckWritable(path_);
  EXPECT_EQ(Text(), "");
  WriteThree();
  const std::string torn = Text() + "{\"chain\":";
  Write(torn);
  AuditLog::CheckWritable(path_);
  EXPECT_EQ(Text(), torn);
  const std::string nowhere = folder_.Path("none/audit.jsonl");
  ExpectError([&] { AuditLog::CheckWritable(nowhere); }, {nowhere, "cannot open"},
              Error::Kind::kFailure);
}

// Long work calls a function regularly, in which the manager keeps its lead and which may end the
// work.
TEST_F(AuditLogTest, OpeningALongOneCanBeGoneOnWithOrEnded) {
  {
    AuditLog log(path_);
    const std::string value(10'000, 'x');
    for (int i = 0; i < 300; ++i) log.Add({{"value", value}});
  }
  int calls = 0;
  const AuditLog again(path_, nullptr, [&](std::chrono::microseconds wait) {
    EXPECT_EQ(wait.count(), 0);
    ++calls;
  });
  EXPECT_EQ(calls, 2);  // once per MB or so, for 3 MB
  struct Ended {};
  EXPECT_THROW(AuditLog(path_, nullptr, [](auto) { throw Ended{}; }), Ended);
}

// Whoever can read the log can lock it.
TEST_F(AuditLogTest, IsNotHeldUpByAReaderThatLocksIt) {
  WriteThree();
  const Descriptor reader(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(TryLock(reader.get(), LockKind::kShared).locked, Locked::kYes);
  {
    AuditLog log(path_);
    log.Add({{"value", 3}});
    log.Sync();
    EXPECT_EQ(CheckAuditLog(path_).head, log.head());
  }
  EXPECT_EQ(CheckAuditLog(path_).records, 4);
}

TEST_F(AuditLogTest, HasALockThatOnlyItsWritersCanOpenAndRemovesIt) {
  const std::string lock = path_ + ".lock";
  for (const unsigned mode : {0644u, 0664u, 0666u}) {
    folder_.Write("audit.jsonl", "");
    std::filesystem::permissions(path_, std::filesystem::perms(mode));
    AuditLog log(path_);
    // Each bit that allows to write the log allows to open its lock.
    const unsigned writers = mode & 0222u;
    EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(lock).permissions()),
              writers | (writers << 1u));
  }
  EXPECT_FALSE(std::filesystem::exists(lock));
}

// Meanwhile the manager keeps its lead.
TEST_F(AuditLogTest, WaitsForItsLockByAFunction) {
  const std::string lock = path_ + ".lock";
  std::optional<Descriptor> other;
  const auto hold = [&] {
    other.emplace(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(TryLock(other->get()).locked, Locked::kYes);
  };
  int calls = 0;
  const auto go_on = [&](std::chrono::microseconds wait) {
    EXPECT_GT(wait.count(), 0);
    if (++calls % 3 == 0) other.reset();
  };
  hold();
  AuditLog log(path_, nullptr, go_on);
  EXPECT_EQ(calls, 3);
  hold();
  log.Add({{"value", 1}});
  log.Flush();
  EXPECT_EQ(calls, 3) << "a few records can wait";
  EXPECT_EQ(CheckAuditLog(path_).records, 0);
  log.Sync();
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(CheckAuditLog(path_).records, 1);
}

TEST_F(AuditLogTest, NeedsAFolderInWhichItsLockCanBeMade) {
  folder_.Write("audit.jsonl", "");
  std::filesystem::create_directory(path_ + ".lock");
  ExpectError([&] { AuditLog::CheckWritable(path_); }, {path_ + ".lock: cannot open"},
              Error::Kind::kFailure);
}

// A manager that was stopped for a while lost the lead and does not know it yet.
TEST_F(AuditLogTest, RecordsOfAManagerThatLostTheLeadDoNotBreakTheChain) {
  AuditLog before(path_);
  before.Add({{"value", 1}});
  before.Flush();
  before.Add({{"value", 2}});
  AuditLog after(path_);
  before.Flush();  // its last records may come when the log has been opened again
  after.Add({{"value", 3}});
  after.Sync();
  before.Add({{"value", 4}});
  EXPECT_NO_THROW(before.Flush()) << "it will soon hear that it has lost the lead";
  before.Add({{"value", 5}});
  ExpectError([&] { before.Flush(); }, {path_, "another process has added records"},
              Error::Kind::kFailure);
  EXPECT_THROW(before.Sync(), Error) << "it would be the last record of a receipt";
  after.Add({{"value", 6}});
  after.Sync();
  const AuditLogCheck check = CheckAuditLog(path_);
  EXPECT_EQ(check.problem, std::nullopt);
  EXPECT_EQ(check.records, 4);
  EXPECT_EQ(check.head, after.head());
  for (const char* there : {"1", "2", "3", "6"}) {
    EXPECT_THAT(Text(), HasSubstr("\"value\":" + std::string(there)));
  }
}

// A file server may accept records and lose them, as when a quota is full.
TEST_F(AuditLogTest, RecordsThatAreGoneAreNotTakenForThoseOfAnotherProcess) {
  AuditLog log(path_);
  log.Add({{"value", 1}});
  log.Flush();
  std::filesystem::resize_file(path_, Text().size() - 3);
  log.Add({{"value", 2}});
  EXPECT_NO_THROW(log.Flush()) << "another manager may have taken over";
  log.Add({{"value", 3}});
  ExpectError([&] { log.Flush(); }, {path_, "records of this run are gone", "quota"},
              Error::Kind::kFailure);
  ExpectError([&] { log.Sync(); }, {path_, "records of this run are gone"}, Error::Kind::kFailure);
}

// As logrotate does. Nobody would look for the records of the rest of the run in the old file.
TEST_F(AuditLogTest, RecordsDoNotGoToAFileThatWasRenamed) {
  const std::string rotated = path_ + ".1";
  AuditLog log(path_);
  log.Add({{"value", 1}});
  log.Flush();
  std::filesystem::rename(path_, rotated);
  Write("");
  ExpectError([&] { log.Sync(); }, MovedText(), Error::Kind::kFailure);
  log.Add({{"value", 2}});
  ExpectError([&] { log.Flush(); }, MovedText(), Error::Kind::kFailure);
  ExpectError([&] { log.Sync(); }, MovedText(), Error::Kind::kFailure);
  EXPECT_EQ(Text(), "");
  EXPECT_EQ(CheckAuditLog(rotated).records, 1);
  std::filesystem::remove(path_);
  log.Add({{"value", 3}});
  ExpectError([&] { log.Flush(); }, MovedText(), Error::Kind::kFailure);
}

// What was added meanwhile is not in it, even if it is back.
TEST_F(AuditLogTest, RecordsThatFoundNoFileAreMissed) {
  AuditLog log(path_);
  log.Add({{"value", 1}});
  log.Flush();
  std::filesystem::rename(path_, path_ + ".1");
  log.Add({{"value", 2}});
  ExpectError([&] { log.Flush(); }, MovedText(), Error::Kind::kFailure);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::filesystem::rename(path_ + ".1", path_);
  ExpectError([&] { log.Sync(); }, MovedText(), Error::Kind::kFailure);
  EXPECT_EQ(CheckAuditLog(path_).records, 1);
}

TEST_F(AuditLogTest, OneThatIsGoneLeavesNoLock) {
  {
    AuditLog log(path_);
    log.Add({{"value", 1}});
    log.Flush();
    log.Add({{"value", 2}});
    std::filesystem::rename(path_, path_ + ".1");
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".lock"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(CheckAuditLog(path_ + ".1").records, 1);
}

// It waited for its lock.
TEST_F(AuditLogTest, OneThatIsReplacedWhileItIsOpenedIsNotContinued) {
  WriteThree();
  std::optional<Descriptor> other;
  other.emplace(::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(TryLock(other->get()).locked, Locked::kYes);
  const auto replace = [&](std::chrono::microseconds) {
    if (!other) return;
    std::filesystem::rename(path_, path_ + ".1");
    Write("");
    other.reset();
  };
  ExpectError([&] { const AuditLog log(path_, nullptr, replace); },
              {path_ + ": was moved, replaced or removed while it was being opened"},
              Error::Kind::kFailure);
  EXPECT_EQ(Text(), "");
}

// What the new file has is not the beginning of what is in the old one.
TEST_F(AuditLogTest, TheFirstRecordsDoNotContinueAnotherFile) {
  WriteThree();
  AuditLog log(path_);
  std::filesystem::rename(path_, path_ + ".1");
  {
    AuditLog other(path_);
    other.Add({{"value", 7}});
  }
  log.Add({{"value", 3}});
  ExpectError([&] { log.Flush(); }, MovedText(), Error::Kind::kFailure);
  for (const auto& [path, records] : {std::pair(path_, 1), std::pair(path_ + ".1", 3)}) {
    const AuditLogCheck check = CheckAuditLog(path);
    EXPECT_EQ(check.problem, std::nullopt);
    EXPECT_EQ(check.records, records);
  }
}

// The system says only once that it did not write them to the disk.
TEST_F(AuditLogTest, RecordsThatDidNotReachTheDiskAreNotForgotten) {
  AuditLog log(path_);
  log.Add({{"value", 1}});
  log.Flush();
  const std::vector<std::string> text = {path_ + ": cannot sync", "Input/output error"};
  bool fails = false;
  std::thread([&] {
    fails = MakeSyncFail();
    if (fails) ExpectError([&] { log.SyncWritten(); }, text, Error::Kind::kFailure);
  }).join();
  if (!fails) GTEST_SKIP() << "the system has no filters of system calls (seccomp)";
  // In this thread, the file can be synced.
  ExpectError([&] { log.SyncWritten(); }, text, Error::Kind::kFailure);
  log.Add({{"value", 2}});
  ExpectError([&] { log.Flush(); }, text, Error::Kind::kFailure);
  ExpectError([&] { log.Sync(); }, text, Error::Kind::kFailure);
}

TEST_F(AuditLogTest, WhatWasDroppedIsNotWrittenAtTheEnd) {
  {
    AuditLog log(path_);
    log.Add({{"value", 1}});
    log.Flush();
    log.Add({{"value", 2}});
    log.DropUnwritten();
  }
  EXPECT_EQ(CheckAuditLog(path_).records, 1);
}

// A limit on the file's size stands for a full disk: a part of the lines is written.
TEST_F(AuditLogTest, LinesThatCouldOnlyBeWrittenInPartAreWrittenLater) {
  AuditLog log(path_);
  log.Add({{"value", 1}});
  log.Flush();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = Text().size() + 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  log.Add({{"value", 2}});
  EXPECT_THROW(log.Flush(), Error);
  const AuditLogCheck meanwhile = CheckAuditLog(path_);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(meanwhile.records, 1);
  EXPECT_FALSE(meanwhile.torn);
  log.Add({{"value", 3}});
  log.Sync();
  const AuditLogCheck check = CheckAuditLog(path_);
  EXPECT_EQ(check.problem, std::nullopt);
  EXPECT_EQ(check.records, 3);
  EXPECT_EQ(check.head, log.head());
}

TEST_F(AuditLogTest, EveryFlippedBitIsFound) {
  WriteThree();
  const std::string whole = Text();
  const std::string head = CheckAuditLog(path_).head;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    Write(changed);
    const AuditLogCheck check = CheckAuditLog(path_);
    EXPECT_TRUE(check.problem || check.torn || check.head != head) << i;
  }
}

TEST_F(AuditLogTest, TheFirstBrokenRecordIsNamed) {
  WriteThree();
  std::string text = Text();
  text.replace(text.find("\"value\":1"), 9, "\"value\":7");
  Write(text);
  const AuditLogCheck check = CheckAuditLog(path_);
  ASSERT_TRUE(check.problem);
  EXPECT_THAT(*check.problem, HasSubstr("line 2 does not follow"));
  EXPECT_EQ(check.records, 1);
  EXPECT_THROW(AuditLog{path_}, Error);
}

// Such a file needs no room on a disk, but would fill the memory.
TEST_F(AuditLogTest, ALineWithoutEndIsNotReadToItsEnd) {
  WriteThree();
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  std::filesystem::resize_file(path_, std::uintmax_t{1} << 32);
  const AuditLogCheck check = CheckAuditLog(path_);
  EXPECT_EQ(check.problem, "line 4 is longer than any record");
  EXPECT_FALSE(check.torn);
  EXPECT_EQ(check.records, 3);
  EXPECT_EQ(check.bytes, bytes);
}

TEST_F(AuditLogTest, ARemovedLineIsFound) {
  WriteThree();
  const std::string text = Text();
  Write(text.substr(0, text.find('\n') + 1) + text.substr(text.rfind('\n', text.size() - 2) + 1));
  EXPECT_THAT(CheckAuditLog(path_).problem.value_or(""), HasSubstr("line 2"));
}

TEST_F(AuditLogTest, ATornEndIsSaidAndCutOff) {
  WriteThree();
  const std::string text = Text();
  Write(text.substr(0, text.size() - 5));
  const AuditLogCheck check = CheckAuditLog(path_);
  EXPECT_TRUE(check.torn);
  EXPECT_EQ(check.records, 2);
  std::string said;
  {
    AuditLog log(path_, &said);
    log.Add({{"value", 9}});
  }
  EXPECT_THAT(said, HasSubstr("incomplete"));
  EXPECT_EQ(CheckAuditLog(path_).records, 3);
  EXPECT_EQ(CheckAuditLog(path_).problem, std::nullopt);
}

}  // namespace
}  // namespace acan
