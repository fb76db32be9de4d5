// Snapshots on disk: complete ones are found again, others are named and skipped.
#include "acan/manager/snapshot.h"
#include "acan/manager/contributors.h"
#include "acan/manager/replaced_run.h"
#include "acan/manager/training_id.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "descriptor_limit.h"
#include "failing_status.h"
#include "test_files.h"

namespace acan {
namespace {

class SnapshotTest : public testing::Test {
 protected:
  SnapshotFolder Folder(const std::string& training_id = "training", int states = 2) {
    return {folder_.Path("snapshots"), training_id, model_, states};
  }
  void Write(std::int64_t version, const std::string& training_id = "training",
             const std::vector<std::string>& contributors = {}) {
    WriteState({version, 0.5, 7 * version, 1.5, 2, 2, contributors, 30, 1, conflicts_},
               training_id);
  }
  void WriteState(const RunState& state, const std::string& training_id = "training") {
    const SnapshotFolder folder = Folder(training_id);
    const auto writer = folder.Begin(state);
    const std::vector<TensorInfo> tensors = ModelTensors(*model_, 2);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::vector<float> values(
          static_cast<std::size_t>(tensors[i].rows * tensors[i].cols),
          static_cast<float>(state.version) + static_cast<float>(tensors[i].matrix.state));
      writer->Write(i, 0, 0, tensors[i].rows, tensors[i].cols, values);
    }
    writer->Finish();
  }
  static RunState StateAt(std::int64_t version) {
    RunState state;
    state.version = version;
    return state;
  }
  std::string PathOf(const std::string& version) const {
    return folder_.Path("snapshots/step-00000000000" + version + ".safetensors");
  }
  std::optional<SnapshotFolder::Found> Newest(const std::string& training_id = "training") {
    said_.clear();
    const auto say = [this](const std::string& line) { said_ += line + "\n"; };
    return Folder(training_id).Newest(say, &others_);
  }
  void FlipBit(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(at);
    file.put(byte);
  }

  TestFolder folder_;
  std::shared_ptr<const TrainedModel> model_ = BuildModel(Perceptron{{5, 7, 3}});
  std::vector<ResultConflict> conflicts_ = {};
  std::string said_;
  bool others_ = false;
};

// Long work calls a function regularly, in which the manager keeps its lead and which may end the
// work.
TEST_F(SnapshotTest, LookingThroughLargeFilesCanBeGoneOnWithOrEnded) {
  model_ = BuildModel(Perceptron{{2000, 300, 3}});
  Write(3);
  int calls = 0;
  const auto say = [](const std::string&) {};
  EXPECT_TRUE(Folder("training").Newest(say, &others_, [&] { ++calls; }));
  EXPECT_GE(calls, 3);  // 2.4 MB of weights, and as much optimizer state
  struct Ended {};
  EXPECT_THROW(Folder("training").Newest(say, &others_, [] { throw Ended{}; }), Ended);
}

TEST_F(SnapshotTest, TheNewestIsFoundWithWhatItsRunKnew) {
  EXPECT_FALSE(Newest());  // no folder yet
  Write(3);
  Write(4);
  const auto found = Newest();
  ASSERT_TRUE(found) << said_;
  EXPECT_EQ(found->path, PathOf("4"));
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
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(PathOf("4")));
  // In the header (names, metadata, the checksum itself) and in the values.
  for (std::streamoff at = 9; at < bytes; at += 61) {
    FlipBit(PathOf("4"), at);
    const auto found = Newest();
    ASSERT_TRUE(found) << at << ": " << said_;
    EXPECT_EQ(found->path, PathOf("3")) << at;
    EXPECT_NE(said_.find(PathOf("4")), std::string::npos) << at << ": " << said_;
    FlipBit(PathOf("4"), at);
  }
  EXPECT_EQ(Newest()->path, PathOf("4"));
}

TEST_F(SnapshotTest, ATornFileIsPassedOver) {
  Write(3);
  Write(4);
  std::filesystem::resize_file(PathOf("4"), std::filesystem::file_size(PathOf("4")) - 1);
  ASSERT_TRUE(Newest());
  EXPECT_EQ(Newest()->path, PathOf("3"));
  std::filesystem::resize_file(PathOf("3"), 5);
  EXPECT_FALSE(Newest());
  EXPECT_NE(said_.find("truncated"), std::string::npos) << said_;
}

TEST_F(SnapshotTest, AnotherTrainingsIsPassedOver) {
  Write(3, "another");
  EXPECT_FALSE(Newest());
  EXPECT_NE(said_.find("of another training"), std::string::npos) << said_;
  EXPECT_TRUE(others_);
}

TEST_F(SnapshotTest, DamagedOnesAreNobodys) {
  Write(3, "another");
  FlipBit(PathOf("3"), 100);
  Write(4);
  std::filesystem::resize_file(PathOf("4"), 5);
  EXPECT_FALSE(Newest());
  EXPECT_FALSE(others_) << said_;
}

TEST_F(SnapshotTest, OnlyTheNewestAreKept) {
  for (const std::int64_t version : {1, 2, 3}) Write(version);
  folder_.Write("snapshots/step-000000000004.safetensors.1.0.tmp", "of a killed writer");
  Folder().KeepNewest(2, 3);
  EXPECT_FALSE(std::filesystem::exists(PathOf("1")));
  EXPECT_TRUE(std::filesystem::exists(PathOf("2")));
  EXPECT_FALSE(std::filesystem::exists(PathOf("4") + ".1.0.tmp"));
  Folder().RemoveAll();
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("snapshots")));
}

// An earlier run's stay if the system cannot list or remove them when a new run begins.
TEST_F(SnapshotTest, OnesThatCannotBeRemovedDoNotTakeThePlaceOfTheRunsOwn) {
  for (const char* name : {"step-000000005000.safetensors", "step-000000005100.safetensors"}) {
    std::filesystem::create_directories(folder_.Path("snapshots") + "/" + name + "/not_empty");
  }
  Folder().RemoveAll();
  for (const std::int64_t version : {1, 2, 3}) {
    Write(version);
    Folder().KeepNewest(2, version);
    ASSERT_TRUE(std::filesystem::exists(PathOf(std::to_string(version))));
  }
  EXPECT_EQ(
      folder_.Names("snapshots"),
      (std::vector<std::string>{"step-000000000002.safetensors", "step-000000000003.safetensors",
                                "step-000000005000.safetensors", "step-000000005100.safetensors"}));
  EXPECT_TRUE(Folder().MakeRoom({})) << "of the second newest";
  EXPECT_FALSE(Folder().MakeRoom({})) << "the last one protects the run";
  EXPECT_EQ(Newest()->path, PathOf("3"));
}

TEST_F(SnapshotTest, RoomIsMadeOfAllButTheNewestThatIsWhole) {
  const auto make_room = [this] { return Folder().MakeRoom({}); };
  EXPECT_FALSE(make_room());
  for (const std::int64_t version : {1, 2, 3, 4}) Write(version);
  FlipBit(PathOf("4"), 100);
  EXPECT_TRUE(make_room());
  EXPECT_EQ(folder_.Names("snapshots"),
            (std::vector<std::string>{"step-000000000003.safetensors"}));
  EXPECT_FALSE(make_room()) << "it protects the run";
  Write(4);
  for (const char* version : {"3", "4"}) FlipBit(PathOf(version), 100);
  EXPECT_FALSE(make_room()) << "nobody knows which of them is of use";
}

TEST_F(SnapshotTest, IsNotVisibleIfAnotherManagerTookOverAtTheLastMoment) {
  const auto writer = Folder().Begin(StateAt(1));
  const std::vector<TensorInfo> tensors = ModelTensors(*model_, 2);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto values = static_cast<std::size_t>(tensors[i].rows * tensors[i].cols);
    writer->Write(i, 0, 0, tensors[i].rows, tensors[i].cols, std::vector<float>(values));
  }
  EXPECT_THROW(writer->Finish({}, [] { throw FailureError("taken over"); }), Error);
  EXPECT_FALSE(std::filesystem::exists(PathOf("1")));
  writer->Finish();
  EXPECT_TRUE(std::filesystem::exists(PathOf("1")));
}

// Each may be as large as a snapshot, and a run that is killed again and again leaves one each
// time.
TEST_F(SnapshotTest, RoomIsMadeOfWhatKilledWritersLeft) {
  Write(1);
  const std::string left = PathOf("2") + ".1234.0.tmp";
  folder_.Write("snapshots/" + std::filesystem::path(left).filename().string(), "a part");
  const auto writer = Folder().Begin(StateAt(3));
  EXPECT_TRUE(Folder().MakeRoom({}));
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(Folder().RemoveUnfinished());
  EXPECT_EQ(folder_.Names("snapshots").size(), 2u) << "one is whole, and one is being written";
}

TEST_F(SnapshotTest, NewerThanABeginningAreRemoved) {
  for (const std::int64_t version : {9, 10, 11}) Write(version);
  Folder().RemoveNewerThan(10);
  EXPECT_EQ(
      folder_.Names("snapshots"),
      (std::vector<std::string>{"step-000000000009.safetensors", "step-000000000010.safetensors"}));
}

TEST_F(SnapshotTest, ForEachContributorOneWithoutItIsKept) {
  Write(1);
  Write(2, "training", {"a"});
  Write(3, "training", {"a"});
  Write(4, "training", {"a", "b"});
  Write(5, "training", {"a", "b"});
  Folder().KeepNewest(2, 5);
  EXPECT_EQ(
      folder_.Names("snapshots"),
      (std::vector<std::string>{"step-000000000001.safetensors", "step-000000000003.safetensors",
                                "step-000000000004.safetensors", "step-000000000005.safetensors"}));
  EXPECT_EQ(Newest()->state.contributors, (std::vector<std::string>{"a", "b"}));
  Folder().RemoveOf({"b"});
  EXPECT_EQ(Newest()->path, PathOf("3"));
  Folder().RemoveOf({"a"});
  EXPECT_EQ(Newest()->path, PathOf("1"));
}

TEST_F(SnapshotTest, OneWithoutAnyClientOfAKeyThatHasTooManyToNameIsKept) {
  const std::vector<std::string> all = {Contributors::AllClientsOf("a/1"), "b/1"};
  Write(1, "training", {"b/1"});
  Write(2, "training", {"a/1", "b/1"});
  for (const std::int64_t version : {3, 4, 5}) Write(version, "training", all);
  Folder().KeepNewest(2, 5);
  EXPECT_EQ(
      folder_.Names("snapshots"),
      (std::vector<std::string>{"step-000000000001.safetensors", "step-000000000004.safetensors",
                                "step-000000000005.safetensors"}));
  Folder().RemoveOf({"b/2"});
  EXPECT_EQ(Newest()->path, PathOf("5"));
  Folder().RemoveOf({"a/77"});
  EXPECT_EQ(Newest()->path, PathOf("1"));
}

// Earlier releases named any number, and the next snapshot waits for this.
TEST_F(SnapshotTest, ManyContributorsAreComparedInAMoment) {
  constexpr int kMany = 30'000;
  std::vector<std::string> contributors;
  for (int i = 0; i < kMany; ++i) contributors.push_back("a/" + std::to_string(i));
  for (const std::int64_t version : {1, 2, 3, 4}) Write(version, "training", contributors);
  const auto begin = std::chrono::steady_clock::now();
  Folder().KeepNewest(2, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << "each name was compared with each";
  EXPECT_EQ(folder_.Names("snapshots").size(), 2u);
}

// Somebody may turn on audits later.
TEST_F(SnapshotTest, ContributorsWithoutAuditsAreNamedButCostNoSnapshots) {
  RunState state;
  state.audited = false;
  for (const char* handler : {"a", "b", "c", "d"}) {
    ++state.version;
    state.contributors.emplace_back(handler);
    WriteState(state);
    Folder().KeepNewest(2, state.version);
  }
  EXPECT_EQ(folder_.Names("snapshots").size(), 2u);
  Folder().RemoveOf({"d"});
  EXPECT_EQ(Newest()->state.version, 3);
}

TEST_F(SnapshotTest, OneWithUnnamedContributorsMayDependOnAnybody) {
  Write(1);
  RunState state;
  state.version = 2;
  state.unnamed_contributors = true;
  WriteState(state);
  Folder().RemoveOf({});
  EXPECT_EQ(Newest()->state.version, 2);
  Folder().RemoveOf({"a"});
  EXPECT_EQ(Newest()->state.version, 1);
}

// One flaky device is enough: it has a new id after each restart.
TEST_F(SnapshotTest, HandlersThatComeForWeeksDoNotFillTheDisk) {
  constexpr std::int64_t kLast = 60;
  std::vector<std::string> contributors;
  const auto names = [this] { return folder_.Names("snapshots"); };
  for (std::int64_t version = 1; version <= kLast; ++version) {
    Write(version, "training", contributors);
    contributors.push_back("handler" + std::to_string(version));
    Folder().KeepNewest(2, version);
    ASSERT_EQ(names().size(), std::min<std::size_t>(static_cast<std::size_t>(version), 10));
  }
  std::vector<std::int64_t> ages;
  for (const std::string& name : names()) {
    ages.insert(ages.begin(), kLast - std::stoll(name.substr(std::string("step-").size())));
  }
  EXPECT_EQ(ages.back(), kLast - 1) << "no handler had a part in the first one";
  for (std::size_t i = 2; i < ages.size(); ++i) EXPECT_LE(ages[i], 2 * ages[i - 1] + 1);

  // On a full disk they go, one by one.
  const std::vector<std::string> before = names();
  const std::string oldest = before.front(), newest = before.back();
  EXPECT_TRUE(Folder().MakeRoom({})) << "the second newest goes first";
  for (std::size_t left = 8; left > 1; --left) {
    EXPECT_TRUE(Folder().MakeRoom({}));
    ASSERT_EQ(names().size(), left);
    EXPECT_EQ(names().front(), oldest);
    EXPECT_EQ(names().back(), newest);
  }
  EXPECT_TRUE(Folder().MakeRoom({}));
  EXPECT_EQ(names(), std::vector<std::string>{newest});
  EXPECT_FALSE(Folder().MakeRoom({}));
}

// Its clients had confirmed each other. What counts is only the key: another client of it lied.
TEST_F(SnapshotTest, ThoseThatOnlyOneKeyHasConfirmedAreRemoved) {
  Write(1, "training", {"evil/1"});
  Write(2, "training", {"evil/", "lab/"});
  Write(3, "training", {"evil/", "lab/"});
  Folder().RemoveOf({"evil/7"});
  EXPECT_EQ(Newest()->path, PathOf("3")) << "as in a cluster with one key and one faulty device";
  Folder().RemoveUnconfirmedOf({{"a/", 2}, {"evil/", 1}});
  EXPECT_EQ(Newest()->path, PathOf("3"));
  Folder().RemoveUnconfirmedOf({{"evil/", 2}});
  EXPECT_EQ(Newest()->path, PathOf("1"));
}

TEST_F(SnapshotTest, OneBeforeAKeyConfirmedItselfIsKept) {
  for (const std::int64_t version : {1, 2, 3}) Write(version);
  for (const std::int64_t version : {4, 5, 6}) Write(version, "training", {"evil/"});
  Folder().KeepNewest(2, 6);
  Folder().RemoveUnconfirmedOf({{"evil/", 2}});
  EXPECT_EQ(Newest()->path, PathOf("3"));
}

TEST_F(SnapshotTest, ThoseOfAWholeKeyAreRemoved) {
  Write(1, "training", {"a/1"});
  Write(2, "training", {"a/1", "evil/7"});
  Folder().RemoveOf({"evil/"});
  EXPECT_EQ(Newest()->path, PathOf("1"));
}

// It says nothing about the file that the process has no descriptor for it. What begins without a
// snapshot removes it, and with a wrong handler's snapshot a run would have its weights.
TEST_F(SnapshotTest, OneThatCannotBeReadIsNotTakenForADamagedOne) {
  Write(3, "training", {"a/1"});
  Write(4, "training", {"a/1", "evil/7"});
  {
    const DescriptorLimit none;
    ExpectError([&] { Newest(); }, {"snapshots", "Too many open files"}, Error::Kind::kFailure);
    ExpectError([&] { Folder().RemoveOf({"evil/7"}); }, {"Too many open files"},
                Error::Kind::kFailure);
    Folder().KeepNewest(1, 4);
    EXPECT_FALSE(Folder().MakeRoom({}));
  }
  // The folder can be read, and the file cannot.
  std::filesystem::rename(PathOf("4"), folder_.Path("kept"));
  std::filesystem::create_symlink(PathOf("4"), PathOf("4"));
  ExpectError([&] { Newest(); }, {PathOf("4"), "may be intact"});
  ExpectError([&] { Folder().RemoveOf({"evil/7"}); }, {PathOf("4")});
  Folder().KeepNewest(1, 4);
  EXPECT_FALSE(Folder().MakeRoom({}));
  std::filesystem::rename(folder_.Path("kept"), PathOf("4"));
  EXPECT_EQ(Newest()->path, PathOf("4"));
  Folder().RemoveOf({"evil/7"});
  EXPECT_EQ(Newest()->path, PathOf("3"));
}

// A server that does not answer says nothing about the file.
TEST_F(SnapshotTest, OneWhoseStatusIsUnknownIsNotTakenForADamagedOne) {
  model_ = BuildModel(Perceptron{{2000, 300, 3}});
  Write(3);
  Write(4);
  struct NoFilters {};
  bool fails = false;
  const auto say = [](const std::string&) {};
  const auto go_on = [&fails] {
    if (!std::exchange(fails, true) && !MakeStatusFail()) throw NoFilters{};
  };
  std::thread([&] {
    try {
      ExpectError([&] { Folder().Newest(say, &others_, go_on); },
                  {PathOf("4"), "Connection timed out", "may be intact"}, Error::Kind::kFailure);
    } catch (const NoFilters&) {
      fails = false;
    }
  }).join();
  if (!fails) GTEST_SKIP() << "the system has no filters of system calls (seccomp)";
  EXPECT_EQ(Newest()->path, PathOf("4"));
}

// It may be intact now, or when the other process has written it to its end.
TEST_F(SnapshotTest, OneThatChangesWhileItIsReadIsNotTakenForADamagedOne) {
  model_ = BuildModel(Perceptron{{2000, 300, 3}});
  Write(3);
  Write(4);
  const auto say = [](const std::string&) {};
  const auto change = [this] {
    const auto written = std::filesystem::last_write_time(PathOf("4"));
    std::filesystem::last_write_time(PathOf("4"), written + std::chrono::seconds(1));
  };
  ExpectError([&] { Folder().Newest(say, &others_, change); },
              {PathOf("4"), "was changed while it was in use", "may be intact"},
              Error::Kind::kFailure);
  EXPECT_EQ(Newest()->path, PathOf("4"));
  const auto cut = [this] { std::filesystem::resize_file(PathOf("4"), 100); };
  ExpectError([&] { Folder().Newest(say, &others_, cut); },
              {PathOf("4"), "was truncated", "may be intact"}, Error::Kind::kFailure);
}

// Some file systems refuse to remove a file, at least for a while.
TEST_F(SnapshotTest, BarredOnesAreNotUsedEvenIfTheyAreThere) {
  Write(1, "training", {"a"});
  Write(2, "training", {"a", "evil/7"});
  Write(3, "training", {"a", "evil/7"});
  const auto newest = [this](const BarredSnapshots& barred) {
    said_.clear();
    const auto say = [this](const std::string& line) { said_ += line + "\n"; };
    const auto found = Folder().Newest(say, &others_, {}, barred);
    return found ? found->state.version : 0;
  };
  EXPECT_EQ(newest({}), 3);
  EXPECT_EQ(newest({.wrong = {}, .newest = 2}), 2);
  EXPECT_NE(said_.find(PathOf("3") + " is newer than the last good version, 2"), std::string::npos)
      << said_;
  EXPECT_EQ(newest({.wrong = {"evil/"}, .newest = {}}), 1);
  EXPECT_NE(said_.find(PathOf("2") + " may depend on results of a quarantined handler"),
            std::string::npos)
      << said_;
  EXPECT_EQ(newest({.wrong = {"a"}, .newest = {}}), 0);
  EXPECT_FALSE(others_) << said_;
  EXPECT_EQ(folder_.Names("snapshots").size(), 3u);
}

// So a standby manager, too, or one whose file system removes nothing, goes back before the lie.
TEST_F(SnapshotTest, OnesThatOnlyOneKeyHasConfirmedCanBeBarred) {
  Write(1, "training", {"a"});
  Write(2, "training", {"a", "evil/"});
  const auto newest = [this](const DoubtfulKeys& in_doubt) {
    said_.clear();
    const auto say = [this](const std::string& line) { said_ += line + "\n"; };
    return Folder().Newest(say, &others_, {}, {.in_doubt = in_doubt})->state.version;
  };
  EXPECT_EQ(newest({{"lab/", 9}}), 2);
  EXPECT_EQ(newest({{"evil/", 1}}), 2) << "it is of a later life, which knew of the lie";
  EXPECT_EQ(newest({{"evil/", 2}}), 1);
  EXPECT_NE(said_.find(PathOf("2") + " has results that only"), std::string::npos) << said_;
  EXPECT_EQ(folder_.Names("snapshots").size(), 2u);
}

TEST_F(SnapshotTest, WhatAKilledWriterLeftIsNone) {
  std::error_code error;
  EXPECT_EQ(NewestSnapshot(folder_.path(), error), -1);
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  std::filesystem::create_directory(folder_.Path("snapshots"));
  folder_.Write("snapshots/step-000000000004.safetensors.1.0.tmp", "unfinished");
  EXPECT_EQ(NewestSnapshot(folder_.path(), error), -1);
  EXPECT_FALSE(error) << error.message();
  Write(3);
  EXPECT_EQ(NewestSnapshot(folder_.path(), error), 3);
}

// A damaged one needs no protection.
TEST_F(SnapshotTest, OfAnotherJobAreNamedToAManagerThatStandsBy) {
  EXPECT_EQ(OthersRunText(folder_.path(), "training"), "");
  Write(3, "another");
  const std::string text = OthersRunText(folder_.path(), "training");
  EXPECT_NE(text.find(" has snapshots of another job"), std::string::npos) << text;
  EXPECT_EQ(OthersRunText(folder_.path(), "another"), "");
  std::filesystem::resize_file(PathOf("3"), 100);
  EXPECT_EQ(OthersRunText(folder_.path(), "training"), "");
}

TEST(TrainingIdTest, KnowsWhatDecidesTheBitsAndNothingElse) {
  const std::string job =
      "[model]\nlayers = [4, 2]\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\n"
      "samples = 100\n";
  const auto id = [&](const std::string& more) {
    return TrainingId(ParseJob(job + more, "test", ".", {}), "a", "b");
  };
  EXPECT_EQ(id(""), id("[tasks]\nsize_bytes = 20000\n"));
  EXPECT_EQ(id(""), id("[snapshots]\nevery_steps = 7\n"));
  EXPECT_EQ(id(""), id("[train]\nstop_if_not_finite = false\n"));
  // The id must never change, so that snapshots of earlier versions of acan remain usable.
  EXPECT_EQ(id(""), "b6a17f48035145b9");
  EXPECT_NE(id(""), id("[train]\nseed = 2\n"));
  EXPECT_NE(id(""), id("[train]\nepochs = 2\n"));
  EXPECT_NE(TrainingId(ParseJob(job, "test", ".", {}), "a", "c"), id(""));
}

TEST(TrainingIdTest, TheFirstDifferenceIsNamed) {
  const auto job = [&](const std::string& layers, const std::string& more) {
    return ParseJob("[model]\nlayers = " + layers +
                        "\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\nsamples = 100\n" +
                        more,
                    "test", ".", {});
  };
  const Job expected = job("[4, 2]", "");
  EXPECT_EQ(FirstDifference(job("[4, 2]", "[tasks]\naudit = 1\n"), expected), "");
  EXPECT_EQ(FirstDifference(job("[4, 2]", "[train]\nseed = 8\n"), expected),
            "train.seed is 8, must be 1");
  EXPECT_EQ(FirstDifference(job("[4, 3, 2]", ""), expected), "model.layers.1 is 3, must be 2");
  EXPECT_EQ(FirstDifference(job("[4, 2]", "[train]\nsteps = 8\n"), expected),
            "train.epochs is absent, must be 5");
}

}  // namespace
}  // namespace acan
