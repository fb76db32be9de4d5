// Handlers that compute wrongly among honest ones: the weights are those of an honest run.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class AuditTest : public ::testing::Test {
 protected:
  std::string WriteJob(const std::string& tasks) const {
    return folder_.Write("job.toml", R"([model]
layers = [97, 211, 53, 10]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 2000
[train]
batch = 100
epochs = 5
learning_rate = 0.05
[snapshots]
every_steps = 10
[tasks]
)" + tasks);
  }
  // The hash of a run without audits and faults.
  std::string HonestHash(const std::string& epochs = "5") const {
    const Result honest = RunAcan({"train", WriteJob(""), "--set", "train.epochs=" + epochs,
                                   "--handlers", "cpu:1", "--out", folder_ / "honest", "--json"});
    return nlohmann::json::parse(LastLine(honest.out))["weights_sha256"];
  }
  std::vector<std::string> HandlerWords(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"handler", "--connect", endpoint_, "--device",
                                      "cpu:1",   "--memory",  "4MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> ManagerWords(const std::string& job) const {
    return {"manager", "--connect", endpoint_, job, "--out", out_, "--json", "--audit-log", log_};
  }

  TestFolder folder_;
  std::string out_ = folder_ / "out";
  std::string log_ = folder_ / "audit.jsonl";
  std::string endpoint_ = "ipc://" + (folder_ / "space");
};

TEST_F(AuditTest, ALiarIsNamedAndNothingOfItIsLeft) {
  const std::string honest = HonestHash();
  const std::string job = WriteJob("audit = 1\n");
  Program broker({"broker", "--listen", endpoint_});
  Program first(HandlerWords());
  Program second(HandlerWords());
  Program liar(HandlerWords({"--inject", "results:0.02,seed=7"}));
  for (Program* handler : {&first, &second, &liar}) ASSERT_TRUE(handler->WaitForErr("joined"));
  Program manager(ManagerWords(job));
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
  const auto receipt = nlohmann::json::parse(LastLine(manager.out()));
  EXPECT_EQ(receipt["weights_sha256"], honest);
  EXPECT_THAT(manager.err(), HasSubstr("is quarantined"));
  ASSERT_EQ(receipt["audits"]["quarantined"].size(), 1u) << receipt.dump(2);
  // The quarantined handler is the liar; the honest ones did the rest.
  const std::string why = receipt["audits"]["quarantined"][0]["why"];
  EXPECT_THAT(why, HasSubstr("pid " + std::to_string(liar.pid())));
  EXPECT_GT(receipt["audits"]["passed"], 300);
  const Result verified = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(verified.code, 0) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("equal      audit_log_head"));
}

// Nobody could detect its faults while it was alone, so everything that it computed then is redone.
TEST_F(AuditTest, NothingIsLeftOfALiarThatWasAlone) {
  const std::string honest = HonestHash("40");  // the liar is alone in the first of these epochs
  Program broker({"broker", "--listen", endpoint_});
  Program liar(HandlerWords({"--inject", "results:0.005,seed=7"}));
  ASSERT_TRUE(liar.WaitForErr("joined"));
  std::vector<std::string> words = ManagerWords(WriteJob("audit = 1\n"));
  words.insert(words.end(),
               {"--set", "train.epochs=40", "--set", "train.stop_if_not_finite=false"});
  Program manager(words);
  ASSERT_TRUE(manager.WaitForErr("epoch 2/"));
  Program first(HandlerWords());
  Program second(HandlerWords());
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
  EXPECT_THAT(manager.err(), HasSubstr("is quarantined"));
  EXPECT_THAT(manager.err(), Not(HasSubstr("continuing from snapshot")));
  EXPECT_THAT(manager.err(), HasSubstr("starting over"));
  EXPECT_EQ(nlohmann::json::parse(LastLine(manager.out()))["weights_sha256"], honest);
}

// Its results are in the snapshot of a life without audits, from which the audited life begins.
TEST_F(AuditTest, NothingIsLeftOfALiarFromBeforeTheAudits) {
  const std::string honest = HonestHash("10");
  Program broker({"broker", "--listen", endpoint_});
  Program liar(HandlerWords({"--inject", "results:0.02,seed=7", "--throttle", "0.5"}));
  ASSERT_TRUE(liar.WaitForErr("joined"));
  std::vector<std::string> words = ManagerWords(WriteJob(""));
  words.insert(words.end(),
               {"--set", "train.epochs=10", "--set", "train.stop_if_not_finite=false"});
  Program unaudited(words);
  ASSERT_TRUE(unaudited.WaitForErr("epoch 1/10 done"));
  unaudited.Signal(SIGTERM);
  unaudited.Wait();
  ASSERT_THAT(unaudited.err(), HasSubstr("no work is lost"));
  Program first(HandlerWords());
  Program second(HandlerWords());
  for (Program* handler : {&first, &second}) ASSERT_TRUE(handler->WaitForErr("joined"));
  // The liar takes part although it is slow.
  words.insert(words.end(),
               {"--resume", "--set", "tasks.audit=1", "--set", "tasks.leave_out_slow=false"});
  Program audited(words);
  EXPECT_EQ(audited.Wait(), 0) << audited.err();
  EXPECT_THAT(audited.err(), HasSubstr("continuing from snapshot"));
  EXPECT_THAT(audited.err(), HasSubstr("is quarantined"));
  EXPECT_THAT(audited.err(), HasSubstr("starting over"));
  const auto receipt = nlohmann::json::parse(LastLine(audited.out()));
  EXPECT_EQ(receipt["weights_sha256"], honest);
  EXPECT_EQ(receipt["audits"]["share"], 1.0);
}

TEST_F(AuditTest, TheReceiptHasTheLeastShareOfAllLives) {
  const auto words = [this](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train",  WriteJob(""), "--set",  "train.epochs=10",
                                    "--json", "--handlers", "2xcpu:1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Program unaudited(words({"--out", out_}));
  ASSERT_TRUE(unaudited.WaitForErr("epoch 1/"));
  unaudited.Signal(SIGTERM);
  unaudited.Wait();
  ASSERT_THAT(unaudited.err(), HasSubstr("no work is lost"));
  const Result audited = RunAcan(words({"--resume", out_, "--set", "tasks.audit=1"}));
  ASSERT_EQ(audited.code, 0) << audited.err;
  const auto receipt = nlohmann::json::parse(LastLine(audited.out));
  EXPECT_EQ(receipt["audits"]["share"], 0.0);
  EXPECT_GT(receipt["audits"]["passed"], 0);
  EXPECT_EQ(receipt["weights_sha256"], HonestHash("10"));
}

// A standby may have finished the job meanwhile, and its receipt has the end of the log.
TEST_F(AuditTest, AManagerThatCommitsNoStepLeavesTheLogAlone) {
  const Result other =
      RunAcan({"train", WriteJob(""), "--set", "train.seed=2", "--set", "train.epochs=1",
               "--handlers", "cpu:1", "--out", folder_ / "other", "--audit-log", log_});
  ASSERT_EQ(other.code, 0) << other.err;
  const std::string log = ReadFile(log_);
  ASSERT_NE(log, "");
  Program broker({"broker", "--listen", endpoint_});
  Program manager(ManagerWords(WriteJob("")));
  ASSERT_TRUE(manager.WaitForErr("waiting"));
  manager.Signal(SIGTERM);
  manager.Wait();
  EXPECT_EQ(ReadFile(log_), log);
}

TEST_F(AuditTest, AnAuditedShareFindsOneThatLiesNowAndThen) {
  const std::string honest = HonestHash();
  const std::string job = WriteJob("audit = 0.2\n");
  Program broker({"broker", "--listen", endpoint_});
  Program first(HandlerWords());
  Program second(HandlerWords());
  Program liar(HandlerWords({"--inject", "results:0.2,seed=3"}));
  for (Program* handler : {&first, &second, &liar}) ASSERT_TRUE(handler->WaitForErr("joined"));
  Program manager(ManagerWords(job));
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
  const auto receipt = nlohmann::json::parse(LastLine(manager.out()));
  EXPECT_EQ(receipt["weights_sha256"], honest);
  EXPECT_EQ(receipt["audits"]["quarantined"].size(), 1u);
  // The liar contributed to everything, so everything was redone.
  EXPECT_THAT(manager.err(), HasSubstr("starting over"));
}

TEST_F(AuditTest, HonestHandlersPassAndChangeNothing) {
  const std::string honest = HonestHash();
  const Result run = RunAcan({"train", WriteJob("audit = 0.3\n"), "--handlers", "3xcpu:1@4MiB",
                              "--out", out_, "--json", "--audit-log", log_});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto receipt = nlohmann::json::parse(LastLine(run.out));
  EXPECT_EQ(receipt["weights_sha256"], honest);
  EXPECT_GT(receipt["audits"]["passed"], 50);
  EXPECT_EQ(receipt["audits"]["quarantined"].size(), 0u);

  std::string text = ReadFile(log_);
  const Result whole = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(whole.code, 0) << whole.out;
  // The rest is a valid log, but not that of the receipt.
  std::ofstream(log_, std::ios::binary) << text.substr(0, text.rfind('\n', text.size() - 2) + 1);
  const Result shorter = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(shorter.code, 1);
  EXPECT_THAT(shorter.out, HasSubstr("DIFFERENT  audit_log_head"));

  const std::size_t at = text.find("\"handler\":\"", text.size() / 2) + 12;
  text[at] = text[at] == 'x' ? 'y' : 'x';
  std::ofstream(log_, std::ios::binary) << text;
  const Result verified = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, HasSubstr("does not follow from the lines before it"));
}

// The standby continues from the log as it is at the takeover, not as it was when it began to wait.
TEST_F(AuditTest, AStandbyGoesOnWithTheLog) {
  const std::string job = WriteJob("");
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  std::vector<std::string> words = ManagerWords(job);
  words.insert(words.end(), {"--set", "train.epochs=50"});
  Program first(words);
  ASSERT_TRUE(first.WaitForErr("plan:"));
  words.emplace_back("--standby");
  Program standby(words);
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  ASSERT_TRUE(first.WaitForErr("epoch 3/"));
  first.Signal(SIGKILL);
  EXPECT_EQ(first.Wait(), -SIGKILL);
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  const Result verified = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("equal      audit_log_head"));
}

// The receipt is that of a run whose only handler nobody could check, with a conflict added.
TEST_F(AuditTest, ResultsThatDifferAreInDoubtIfAuditsWereSkipped) {
  const Result run = RunAcan({"train", WriteJob("audit = 1\n"), "--set", "train.epochs=1",
                              "--handlers", "cpu:1", "--out", out_});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("audits: 0 passed, "));
  EXPECT_THAT(RunAcan({"verify", out_}).out, HasSubstr("note       audits: 0 passed, "));
  const std::string path = out_ + "/receipt.json";
  auto receipt = nlohmann::json::parse(ReadFile(path));
  ASSERT_GT(receipt["audits"]["skipped"], 0);
  receipt["conflicts"] = {{{"key", "k"}, {"text", "two handlers differ"}}};
  receipt.erase("receipt_sha256");
  std::ofstream(path, std::ios::binary) << receipt.dump();
  const Result doubtful = RunAcan({"train", "--resume", out_});
  EXPECT_EQ(doubtful.code, 1) << doubtful.err;
  EXPECT_THAT(doubtful.err, HasSubstr("two handlers differ"));
  EXPECT_THAT(doubtful.err, HasSubstr("at least two handlers, with different keys"));
  receipt["audits"]["skipped"] = 0;
  std::ofstream(path, std::ios::binary) << receipt.dump();
  const Result confirmed = RunAcan({"train", "--resume", out_});
  EXPECT_EQ(confirmed.code, 0) << confirmed.err;
}

TEST_F(AuditTest, ALogMayHaveLaterRuns) {
  const std::string job = WriteJob("");
  const auto train = [&](const std::string& seed, const std::string& out) {
    const Result run = RunAcan({"train", job, "--set", "train.epochs=1", "--set", seed,
                                "--handlers", "cpu:1@4MiB", "--out", out, "--audit-log", log_});
    EXPECT_EQ(run.code, 0) << run.err;
  };
  train("train.seed=1", out_);
  const std::string first = ReadFile(log_);
  const auto lines = std::ranges::count(first, '\n');
  train("train.seed=2", folder_ / "later");
  for (const std::string& out : {out_, folder_ / "later"}) {
    const Result verified = RunAcan({"verify", out, "--audit-log", log_});
    EXPECT_EQ(verified.code, 0) << verified.out;
    EXPECT_THAT(verified.out, HasSubstr("equal      audit_log_head"));
    EXPECT_THAT(verified.out, Not(HasSubstr("note")));
    const std::string where = ", at line " + std::to_string(lines) + "; ";
    EXPECT_EQ(verified.out.find(where) != std::string::npos, out == out_) << verified.out;
  }
  // A torn line after the run's end is that of a later run only if that one has whole lines, too.
  std::ofstream(log_, std::ios::binary) << first << "{";
  const Result torn = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(torn.code, 1) << torn.out;
  EXPECT_THAT(torn.out, HasSubstr("DIFFERENT  end of"));
}

TEST_F(AuditTest, VerifySaysWhichStepsTheLogLacks) {
  const std::vector<std::string> train = {"train",           WriteJob(""), "--set",
                                          "train.epochs=50", "--handlers", "cpu:1@4MiB"};
  std::vector<std::string> words = train;
  words.insert(words.end(), {"--out", out_});
  {
    Program first(words);
    ASSERT_TRUE(first.WaitForErr("epoch 2/"));
    first.Signal(SIGTERM);
    EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
  }
  words = train;
  words.insert(words.end(), {"--resume", out_, "--audit-log", log_});
  const Result second = RunAcan(words);
  ASSERT_EQ(second.code, 0) << second.err;
  const std::string said = "after step ";
  const std::string rest = second.err.substr(second.err.find(said) + said.size());
  const Result verified = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("does not say who computed the first " +
                                      std::to_string(std::stoi(rest)) + " steps"));
}

// The third of four lives does not name the log.
TEST_F(AuditTest, VerifySaysWhichStepsBetweenTwoLivesTheLogLacks) {
  const auto words = [job = WriteJob("")](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train",           job,          "--set",
                                    "train.epochs=50", "--handlers", "cpu:1@4MiB"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto stop_in = [&words](const std::string& epoch, const std::vector<std::string>& more) {
    Program life(words(more));
    ASSERT_TRUE(life.WaitForErr("epoch " + epoch + "/"));
    life.Signal(SIGTERM);
    EXPECT_EQ(life.Wait(), 128 + SIGTERM) << life.err();
    EXPECT_THAT(life.err(), HasSubstr("no work is lost"));
  };
  stop_in("2", {"--out", out_, "--audit-log", log_});
  stop_in("10", {"--resume", out_, "--audit-log", log_});
  stop_in("20", {"--resume", out_});
  const Result last = RunAcan(words({"--resume", out_, "--audit-log", log_}));
  ASSERT_EQ(last.code, 0) << last.err;
  const std::string said = "after step ";
  const int steps = std::stoi(last.err.substr(last.err.find(said) + said.size()));
  const Result verified = RunAcan({"verify", out_, "--audit-log", log_});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, ContainsRegex("does not say who computed the steps [0-9]+ to " +
                                          std::to_string(steps) + ":"));
  EXPECT_EQ(verified.out.find("does not say"), verified.out.rfind("does not say")) << verified.out;
}

TEST_F(AuditTest, FastPrecisionIsRefused) {
  const Result run = RunAcan({"train", WriteJob("audit = 0.1\n"), "--set", "train.precision=fast"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("audit"));
  EXPECT_THAT(run.err, HasSubstr("exact"));
}

TEST_F(AuditTest, WrongFaultsAreRefused) {
  const Result run = RunAcan(HandlerWords({"--inject", "results:2"}));
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("'results:2' is not a fault"));
}

}  // namespace
}  // namespace acan::testing
