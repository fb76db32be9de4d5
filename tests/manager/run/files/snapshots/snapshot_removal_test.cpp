// Which snapshots are removed when others are newer, or when the disk is full.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "snapshot_fixture.h"

namespace acan {
namespace {

class SnapshotRemovalTest : public SnapshotTest {};

TEST_F(SnapshotRemovalTest, OnlyTheNewestAreKept) {
  for (const std::int64_t version : {1, 2, 3}) Write(version);
  folder_.Write("snapshots/" + NameOf(4) + ".1.0.tmp", "of a killed writer");
  Folder().KeepNewest(2, 3);
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
  EXPECT_TRUE(std::filesystem::exists(PathOf(2)));
  EXPECT_FALSE(std::filesystem::exists(PathOf(4) + ".1.0.tmp"));
  Folder().RemoveAll();
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("snapshots")));
}

// An earlier run's stay if the system cannot list or remove them when a new run begins.
TEST_F(SnapshotRemovalTest, OnesThatCannotBeRemovedDoNotTakeThePlaceOfTheRunsOwn) {
  for (const std::int64_t version : {5000, 5100}) {
    std::filesystem::create_directories(PathOf(version) + "/not_empty");
  }
  Folder().RemoveAll();
  for (const std::int64_t version : {1, 2, 3}) {
    Write(version);
    Folder().KeepNewest(2, version);
    ASSERT_TRUE(std::filesystem::exists(PathOf(version)));
  }
  EXPECT_EQ(Names(), NamesOf({2, 3, 5000, 5100}));
  EXPECT_TRUE(Folder().MakeRoom({})) << "of the second newest";
  EXPECT_FALSE(Folder().MakeRoom({})) << "the last one protects the run";
  EXPECT_EQ(Newest()->path, PathOf(3));
}

TEST_F(SnapshotRemovalTest, RoomIsMadeOfAllButTheNewestThatIsWhole) {
  const auto make_room = [this] { return Folder().MakeRoom({}); };
  EXPECT_FALSE(make_room());
  for (const std::int64_t version : {1, 2, 3, 4}) Write(version);
  FlipBit(PathOf(4), 100);
  EXPECT_TRUE(make_room());
  EXPECT_EQ(Names(), NamesOf({3}));
  EXPECT_FALSE(make_room()) << "it protects the run";
  Write(4);
  for (const std::int64_t version : {3, 4}) FlipBit(PathOf(version), 100);
  EXPECT_FALSE(make_room()) << "nobody knows which of them is of use";
}

// Each may be as large as a snapshot, and a run that is killed again and again leaves one each
// time.
TEST_F(SnapshotRemovalTest, RoomIsMadeOfWhatKilledWritersLeft) {
  Write(1);
  const std::string left = folder_.Write("snapshots/" + NameOf(2) + ".1234.0.tmp", "a part");
  const auto writer = Folder().Begin(StateAt(3));
  EXPECT_TRUE(Folder().MakeRoom({}));
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(Folder().RemoveUnfinished());
  EXPECT_EQ(Names().size(), 2u) << "one is whole, and one is being written";
}

TEST_F(SnapshotRemovalTest, NewerThanABeginningAreRemoved) {
  for (const std::int64_t version : {9, 10, 11}) Write(version);
  Folder().RemoveNewerThan(10);
  EXPECT_EQ(Names(), NamesOf({9, 10}));
}

}  // namespace
}  // namespace acan
