// Snapshots that the system cannot read are not taken for damaged ones.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "descriptor_limit.h"
#include "failing_status.h"
#include "snapshot_fixture.h"
#include "test_files.h"

namespace acan {
namespace {

class SnapshotUnreadableTest : public SnapshotTest {};

// It says nothing about the file that the process has no descriptor for it. What begins without a
// snapshot removes it, and with a wrong handler's snapshot a run would have its weights.
TEST_F(SnapshotUnreadableTest, OneThatCannotBeReadIsNotTakenForADamagedOne) {
  Write(3, {"a/1"});
  Write(4, {"a/1", "evil/7"});
  {
    const DescriptorLimit none;
    ExpectError([&] { Newest(); }, {"snapshots", "Too many open files"}, Error::Kind::kFailure);
    ExpectError([&] { Folder().RemoveOf({"evil/7"}); }, {"Too many open files"},
                Error::Kind::kFailure);
    Folder().KeepNewest(1, 4);
    EXPECT_FALSE(Folder().MakeRoom({}));
  }
  // The folder can be read, and the file cannot.
  std::filesystem::rename(PathOf(4), folder_.Path("kept"));
  std::filesystem::create_symlink(PathOf(4), PathOf(4));
  ExpectError([&] { Newest(); }, {PathOf(4), "may be intact"});
  ExpectError([&] { Folder().RemoveOf({"evil/7"}); }, {PathOf(4)});
  Folder().KeepNewest(1, 4);
  EXPECT_FALSE(Folder().MakeRoom({}));
  std::filesystem::rename(folder_.Path("kept"), PathOf(4));
  EXPECT_EQ(Newest()->path, PathOf(4));
  Folder().RemoveOf({"evil/7"});
  EXPECT_EQ(Newest()->path, PathOf(3));
}

// A server that does not answer says nothing about the file.
TEST_F(SnapshotUnreadableTest, OneWhoseStatusIsUnknownIsNotTakenForADamagedOne) {
  model_ = BuildModel(Perceptron{{2000, 300, 3}});
  Write(3);
  Write(4);
  struct NoFilters {};
  bool fails = false;
  const auto go_on = [&fails] {
    if (!std::exchange(fails, true) && !MakeStatusFail()) throw NoFilters{};
  };
  std::thread([&] {
    try {
      ExpectError([&] { Newest({}, go_on); }, {PathOf(4), "Connection timed out", "may be intact"},
                  Error::Kind::kFailure);
    } catch (const NoFilters&) {
      fails = false;
    }
  }).join();
  if (!fails) GTEST_SKIP() << "the system has no filters of system calls (seccomp)";
  EXPECT_EQ(Newest()->path, PathOf(4));
}

// It may be intact now, or when the other process has written it to its end.
TEST_F(SnapshotUnreadableTest, OneThatChangesWhileItIsReadIsNotTakenForADamagedOne) {
  model_ = BuildModel(Perceptron{{2000, 300, 3}});
  Write(3);
  Write(4);
  const auto change = [this] {
    const auto written = std::filesystem::last_write_time(PathOf(4));
    std::filesystem::last_write_time(PathOf(4), written + std::chrono::seconds(1));
  };
  ExpectError([&] { Newest({}, change); },
              {PathOf(4), "was changed while it was in use", "may be intact"},
              Error::Kind::kFailure);
  EXPECT_EQ(Newest()->path, PathOf(4));
  const auto cut = [this] { std::filesystem::resize_file(PathOf(4), 100); };
  ExpectError([&] { Newest({}, cut); }, {PathOf(4), "was truncated", "may be intact"},
              Error::Kind::kFailure);
}

}  // namespace
}  // namespace acan
