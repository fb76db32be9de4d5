// Managers that take a job over from one that was killed, stopped or hangs, and managers that stand
// by for it.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kill_fixture.h"
#include "nlohmann/json.hpp"
#include "program.h"
#include "tuplespace/client.h"

namespace acan::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The id of its job that a manager has printed.
std::string IdSaidBy(const Program& manager) {
  const std::string said = "the job's id is ";
  return manager.err().substr(manager.err().find(said) + said.size(), 16);
}

// Puts `receipt` as that of the job `id`.
void PutDone(tuplespace::Client& client, const std::string& id,
             const tuplespace::Payload& receipt) {
  tuplespace::Tuple done;
  done.key = tuplespace::Key{"done", id};
  done.payload = receipt;
  ASSERT_TRUE(client.Put({done}));
}

// The standby has its own folder, as on another host, without the lines that the first manager
// wrote.
TEST_F(KillTest, TheManagerWhileOneOfAnotherHostStandsBy) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWordsFor(folder_ / "first"));
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  Program standby(ManagerWords({"--standby"}));
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  ASSERT_TRUE(first.WaitForErr("epoch 3/"));
  first.Signal(SIGKILL);
  first.Wait();
  const int done = StepsIn(folder_ / "first");
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  // The first manager may have died between writing the line of a step and committing it in the
  // space.
  EXPECT_GE(BeganAfter(standby.err(), "the weights in the space"), done - 1) << standby.err();
  EXPECT_THAT(standby.err(), Not(HasSubstr("lacks")));
  EXPECT_EQ(HashOf(standby), undisturbed_);
  ExpectWholeMetrics();
  const auto receipt = nlohmann::json::parse(LastLine(standby.out()));
  EXPECT_TRUE(receipt.at("metrics_missing").empty());
}

TEST_F(KillTest, TheManagerWhichIsResumedOnAnotherHost) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWordsFor(folder_ / "first"));
  ASSERT_TRUE(first.WaitForErr("epoch 3/"));
  first.Signal(SIGKILL);
  first.Wait();
  // Metrics of another training in its folder do not count as metrics of this run.
  std::filesystem::create_directory(out_);
  folder_.Write("out/metrics.jsonl", R"({"step":0,"loss":-1})"
                                     "\n");
  Program second(ManagerWords({"--resume"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_GE(BeganAfter(second.err(), "the weights in the space"), 200) << second.err();
  EXPECT_EQ(HashOf(second), undisturbed_);
  ExpectWholeMetrics();
  EXPECT_THAT(ReadFile(out_ + "/metrics.jsonl"), Not(HasSubstr("-1")));
}

TEST_F(KillTest, AManagerThatIsStoppedHandsOverToOneOfAnotherHost) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWordsFor(folder_ / "first"));
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  Program standby(ManagerWords({"--standby"}));
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
  const int done = StepsIn(folder_ / "first");
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_EQ(BeganAfter(standby.err(), "the weights in the space"), done) << standby.err();
  EXPECT_EQ(HashOf(standby), undisturbed_);
  ExpectWholeMetrics();
}

TEST_F(KillTest, AManagerThatHangsIsReplacedAndSeesIt) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords());
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  Program standby(ManagerWords({"--standby"}));
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  first.Signal(SIGSTOP);
  ASSERT_TRUE(standby.WaitForErr("continuing from"));
  first.Signal(SIGCONT);
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_EQ(HashOf(standby), undisturbed_);
  // The former leader became the standby and reports the result of the other manager.
  EXPECT_EQ(first.Wait(), 0) << first.err();
  EXPECT_THAT(first.err(), HasSubstr("the lead was lost"));
  EXPECT_EQ(HashOf(first), undisturbed_);
  ExpectWholeMetrics();
}

TEST_F(KillTest, AStandbyEndsWithTheJob) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords({"--set", "train.epochs=2"}));
  ASSERT_TRUE(first.WaitForErr("plan:"));
  Program standby(ManagerWords({"--set", "train.epochs=2", "--standby"}));
  ASSERT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_THAT(standby.err(), HasSubstr("the job is done already"));
  EXPECT_EQ(HashOf(standby), HashOf(first));
}

// As the default output folder of another host may have it.
TEST_F(KillTest, AFinishedRunOfAnotherJobIsNotReplacedUnawares) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program other(ManagerWords({"--set", "train.epochs=1", "--set", "train.seed=5"}));
  ASSERT_EQ(other.Wait(), 0) << other.err();
  const std::string receipt = ReadFile(out_ + "/receipt.json");
  Program first(ManagerWordsFor(folder_ / "first"));
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  Program standby(ManagerWords({"--standby"}));
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  EXPECT_THAT(standby.err(), HasSubstr(out_ + " has a finished run of another job"));
  for (Program* manager : {&standby, &first}) {
    manager->Signal(SIGKILL);
    manager->Wait();
  }
  Program second(ManagerWords({"--resume"}));
  EXPECT_EQ(second.Wait(), 2) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("is done, and it trained another job"));
  EXPECT_EQ(ReadFile(out_ + "/receipt.json"), receipt);
  Program third(ManagerWordsFor(folder_ / "third", {"--resume"}));
  EXPECT_EQ(third.Wait(), 0) << third.err();
  EXPECT_GE(BeganAfter(third.err(), "the weights in the space"), 100) << third.err();
  EXPECT_EQ(HashOf(third), undisturbed_);
}

// A standby may wait for weeks. The job needs them only if it begins anew.
TEST_F(KillTest, AStandbyEndsWithTheJobWithoutTheInitialWeights) {
  const Result start = RunAcan({"train", job_, "--set", "train.epochs=1", "--set", "train.seed=5",
                                "--handlers", "cpu:1", "--out", folder_ / "start"});
  ASSERT_EQ(start.code, 0) << start.err;
  const std::string weights = folder_ / "weights.safetensors";
  std::filesystem::copy_file(folder_ / "start/model.safetensors", weights);
  const std::vector<std::string> from_weights = {"--set", "model.initial_weights=" + weights};
  std::vector<std::string> standby_words = ManagerWords(from_weights);
  standby_words.emplace_back("--standby");
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords(from_weights));
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  Program standby(standby_words);
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  std::filesystem::remove(weights);
  ASSERT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_THAT(standby.err(), HasSubstr("the job is done already"));
  EXPECT_EQ(HashOf(standby), HashOf(first));
}

TEST_F(KillTest, SnapshotsAreEnoughWithoutTheInitialWeights) {
  const std::string weights = folder_ / "weights.safetensors";
  const auto words_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", "--handlers", "cpu:1@4MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto stop = [](Program& train, const std::string& at) {
    ASSERT_TRUE(train.WaitForErr(at)) << train.err();
    train.Signal(SIGTERM);
    ASSERT_EQ(train.Wait(), 128 + SIGTERM) << train.err();
  };
  const Result start = RunAcan(words_with(
      {job_, "--set", "train.epochs=1", "--set", "train.seed=5", "--out", folder_ / "start"}));
  ASSERT_EQ(start.code, 0) << start.err;
  std::filesystem::copy_file(folder_ / "start/model.safetensors", weights);
  const std::string from_weights = "model.initial_weights=" + weights;
  Program first(words_with({job_, "--set", from_weights, "--out", out_}));
  ASSERT_NO_FATAL_FAILURE(stop(first, "epoch 3/"));
  folder_.Write("weights.safetensors", "something else");
  Program second(words_with({"--resume", out_}));
  ASSERT_NO_FATAL_FAILURE(stop(second, "continuing from snapshot"));
  std::filesystem::remove(weights);
  Program third(words_with({job_, "--set", from_weights, "--resume", out_}));
  EXPECT_EQ(third.Wait(), 0) << third.err();
  EXPECT_THAT(third.err(), HasSubstr("continuing from snapshot"));
}

// Anybody who may write the job's tuples can put any receipt there.
TEST_F(KillTest, AReceiptOfAnotherJobInTheSpaceEndsNothing) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program other(ManagerWords({"--set", "train.epochs=1", "--set", "train.seed=5"}));
  ASSERT_EQ(other.Wait(), 0) << other.err();
  Program first(ManagerWords());
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  first.Signal(SIGKILL);
  first.Wait();
  {
    tuplespace::ClientOptions options;
    options.endpoint = endpoint_;
    tuplespace::Client client(options);
    const tuplespace::Pattern receipts{
        {tuplespace::FieldPattern::Exact("done"), tuplespace::FieldPattern::Any()}, false};
    const auto found = client.ReadOne(receipts);
    ASSERT_TRUE(found);
    PutDone(client, IdSaidBy(first), found->payload);
  }
  Program second(ManagerWords({"--resume"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("has the receipt of another job"));
  EXPECT_EQ(HashOf(second), undisturbed_);
}

// As that of a newer acan may be.
TEST_F(KillTest, AReceiptInTheSpaceThatCannotBeReadEndsNothing) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords());
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  first.Signal(SIGKILL);
  first.Wait();
  {
    tuplespace::ClientOptions options;
    options.endpoint = endpoint_;
    tuplespace::Client client(options);
    PutDone(client, IdSaidBy(first), tuplespace::Payload::Copy("{}"));
  }
  Program second(ManagerWords({"--resume"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("a tuple has no receipt that can be read"));
  EXPECT_EQ(HashOf(second), undisturbed_);
}

// The receipt names the graph file of the first manager's host, which the standby cannot open.
TEST_F(KillTest, AStandbyWithItsOwnCopyOfTheGraphFileEndsWithTheJob) {
  const Result graph = RunAcan({"graph", job_});
  ASSERT_EQ(graph.code, 0) << graph.err;
  const auto words_on = [&](const std::string& host) {
    folder_.Write(host + "/net.json", graph.out);
    const std::string job = folder_.Write(host + "/job.toml", R"([model]
kind = "graph"
file = "net.json"
[data]
generated = "regression"
samples = 4000
[train]
batch = 37
epochs = 2
learning_rate = 0.05
)");
    return std::vector<std::string>{
        "manager", "--connect", endpoint_, job, "--out", folder_ / (host + "/out"), "--json"};
  };
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(words_on("a"));
  ASSERT_TRUE(first.WaitForErr("plan:"));
  std::filesystem::remove(folder_ / "a/net.json");
  std::vector<std::string> standby_words = words_on("b");
  standby_words.emplace_back("--standby");
  Program standby(standby_words);
  ASSERT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_THAT(standby.err(), HasSubstr("the job is done already"));
  EXPECT_EQ(HashOf(standby), HashOf(first));
}

// The standby must not claim to have written files that are on another host.
TEST_F(KillTest, AStandbyOfAnotherHostSaysWhereTheOutputsAre) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWordsFor(folder_ / "first", {"--set", "train.epochs=2"}));
  ASSERT_TRUE(first.WaitForErr("plan:"));
  Program standby(ManagerWords({"--set", "train.epochs=2", "--standby"}));
  ASSERT_EQ(first.Wait(), 0) << first.err();
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_THAT(standby.err(), HasSubstr("the outputs are in its --out"));
  EXPECT_THAT(standby.out(), Not(HasSubstr("wrote ")));
  EXPECT_EQ(HashOf(standby), HashOf(first));
}

TEST_F(KillTest, TheBrokerAndTheLeaderAtOnceWithAStandby) {
  auto broker =
      std::make_unique<Program>(std::vector<std::string>{"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords());
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  Program standby(ManagerWords({"--standby"}));
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  broker->Signal(SIGKILL);
  first.Signal(SIGKILL);
  // A new broker refuses the endpoint while the old one is alive.
  EXPECT_EQ(broker->Wait(), -SIGKILL);
  broker = std::make_unique<Program>(std::vector<std::string>{"broker", "--listen", endpoint_});
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_THAT(standby.err(), HasSubstr("continuing from snapshot"));
  EXPECT_EQ(HashOf(standby), undisturbed_);
  ExpectWholeMetrics();
}

// With audits, and without the snapshots of the first manager, it begins anew; the counts and the
// conflicts are still those of all lives.
TEST_F(KillTest, AnAuditedRunThatBeginsAnewCountsAllLives) {
  using Clock = std::chrono::steady_clock;
  const std::vector<std::string> few = {"--set", "train.epochs=3", "--set", "tasks.audit=1"};
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords()), other(HandlerWords());
  // With one of them alone, audits would be skipped, and the conflict below would count.
  ASSERT_TRUE(handler.WaitForErr("joined"));
  ASSERT_TRUE(other.WaitForErr("joined"));
  Program first(ManagerWordsFor(folder_ / "first", few));
  ASSERT_TRUE(first.WaitForErr("plan:"));
  std::vector<std::string> words = ManagerWords(few);
  words.emplace_back("--standby");
  Program standby(words);
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  standby.Signal(SIGSTOP);
  const Clock::time_point ended = Clock::now();
  first.Signal(SIGKILL);
  first.Wait();
  nlohmann::json state;
  {
    tuplespace::ClientOptions options;
    options.endpoint = endpoint_;
    tuplespace::Client client(options);
    const auto found =
        client.ListAll({{tuplespace::FieldPattern::Exact("state")}, /*prefix=*/true});
    ASSERT_FALSE(found.empty());
    state = nlohmann::json::parse(found.back().payload.text());
    state["tasks_done"] = 1'000'000 + state["tasks_done"].get<int>();
    state["conflicts"] = {{{"key", "k"}, {"text", "of the first life"}}};
    std::vector<tuplespace::Field> fields = found.back().key.Fields();
    fields.back() = std::get<std::int64_t>(fields.back()) + 1;
    tuplespace::Tuple newer;
    newer.key = tuplespace::Key(fields);
    newer.payload = tuplespace::Payload::Copy(state.dump());
    ASSERT_TRUE(client.Put({newer}));
  }
  standby.Signal(SIGCONT);
  ASSERT_EQ(standby.Wait(), 0) << standby.err();
  const std::chrono::duration<double> since = Clock::now() - ended;
  EXPECT_THAT(standby.err(), HasSubstr("starting over"));
  const auto receipt = nlohmann::json::parse(LastLine(standby.out()));
  EXPECT_GT(receipt["tasks_done"], state["tasks_done"]);
  ASSERT_EQ(receipt["conflicts"].size(), 1u) << receipt["conflicts"];
  EXPECT_EQ(receipt["conflicts"][0]["text"], "of the first life");
  // The time in which the standby waited is that of the first manager.
  EXPECT_GT(receipt["seconds"], state["seconds"]);
  EXPECT_LE(receipt["seconds"].get<double>(), state["seconds"].get<double>() + since.count());
}

// The second life is that of another process, from a snapshot.
TEST_F(KillTest, TheReceiptCountsAllLives) {
  {
    Program broker({"broker", "--listen", endpoint_});
    Program handler(HandlerWords()), lost(HandlerWords());
    for (Program* program : {&handler, &lost}) ASSERT_TRUE(program->WaitForErr("joined"));
    Program first(ManagerWords());
    ASSERT_TRUE(first.WaitForErr("epoch 2/"));
    lost.Signal(SIGKILL);
    lost.Wait();
    ASSERT_TRUE(first.WaitForErr("epoch 4/"));
    first.Signal(SIGTERM);
    EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
    for (Program* program : {&handler, &broker}) {
      program->Signal(SIGTERM);
      program->Wait();
    }
  }
  const auto reissued_so_far = [this] {
    std::vector<int> counts;
    for (const nlohmann::json& line : MetricsIn(out_)) {
      if (line.contains("reissued")) counts.push_back(line.at("reissued").get<int>());
    }
    return counts;
  };
  const std::vector<int> counts_of_first_life = reissued_so_far();
  ASSERT_FALSE(counts_of_first_life.empty());
  const int of_first_life = counts_of_first_life.back();
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program second(ManagerWords({"--resume"}));
  ASSERT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("continuing from snapshot"));
  const auto receipt = nlohmann::json::parse(LastLine(second.out()));
  EXPECT_EQ(receipt["handlers"].size(), 3u) << receipt["handlers"];
  std::int64_t tasks = 0;
  for (const auto& one : receipt["handlers"]) {
    EXPECT_GT(one["tasks"], 0) << one;
    tasks += one["tasks"].get<std::int64_t>();
  }
  EXPECT_LE(tasks, receipt["tasks_done"]);
  EXPECT_GT(2 * tasks, receipt["tasks_done"]);
  EXPECT_GE(receipt["tasks_reissued"], of_first_life);
  const std::vector<int> counts = reissued_so_far();
  EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end()));
  EXPECT_EQ(HashOf(second), undisturbed_);
}

}  // namespace
}  // namespace acan::testing
