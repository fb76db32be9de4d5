// acan keygen that is stopped or killed while it changes the key files.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class KeygenStops : public ::testing::Test {
 protected:
  // In the folder `keys_`.
  Result Keygen(const std::vector<std::string>& more, const Environment& environment = {}) const {
    std::vector<std::string> words = {"keygen", "--out", keys_.path()};
    words.insert(words.end(), more.begin(), more.end());
    return RunAcan(words, environment);
  }
  std::string Key(const std::string& name) const { return keys_ / (name + ".key"); }

  const TestFolder keys_;
};

// Two that come at once mean the same request.
TEST_F(KeygenStops, BySignalsWhenTheFilesAreComplete) {
  const Result stopped =
      Keygen({}, {{"LD_PRELOAD", ACAN_BLOCK_AT_SYNC}, {"TERM_AT_SYNC_OF", "/manager.key.new"}});
  EXPECT_EQ(stopped.code, -SIGTERM) << stopped.err;
  EXPECT_EQ(stopped.out, "");
  EXPECT_THAT(keys_.Names(), UnorderedElementsAre("broker.key", "handler.key", "manager.key"));
  EXPECT_EQ(Keygen({"--add", "handler", "--name", "gpu7"}).code, 0);
}

TEST_F(KeygenStops, ByALaterSignalIfTheDiskDoesNotAnswer) {
  constexpr auto kSameRequest = std::chrono::seconds(2);
  Program keygen({"keygen", "--out", keys_.path()},
                 {{"LD_PRELOAD", ACAN_BLOCK_AT_SYNC}, {"BLOCK_AT_SYNC_OF", "/broker.key.new"}});
  ASSERT_TRUE(keygen.WaitForFiles({keys_.path()}, [&] { return !keys_.Names().empty(); }));
  const auto first = std::chrono::steady_clock::now();
  // Many signals within that time are tested, not only the first one after it.
  constexpr auto kBetweenSignals = std::chrono::milliseconds(5);
  while (keygen.Runs()) {
    keygen.Signal(SIGTERM);
    WaitForAny({&keygen}, std::chrono::steady_clock::now() + kBetweenSignals);
  }
  EXPECT_EQ(keygen.Wait(), -SIGTERM) << keygen.err();
  EXPECT_GE(std::chrono::steady_clock::now() - first, kSameRequest);
  EXPECT_THAT(keys_.Names(), ElementsAre("broker.key.new"));
}

TEST_F(KeygenStops, KilledAndTheNextOneNamesWhatItLeft) {
  ASSERT_EQ(Keygen({}).code, 0);
  const std::string list = Key("broker"), unfinished = list + ".new";
  const std::string before = ReadFile(list);
  ASSERT_EQ(Keygen({"--add", "handler", "--name", "gpu7"}).code, 0);
  // As if it had been killed when the list was written and not yet in its place.
  ASSERT_EQ(std::rename(list.c_str(), unfinished.c_str()), 0);
  keys_.Write("broker.key", before);
  ASSERT_EQ(::chmod(list.c_str(), 0600), 0);
  EXPECT_THAT(Keygen({"--revoke", "manager"}).err,
              HasSubstr("if none is, remove that file, and what it made: " + Key("gpu7") + "\n"));
  // The same of the first keygen of all.
  ASSERT_EQ(::unlink(list.c_str()), 0);
  EXPECT_THAT(Keygen({}).err, AllOf(HasSubstr(Key("handler") + ", " + Key("manager")),
                                    HasSubstr(Key("gpu7") + "\n")));
  ASSERT_EQ(::unlink(unfinished.c_str()), 0);
  EXPECT_THAT(Keygen({}).err, HasSubstr("handler.key: cannot create: it exists"));
  for (const char* name : {"handler", "manager", "gpu7"}) {
    ASSERT_EQ(::unlink(Key(name).c_str()), 0);
  }
  EXPECT_EQ(Keygen({}).code, 0);
}

// A broker obeys only the list. The file of a key has no other name at any time.
TEST_F(KeygenStops, KilledWhenTheListWithoutAKeyIsInItsPlace) {
  ASSERT_EQ(Keygen({}).code, 0);
  const std::string folder = keys_.path().substr(keys_.path().rfind('/'));
  const Environment killed = {{"LD_PRELOAD", ACAN_BLOCK_AT_SYNC}, {"KILL_AT_SYNC_OF", folder}};
  EXPECT_EQ(Keygen({"--revoke", "handler"}, killed).code, -SIGKILL);
  EXPECT_THAT(ReadFile(Key("broker")), Not(HasSubstr("\"handler\"")));
  EXPECT_THAT(keys_.Names(), UnorderedElementsAre("broker.key", "handler.key", "manager.key"));
  const Result again = Keygen({"--add", "handler"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("handler.key: cannot create: it exists"));
}

}  // namespace
}  // namespace acan::testing
