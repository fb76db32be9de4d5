// Snapshots on disk: complete ones are found again, others are named and skipped.
#include "acan/manager/snapshot.h"
#include "acan/manager/replaced_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "snapshot_fixture.h"
#include "test_files.h"

namespace acan {
namespace {

// Long work calls a function regularly, in which the manager keeps its lead and which may end the
// work.
TEST_F(SnapshotTest, LookingThroughLargeFilesCanBeGoneOnWithOrEnded) {
  model_ = BuildModel(Perceptron{{2000, 300, 3}});
  Write(3);
  int calls = 0;
  EXPECT_TRUE(Newest({}, [&] { ++calls; }));
  EXPECT_GE(calls, 3);  // 2.4 MB of weights, and as much optimizer state
  struct Ended {};
  EXPECT_THROW(Newest({}, [] { throw Ended{}; }), Ended);
}

TEST_F(SnapshotTest, TheNewestIsFoundWithWhatItsRunKnew) {
  EXPECT_FALSE(Newest());  // no folder yet
  Write(3);
  Write(4);
  const auto found = Newest();
  ASSERT_TRUE(found) << said_;
  EXPECT_EQ(found->path, PathOf(4));
  EXPECT_EQ(found->state.version, 4);
  EXPECT_EQ(found->state.train_loss, 0.5);
  EXPECT_EQ(found->state.tasks_done, 28);
  EXPECT_EQ(found->state.failures, 2);
  EXPECT_EQ(found->state.audits_passed, 30);
  EXPECT_EQ(found->state.audits_skipped, 1);
  EXPECT_EQ(said_, "");
  const std::vector<TensorInfo>& tensors = found->file->Tensors();
  ASSERT_EQ(tensors.size(), 12u);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float> value(1);
    found->file->Read(i, 0, 0, 1, 1, value);
    EXPECT_EQ(value[0], 4.0f + static_cast<float>(tensors[i].matrix.state)) << tensors[i].name;
  }
}

// Nobody can continue from it, and what makes room on the disk must not keep it for the good one.
TEST_F(SnapshotTest, OneOfALaterStepThanTheLastOneIsSkipped) {
  Write(3);
  Write(8);
  const auto say = [this](const std::string& line) { said_ += line + "\n"; };
  const SnapshotFolder folder(folder_.Path("snapshots"), "training", model_, 2, /*steps=*/7);
  const auto found = folder.Newest(say, &others_);
  ASSERT_TRUE(found) << said_;
  EXPECT_EQ(found->state.version, 3);
  EXPECT_NE(said_.find("is of step 8, but the training has 7 steps; skipping"), std::string::npos)
      << said_;
  EXPECT_FALSE(others_);
  EXPECT_EQ(Newest()->state.version, 8) << "with more steps it can be used";
}

TEST_F(SnapshotTest, ConflictsAreKept) {
  conflicts_ = {{"(\"run\", 3)", "a second put by \"b\xff\" differs"}, {"(\"run\", 4)", "more"}};
  Write(3);
  const auto found = Newest();
  ASSERT_TRUE(found) << said_;
  ASSERT_EQ(found->state.conflicts.size(), 2u);
  EXPECT_EQ(found->state.conflicts[0].key, "(\"run\", 3)");
  EXPECT_EQ(found->state.conflicts[0].text, "a second put by \"b\ufffd\" differs");
  EXPECT_EQ(found->state.conflicts[1].text, "more");
}

TEST_F(SnapshotTest, AFlippedBitAnywhereIsNamedAndTheOneBeforeIsUsed) {
  Write(3);
  Write(4);
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(PathOf(4)));
  // In the header (names, metadata, the checksum itself) and in the values.
  for (std::streamoff at = 9; at < bytes; at += 61) {
    FlipBit(PathOf(4), at);
    const auto found = Newest();
    ASSERT_TRUE(found) << at << ": " << said_;
    EXPECT_EQ(found->path, PathOf(3)) << at;
    EXPECT_NE(said_.find(PathOf(4)), std::string::npos) << at << ": " << said_;
    FlipBit(PathOf(4), at);
  }
  EXPECT_EQ(Newest()->path, PathOf(4));
}

TEST_F(SnapshotTest, ATornFileIsPassedOver) {
  Write(3);
  Write(4);
  std::filesystem::resize_file(PathOf(4), std::filesystem::file_size(PathOf(4)) - 1);
  ASSERT_TRUE(Newest());
  EXPECT_EQ(Newest()->path, PathOf(3));
  std::filesystem::resize_file(PathOf(3), 5);
  EXPECT_FALSE(Newest());
  EXPECT_NE(said_.find("truncated"), std::string::npos) << said_;
}

TEST_F(SnapshotTest, AnotherTrainingsIsPassedOver) {
  Write(3, {}, "another");
  EXPECT_FALSE(Newest());
  EXPECT_NE(said_.find("of another training"), std::string::npos) << said_;
  EXPECT_TRUE(others_);
}

TEST_F(SnapshotTest, DamagedOnesAreNobodys) {
  Write(3, {}, "another");
  FlipBit(PathOf(3), 100);
  Write(4);
  std::filesystem::resize_file(PathOf(4), 5);
  EXPECT_FALSE(Newest());
  EXPECT_FALSE(others_) << said_;
}

TEST_F(SnapshotTest, IsNotVisibleIfAnotherManagerTookOverAtTheLastMoment) {
  const auto writer = Folder().Begin(StateAt(1));
  WriteTensors(*writer, 0);
  EXPECT_THROW(writer->Finish({}, [] { throw FailureError("taken over"); }), Error);
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
  writer->Finish();
  EXPECT_TRUE(std::filesystem::exists(PathOf(1)));
}

TEST_F(SnapshotTest, WhatAKilledWriterLeftIsNone) {
  std::error_code error;
  EXPECT_EQ(NewestSnapshot(folder_.path(), error), -1);
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  std::filesystem::create_directory(folder_.Path("snapshots"));
  folder_.Write("snapshots/" + NameOf(4) + ".1.0.tmp", "unfinished");
  EXPECT_EQ(NewestSnapshot(folder_.path(), error), -1);
  EXPECT_FALSE(error) << error.message();
  Write(3);
  EXPECT_EQ(NewestSnapshot(folder_.path(), error), 3);
}

// A damaged one needs no protection.
TEST_F(SnapshotTest, OfAnotherJobAreNamedToAManagerThatStandsBy) {
  EXPECT_EQ(OthersRunText(folder_.path(), "training"), "");
  Write(3, {}, "another");
  const std::string text = OthersRunText(folder_.path(), "training");
  EXPECT_NE(text.find(" has snapshots of another job"), std::string::npos) << text;
  EXPECT_EQ(OthersRunText(folder_.path(), "another"), "");
  std::filesystem::resize_file(PathOf(3), 100);
  EXPECT_EQ(OthersRunText(folder_.path(), "training"), "");
}

}  // namespace
}  // namespace acan
