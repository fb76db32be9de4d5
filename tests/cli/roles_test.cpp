// Broker, handlers and managers as separate processes.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "nlohmann/json.hpp"
#include "program.h"
#include "tuplespace/client.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> HandlerWords(const std::string& endpoint,
                                      const std::string& memory = "16MiB") {
  return {"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", memory};
}

std::vector<std::string> ManagerWords(const std::string& endpoint, const std::string& job,
                                      const std::string& out) {
  return {"manager", "--connect", endpoint, job, "--out", out, "--json"};
}

std::string HashOf(const std::string& out) {
  return nlohmann::json::parse(LastLine(out))["weights_sha256"].get<std::string>();
}

// Puts a tuple whose payload does not have the hash that it states. Returns the code of the
// broker's refusal; nullopt: it was stored.
std::optional<tuplespace::ErrorCode> PutWithAWrongHash(const std::string& endpoint) {
  tuplespace::ClientOptions options;
  options.endpoint = endpoint;
  tuplespace::Client client(std::move(options));
  tuplespace::Tuple tuple;
  tuple.key = tuplespace::Key{"damaged"};
  const tuplespace::Payload others = tuplespace::Payload::Copy("others");
  tuple.payload = tuplespace::Payload::Copy("bytes").WithHash(tuplespace::HashOf(others.bytes()));
  try {
    EXPECT_TRUE(client.Put({std::move(tuple)}, std::chrono::seconds(60)));
  } catch (const tuplespace::SpaceError& error) {
    return error.code();
  }
  return std::nullopt;
}

TEST(Roles, ABrokerChecksPayloadsOnRequest) {
  const TestFolder folder;
  for (const bool checks : {false, true}) {
    const std::string endpoint = "ipc://" + (folder / (checks ? "checks" : "believes"));
    std::vector<std::string> words = {"broker", "--listen", endpoint};
    if (checks) words.emplace_back("--check-payloads");
    Program broker(words);
    const auto refused = PutWithAWrongHash(endpoint);
    EXPECT_EQ(refused.has_value(), checks);
    EXPECT_EQ(refused.value_or(tuplespace::ErrorCode::kDamaged), tuplespace::ErrorCode::kDamaged);
  }
}

TEST(Roles, StartInAnyOrderAndAgreeWithTrain) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result train =
      RunAcan({"train", job, "--handlers", "cpu:1", "--out", folder / "train", "--json"});
  ASSERT_EQ(train.code, 0) << train.err;

  const std::string endpoint = "ipc://" + (folder / "space");
  Program manager(ManagerWords(endpoint, job, folder / "out"));
  ASSERT_TRUE(manager.WaitForErr("training samples"));
  Program handler(HandlerWords(endpoint));
  Program broker({"broker", "--listen", endpoint});
  ASSERT_EQ(manager.Wait(), 0) << manager.err();
  EXPECT_EQ(HashOf(manager.out()), HashOf(train.out));
  EXPECT_EQ(ReadFile(folder / "out/model.safetensors"),
            ReadFile(folder / "train/model.safetensors"));

  handler.Signal(SIGTERM);
  EXPECT_EQ(handler.Wait(), 128 + SIGTERM);
  EXPECT_THAT(handler.err(), HasSubstr("tasks done"));
  broker.Signal(SIGINT);
  EXPECT_EQ(broker.Wait(), 128 + SIGINT);
  EXPECT_THAT(folder.Names(), Not(::testing::Contains("space")));
}

// Shells set 1024 out of perhaps a million, too few for a thousand handlers.
TEST(Roles, OpenAsManyFilesAsTheSystemLetsThem) {
  const TestFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Program broker({"broker", "--listen", "ipc://" + (folder / "space")});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EndpointOf(broker);
  rlimit found{};
  ASSERT_EQ(prlimit(broker.pid(), RLIMIT_NOFILE, nullptr, &found), 0);
  EXPECT_EQ(found.rlim_cur, before.rlim_max);
  broker.Signal(SIGTERM);
  EXPECT_EQ(broker.Wait(), 128 + SIGTERM);
}

TEST(Roles, AThrottleThatIsNoSpeedIsRefused) {
  const Result run = RunAcan({"handler", "--device", "cpu:1", "--throttle", "1,fast@5s"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("--throttle"), HasSubstr("1,fast@5s"), HasSubstr("GFLOP/s")));
}

TEST(Roles, AThrottledHandlerTrainsTheSameWeightsAndTellsItsSpeed) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::string endpoint = "ipc://" + (folder / "space");
  Program broker({"broker", "--listen", endpoint});
  std::vector<std::string> words = HandlerWords(endpoint);
  words.insert(words.end(), {"--throttle", "0.05"});
  Program handler(words);
  const Result slow = RunAcan(ManagerWords(endpoint, job, folder / "out"));
  ASSERT_EQ(slow.code, 0) << slow.err;
  const Result train =
      RunAcan({"train", job, "--handlers", "cpu:1", "--out", folder / "train", "--json"});
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_EQ(HashOf(slow.out), HashOf(train.out));
  std::istringstream lines(ReadFile(folder / "out/tuning.jsonl"));
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) last = nlohmann::json::parse(line);
  EXPECT_EQ(last["handlers"], 1);
  EXPECT_GT(last["gflop_done"].get<double>(), 0);
  EXPECT_EQ(last["in_flight"], 0);
  // Tasks are throttled, and on a slow machine may take even longer.
  EXPECT_GT(last["gflops"].get<double>(), 0);
  EXPECT_LE(last["gflops"].get<double>(), 0.0501);
  handler.Signal(SIGTERM);
  handler.Wait();
  broker.Signal(SIGTERM);
  broker.Wait();
}

TEST(Roles, AManagerThatResumesLeavesAnotherFinishedRunAlone) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::string out = folder / "out";
  ASSERT_EQ(RunAcan({"train", job, "--handlers", "cpu:1", "--out", out}).code, 0);
  const std::string receipt = ReadFile(out + "/receipt.json");
  const std::string model = ReadFile(out + "/model.safetensors");
  const std::string endpoint = "ipc://" + (folder / "space");
  Program broker({"broker", "--listen", endpoint});
  Program handler(HandlerWords(endpoint));
  const auto resume = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = ManagerWords(endpoint, job, out);
    words.push_back("--resume");
    words.insert(words.end(), more.begin(), more.end());
    return RunAcan(words);
  };
  const Result other = resume({"--set", "train.seed=77"});
  EXPECT_EQ(other.code, 2) << other.out;
  EXPECT_THAT(other.err, HasSubstr("--resume cannot extend or change"));
  EXPECT_THAT(other.err, HasSubstr("train.seed is 77, must be 1"));
  EXPECT_EQ(ReadFile(out + "/receipt.json"), receipt);
  EXPECT_EQ(ReadFile(out + "/model.safetensors"), model);
  const Result same = resume({});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.err, HasSubstr("the job is done already"));
  EXPECT_THAT(same.out, Not(HasSubstr("wrote")));
  EXPECT_EQ(ReadFile(out + "/receipt.json"), receipt);
  handler.Signal(SIGTERM);
  handler.Wait();
  broker.Signal(SIGTERM);
  broker.Wait();
}

TEST(Roles, EndpointsComeFromTheEnvironment) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::string endpoint = "ipc://" + (folder / "space");
  const Environment environment = {{"ACAN_CONNECT", endpoint},
                                   {"ACAN_LISTEN", endpoint},
                                   {"ACAN_OUT", folder / "out"},
                                   {"ACAN_DEVICE", "cpu:1"},
                                   {"ACAN_MEMORY", "16MiB"},
                                   {"ACAN_LOG_FORMAT", "json"},
                                   {"ACAN_SET", "train.epochs=1;train.seed=9"}};
  Program broker({"broker"}, environment);
  EXPECT_EQ(EndpointOf(broker), endpoint);
  Program handler({"handler"}, environment);
  Program manager({"manager", job, "--json", "--set", "train.seed=3"}, environment);
  ASSERT_EQ(manager.Wait(), 0) << manager.err();
  const nlohmann::json receipt = nlohmann::json::parse(LastLine(manager.out()));
  EXPECT_EQ(receipt["job"]["train"]["epochs"], 1);
  EXPECT_EQ(receipt["job"]["train"]["seed"], 3);  // the flag overrides the variable
  EXPECT_THAT(ReadFile(folder / "out/receipt.json"), Not(IsEmpty()));
  std::istringstream lines(manager.err());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(nlohmann::json::parse(line).contains("role")) << line;
  }
}

mode_t ModeOfEntry(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(Roles, MeetAtASocketOfThisUserIfNobodySaysWhere) {
  const TestFolder folder;
  const Environment environment = {{"XDG_RUNTIME_DIR", folder / "runtime"}};
  std::filesystem::create_directory(folder / "runtime");
  const std::string job = folder.Write("job.toml", SmallJob());
  Program handler({"handler", "--device", "cpu:1", "--memory", "16MiB"}, environment);
  ASSERT_TRUE(handler.WaitForErr("no broker answers at ipc://" + (folder / "runtime/acan/space")));
  Program broker({"broker"}, environment);
  EXPECT_EQ(EndpointOf(broker), "ipc://" + (folder / "runtime/acan/space"));
  EXPECT_EQ(ModeOfEntry(folder / "runtime/acan"), 0700u);
  EXPECT_EQ(ModeOfEntry(folder / "runtime/acan/space"), 0600u);
  const Result second = RunAcan({"broker"}, environment);
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("a live process listens"));
  Program manager({"manager", job, "--out", folder / "out", "--json"}, environment);
  ASSERT_EQ(manager.Wait(), 0) << manager.err();
  broker.Signal(SIGTERM);
  EXPECT_EQ(broker.Wait(), 128 + SIGTERM);
  EXPECT_THAT(broker.err(), Not(HasSubstr("any user")));
  EXPECT_FALSE(std::filesystem::exists(folder / "runtime/acan/space"));
}

TEST(Roles, DoNotMeetWhereOthersMayLookIn) {
  const TestFolder folder;
  const Environment environment = {{"XDG_RUNTIME_DIR", folder.path()}};
  std::filesystem::create_directory(folder / "acan");
  ::chmod((folder / "acan").c_str(), 0755);
  const std::string job = folder.Write("job.toml", SmallJob());
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"broker"}, {"handler", "--device", "cpu:1"}, {"manager", job}}) {
    const Result refused = RunAcan(words, environment);
    EXPECT_EQ(refused.code, 1) << words[0];
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr(folder / "acan"), HasSubstr("mode 0755"), HasSubstr("chmod 700")));
  }
  EXPECT_THAT(folder.Names(), ::testing::UnorderedElementsAre("acan", "job.toml"));
}

TEST(Roles, ABrokerThatListensOnAPortSaysWhoMayConnect) {
  const TestFolder folder;
  Program broker({"broker", "--listen", "tcp://127.0.0.1:*"});
  const std::string endpoint = EndpointOf(broker);
  EXPECT_TRUE(broker.WaitForErr(endpoint + " has no keys: any user of this host"));
  ASSERT_EQ(RunAcan({"keygen", "--out", folder / "keys"}).code, 0);
  Program guarded(
      {"broker", "--listen", "tcp://127.0.0.1:*", "--keys", folder / "keys/broker.key"});
  EndpointOf(guarded);
  guarded.Signal(SIGTERM);
  EXPECT_EQ(guarded.Wait(), 128 + SIGTERM);
  EXPECT_THAT(guarded.err(), Not(HasSubstr("any user")));
}

TEST(Roles, ABrokersHostThatCannotBeResolvedIsNamedAtOnce) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::string endpoint = "tcp://no-such-host.invalid:5555";
  Program handler(HandlerWords(endpoint));
  Program manager(ManagerWords(endpoint, job, folder / "out"));
  for (Program* program : {&handler, &manager}) {
    ASSERT_TRUE(program->WaitForErr("\"no-such-host.invalid\" cannot be resolved"));
    program->Signal(SIGTERM);
    EXPECT_EQ(program->Wait(), 128 + SIGTERM);
    EXPECT_THAT(program->err(), AllOf(HasSubstr("--connect"), HasSubstr("Trying again")));
  }
}

TEST(Roles, AManagerWithoutHandlersSaysSoAndGoesOnWhenOneComes) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  Program broker({"broker", "--listen", "tcp://127.0.0.1:*"});
  const std::string endpoint = EndpointOf(broker);
  Program manager(ManagerWords(endpoint, job, folder / "out"));
  ASSERT_TRUE(manager.WaitForErr("no handler"));
  Program handler(HandlerWords(endpoint));
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
}

TEST(Roles, AHandlerThatIsTooSmallToProveItselfSaysWhatItNeeds) {
  const Result small = RunAcan(HandlerWords("tcp://127.0.0.1:1", "4KiB"));
  EXPECT_EQ(small.code, 2);
  EXPECT_THAT(small.err, AllOf(HasSubstr("cpu:1 with 4KiB"), HasSubstr("64KiB is enough for it")));
}

TEST(Roles, AHandlerThatCanHoldNoTaskIsNamedAndTheJobWaitsForALargerOne) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", R"(
[model]
layers = [300, 300, 2]
loss = "mse"
[data]
generated = "regression"
samples = 32
[train]
block = 256
epochs = 1
)");
  Program broker({"broker", "--listen", "tcp://127.0.0.1:*"});
  const std::string endpoint = EndpointOf(broker);
  Program small(HandlerWords(endpoint, "64KiB"));
  Program manager(ManagerWords(endpoint, job, folder / "out"));
  ASSERT_TRUE(manager.WaitForErr("the largest task needs"));
  ASSERT_TRUE(manager.WaitForErr("this handler offers 64KiB"));
  ASSERT_TRUE(manager.WaitForErr(
      "waiting for a handler with more memory (or begin again with train.block = "));
  Program large(HandlerWords(endpoint, "64MiB"));
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
}

// Brokers do not know each other, so the folder itself records its manager.
TEST(Roles, ASecondTrainWithTheSameFolderIsRefused) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  const std::vector<std::string> words = {"train",       job,     "--handlers",
                                          "cpu:1@16MiB", "--out", folder / "out"};
  Program first(words);
  ASSERT_TRUE(first.WaitForErr("epoch 1/"));
  const auto in_use =
      AllOf(HasSubstr("the output folder " + (folder / "out") + " is in use by pid " +
                      std::to_string(first.pid()) + " on host "),
            HasSubstr(" since "), HasSubstr("--out"));
  const Result second = RunAcan(words);
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, in_use);
  const Result resumed = RunAcan({"train", "--resume", folder / "out"});
  EXPECT_EQ(resumed.code, 1);
  EXPECT_THAT(resumed.err, in_use);
  // Managers at another broker, with this job and with another one.
  Program broker({"broker", "--listen", "tcp://127.0.0.1:*"});
  const std::string endpoint = EndpointOf(broker);
  const std::string small = folder.Write("small.toml", SmallJob());
  for (const std::string& which : {job, small}) {
    const Result manager = RunAcan(ManagerWords(endpoint, which, folder / "out"));
    EXPECT_EQ(manager.code, 1);
    EXPECT_THAT(manager.err, in_use);
  }
  Program standby({"manager", "--connect", endpoint, job, "--out", folder / "out", "--standby"});
  ASSERT_TRUE(standby.WaitForErr("waiting: the output folder"));
  // The first run is not disturbed; its folder is free once it is killed.
  EXPECT_FALSE(ReadFile(folder / "out/metrics.jsonl").empty());
  first.Signal(SIGKILL);
  EXPECT_EQ(first.Wait(), -SIGKILL);
  ASSERT_TRUE(standby.WaitForErr("no handler has joined yet")) << "it has the folder";
  const Result third = RunAcan({"train", "--resume", folder / "out"});
  EXPECT_EQ(third.code, 1);
  EXPECT_THAT(third.err, HasSubstr("in use by pid " + std::to_string(standby.pid())));
  standby.Signal(SIGTERM);
  EXPECT_EQ(standby.Wait(), 128 + SIGTERM) << standby.err();
  EXPECT_FALSE(std::filesystem::exists(folder / "out/manager.lock"));
}

TEST(Roles, TwoManagersOfOneJob) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program broker({"broker", "--listen", "tcp://127.0.0.1:*"});
  const std::string endpoint = EndpointOf(broker);
  Program handler(HandlerWords(endpoint));
  Program first(ManagerWords(endpoint, job, folder / "first"));
  ASSERT_TRUE(first.WaitForErr("epoch 1/"));
  // A refused manager must not remove a receipt: its folder might be that of the first manager.
  std::filesystem::create_directory(folder / "second");
  folder.Write("second/receipt.json", "of a run that was done");
  const Result second = RunAcan(ManagerWords(endpoint, job, folder / "second"));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("manager"), HasSubstr("job")));
  EXPECT_EQ(ReadFile(folder / "second/receipt.json"), "of a run that was done");
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
}

}  // namespace
}  // namespace acan::testing
