// Snapshots name the handlers that contributed to them: for each, one without it is kept, and
// those to which a wrong one contributed are removed or barred.
#include "acan/manager/contributors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "snapshot_fixture.h"

namespace acan {
namespace {

class SnapshotContributorsTest : public SnapshotTest {};

TEST_F(SnapshotContributorsTest, ForEachContributorOneWithoutItIsKept) {
  Write(1);
  Write(2, {"a"});
  Write(3, {"a"});
  Write(4, {"a", "b"});
  Write(5, {"a", "b"});
  Folder().KeepNewest(2, 5);
  EXPECT_EQ(Names(), NamesOf({1, 3, 4, 5}));
  EXPECT_EQ(Newest()->state.contributors, (std::vector<std::string>{"a", "b"}));
  Folder().RemoveOf({"b"});
  EXPECT_EQ(Newest()->path, PathOf(3));
  Folder().RemoveOf({"a"});
  EXPECT_EQ(Newest()->path, PathOf(1));
}

TEST_F(SnapshotContributorsTest, OneWithoutAnyClientOfAKeyThatHasTooManyToNameIsKept) {
  const std::vector<std::string> all = {Contributors::AllClientsOf("a/1"), "b/1"};
  Write(1, {"b/1"});
  Write(2, {"a/1", "b/1"});
  for (const std::int64_t version : {3, 4, 5}) Write(version, all);
  Folder().KeepNewest(2, 5);
  EXPECT_EQ(Names(), NamesOf({1, 4, 5}));
  Folder().RemoveOf({"b/2"});
  EXPECT_EQ(Newest()->path, PathOf(5));
  Folder().RemoveOf({"a/77"});
  EXPECT_EQ(Newest()->path, PathOf(1));
}

// Earlier releases named any number, and the next snapshot waits for this.
TEST_F(SnapshotContributorsTest, ManyContributorsAreComparedInAMoment) {
  constexpr int kMany = 30'000;
  std::vector<std::string> contributors;
  for (int i = 0; i < kMany; ++i) contributors.push_back("a/" + std::to_string(i));
  for (const std::int64_t version : {1, 2, 3, 4}) Write(version, contributors);
  const auto begin = std::chrono::steady_clock::now();
  Folder().KeepNewest(2, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << "each name was compared with each";
  EXPECT_EQ(Names().size(), 2u);
}

// Somebody may turn on audits later.
TEST_F(SnapshotContributorsTest, ContributorsWithoutAuditsAreNamedButCostNoSnapshots) {
  RunState state;
  state.audited = false;
  for (const char* handler : {"a", "b", "c", "d"}) {
    ++state.version;
    state.contributors.emplace_back(handler);
    WriteState(state);
    Folder().KeepNewest(2, state.version);
  }
  EXPECT_EQ(Names().size(), 2u);
  Folder().RemoveOf({"d"});
  EXPECT_EQ(Newest()->state.version, 3);
}

TEST_F(SnapshotContributorsTest, OneWithUnnamedContributorsMayDependOnAnybody) {
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
TEST_F(SnapshotContributorsTest, HandlersThatComeForWeeksDoNotFillTheDisk) {
  constexpr std::int64_t kLast = 60;
  std::vector<std::string> contributors;
  for (std::int64_t version = 1; version <= kLast; ++version) {
    Write(version, contributors);
    contributors.push_back("handler" + std::to_string(version));
    Folder().KeepNewest(2, version);
    ASSERT_EQ(Names().size(), std::min<std::size_t>(static_cast<std::size_t>(version), 10));
  }
  std::vector<std::int64_t> ages;
  for (const std::string& name : Names()) {
    ages.insert(ages.begin(), kLast - std::stoll(name.substr(std::string("step-").size())));
  }
  EXPECT_EQ(ages.back(), kLast - 1) << "no handler had a part in the first one";
  for (std::size_t i = 2; i < ages.size(); ++i) EXPECT_LE(ages[i], 2 * ages[i - 1] + 1);

  // On a full disk they go, one by one.
  const std::vector<std::string> before = Names();
  const std::string oldest = before.front(), newest = before.back();
  EXPECT_TRUE(Folder().MakeRoom({})) << "the second newest goes first";
  for (std::size_t left = 8; left > 1; --left) {
    EXPECT_TRUE(Folder().MakeRoom({}));
    ASSERT_EQ(Names().size(), left);
    EXPECT_EQ(Names().front(), oldest);
    EXPECT_EQ(Names().back(), newest);
  }
  EXPECT_TRUE(Folder().MakeRoom({}));
  EXPECT_EQ(Names(), std::vector<std::string>{newest});
  EXPECT_FALSE(Folder().MakeRoom({}));
}

// Its clients had confirmed each other. What counts is only the key: another client of it lied.
TEST_F(SnapshotContributorsTest, ThoseThatOnlyOneKeyHasConfirmedAreRemoved) {
  Write(1, {"evil/1"});
  Write(2, {"evil/", "lab/"});
  Write(3, {"evil/", "lab/"});
  Folder().RemoveOf({"evil/7"});
  EXPECT_EQ(Newest()->path, PathOf(3)) << "as in a cluster with one key and one faulty device";
  Folder().RemoveUnconfirmedOf({{"a/", 2}, {"evil/", 1}});
  EXPECT_EQ(Newest()->path, PathOf(3));
  Folder().RemoveUnconfirmedOf({{"evil/", 2}});
  EXPECT_EQ(Newest()->path, PathOf(1));
}

TEST_F(SnapshotContributorsTest, OneBeforeAKeyConfirmedItselfIsKept) {
  for (const std::int64_t version : {1, 2, 3}) Write(version);
  for (const std::int64_t version : {4, 5, 6}) Write(version, {"evil/"});
  Folder().KeepNewest(2, 6);
  Folder().RemoveUnconfirmedOf({{"evil/", 2}});
  EXPECT_EQ(Newest()->path, PathOf(3));
}

TEST_F(SnapshotContributorsTest, ThoseOfAWholeKeyAreRemoved) {
  Write(1, {"a/1"});
  Write(2, {"a/1", "evil/7"});
  Folder().RemoveOf({"evil/"});
  EXPECT_EQ(Newest()->path, PathOf(1));
}

// Some file systems refuse to remove a file, at least for a while.
TEST_F(SnapshotContributorsTest, BarredOnesAreNotUsedEvenIfTheyAreThere) {
  Write(1, {"a"});
  Write(2, {"a", "evil/7"});
  Write(3, {"a", "evil/7"});
  const auto newest = [this](const BarredSnapshots& barred) {
    const auto found = Newest(barred);
    return found ? found->state.version : 0;
  };
  EXPECT_EQ(newest({}), 3);
  EXPECT_EQ(newest({.wrong = {}, .newest = 2}), 2);
  EXPECT_NE(said_.find(PathOf(3) + " is newer than the last good version, 2"), std::string::npos)
      << said_;
  EXPECT_EQ(newest({.wrong = {"evil/"}, .newest = {}}), 1);
  EXPECT_NE(said_.find(PathOf(2) + " may depend on results of a quarantined handler"),
            std::string::npos)
      << said_;
  EXPECT_EQ(newest({.wrong = {"a"}, .newest = {}}), 0);
  EXPECT_FALSE(others_) << said_;
  EXPECT_EQ(Names().size(), 3u);
}

// So a standby manager, too, or one whose file system removes nothing, goes back before the lie.
TEST_F(SnapshotContributorsTest, OnesThatOnlyOneKeyHasConfirmedCanBeBarred) {
  Write(1, {"a"});
  Write(2, {"a", "evil/"});
  const auto newest = [this](const DoubtfulKeys& in_doubt) {
    return Newest({.in_doubt = in_doubt})->state.version;
  };
  EXPECT_EQ(newest({{"lab/", 9}}), 2);
  EXPECT_EQ(newest({{"evil/", 1}}), 2) << "it is of a later life, which knew of the lie";
  EXPECT_EQ(newest({{"evil/", 2}}), 1);
  EXPECT_NE(said_.find(PathOf(2) + " has results that only"), std::string::npos) << said_;
  EXPECT_EQ(Names().size(), 2u);
}

}  // namespace
}  // namespace acan
