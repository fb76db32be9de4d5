// The bits do not depend on the kind of device, and a device that fails does not stop a job.
#include <signal.h>

#include <deque>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "offered_devices.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Devices : public ::testing::Test {
 protected:
  Devices() : job_(WriteRaggedJob(folder_)) {
    const nlohmann::json receipt =
        Train(job_, folder_ / "reference", {"--handlers", "cpu:1@64MiB"});
    if (receipt.is_object()) reference_ = receipt["weights_sha256"];
  }

  TestFolder folder_;
  std::string job_;
  std::string reference_;
};

class MixedDevices : public Devices, public ::testing::WithParamInterface<const char*> {};

TEST_P(MixedDevices, TrainToTheSameBits) {
  const nlohmann::json device = UsableDevice(GetParam(), OfferedGpus());
  if (device.is_null()) GTEST_SKIP() << "no " << GetParam() << " device here: not tested";
  const std::string name = device["name"];
  std::vector<std::string> lists = {name + "@64MiB", "cpu:1@64MiB," + name + "@1MiB",
                                    "2x" + name + "@128KiB,cpu:1@128KiB"};
  const nlohmann::json other =
      UsableDevice(GetParam() == std::string("cuda") ? "opencl" : "cuda", OfferedGpus());
  if (!other.is_null()) {
    lists.push_back("cpu:1@1MiB," + name + "@1MiB," + other["name"].get<std::string>() + "@1MiB");
  }
  if (device["parts"].get<int>() > 1) {
    lists.push_back(name + "/0@1MiB," + name + "/1@64MiB");
  }
  for (const std::string& list : lists) {
    const nlohmann::json receipt =
        Train(job_, folder_ / "out", {"--handlers", list, "--set", "tasks.leave_out_slow=false"},
              OfferedGpus());
    ASSERT_TRUE(receipt.is_object()) << list;
    EXPECT_EQ(receipt["weights_sha256"], reference_) << list;
  }
}

// A driver's libraries, such as LLVM, may install signal handlers of their own.
TEST_P(MixedDevices, EndWhenTheirParentAsksOrDies) {
  const nlohmann::json device = UsableDevice(GetParam(), OfferedGpus());
  if (device.is_null()) GTEST_SKIP() << "no " << GetParam() << " device here: not tested";
  const std::string list = device["name"].get<std::string>() + "@64MiB";
  const Result trained =
      RunAcan({"train", job_, "--handlers", list, "--out", folder_ / "ends"}, OfferedGpus());
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, Not(HasSubstr("did not end within")));
  Program train({"train", job_, "--set", "train.epochs=1000000", "--handlers", list, "--out",
                 folder_ / "dies"},
                OfferedGpus());
  ASSERT_TRUE(train.WaitForErr("epoch 2/")) << train.err();
  const std::set<pid_t> children = train.Descendants();
  EXPECT_EQ(children.size(), 2u);
  train.Signal(SIGKILL);
  EXPECT_EQ(train.Wait(), -SIGKILL);
  EXPECT_TRUE(AllGone(children));
}

TEST_P(MixedDevices, ContinueATextToTheSameText) {
  const nlohmann::json device = UsableDevice(GetParam(), OfferedGpus());
  if (device.is_null()) GTEST_SKIP() << "no " << GetParam() << " device here: not tested";
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 3 == 0 ? "all the king's men " : "a horse of mine\n";
  folder_.Write("text", text);
  const std::string job = folder_.Write("llama.toml", R"([model]
kind = "llama"
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
hidden_size = 64
intermediate_size = 96
max_position_embeddings = 24
vocab_size = 32
[data]
text = "text"
[train]
batch = 4
steps = 10
learning_rate = 0.1
)");
  ASSERT_TRUE(Train(job, folder_ / "llama", {"--handlers", "cpu:1@64MiB"}).is_object());
  const auto generate = [this](const std::string& on) {
    const Result made = RunAcan(
        {"generate", folder_ / "llama", "--prompt", "a king", "--tokens", "40", "--device", on},
        OfferedGpus());
    EXPECT_EQ(made.code, 0) << made.err;
    return made.out;
  };
  EXPECT_EQ(generate(device["name"]), generate("cpu:1"));
}

INSTANTIATE_TEST_SUITE_P(Backends, MixedDevices, ::testing::Values("opencl", "cuda"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Handlers for all available kinds of devices join a running job one after the other. Fake GPUs are
// left out because they are so slow that the job would end before they get a task.
TEST_F(Devices, TenThatJoinOneAfterTheOtherTrainToTheSameBits) {
  CompileKernels();
  std::vector<std::string> kinds = {"cpu:1", "cpu:2"};
  for (const char* backend : {"opencl", "cuda"}) {
    const nlohmann::json device = UsableDevice(backend, {});
    if (device.is_null()) continue;
    kinds.push_back(device["name"]);
    if (device["parts"].get<int>() > 0) kinds.push_back(device["name"].get<std::string>() + "/0");
  }
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  const std::vector<std::string> more = {"--set", "train.epochs=50", "--set",
                                         "tasks.size_bytes=16384"};
  std::vector<std::string> words = {"manager", "--connect", endpoint,       job_,
                                    "--json",  "--out",     folder_ / "out"};
  words.insert(words.end(), more.begin(), more.end());
  Program manager(words);
  std::deque<Program> handlers;
  for (std::size_t i = 0; i < 10; ++i) {
    handlers.emplace_back(std::vector<std::string>{"handler", "--connect", endpoint, "--device",
                                                   kinds[i % kinds.size()], "--memory",
                                                   i % 2 == 0 ? "4MiB" : "512KiB"});
    ASSERT_TRUE(handlers.back().WaitForErr("joined")) << i;
  }
  ASSERT_EQ(manager.Wait(), 0) << manager.err();
  const auto receipt = nlohmann::json::parse(LastLine(manager.out()));
  std::vector<std::string> flags = {"--handlers", "cpu:1"};
  flags.insert(flags.end(), more.begin(), more.end());
  EXPECT_EQ(receipt["weights_sha256"], Train(job_, folder_ / "alone", flags)["weights_sha256"]);
  EXPECT_EQ(receipt["handlers"].size(), 10u);
}

#if defined(ACAN_EMPTY_DRIVER)

// What `acan devices` and a handler report if only these drivers are installed.
void ExpectProblem(const std::string& drivers, const std::string& problem) {
  const Environment environment = {{"OCL_ICD_VENDORS", drivers}};
  const Result listed = RunAcan({"devices", "--json"}, environment);
  ASSERT_EQ(listed.code, 0) << listed.err;
  const nlohmann::json last = nlohmann::json::parse(listed.out).back();
  EXPECT_EQ(last["name"], "opencl");
  EXPECT_THAT(last["problem"].get<std::string>(), HasSubstr(problem));
  const Result handler =
      RunAcan({"handler", "--connect", "tcp://127.0.0.1:1", "--device", "opencl:0"}, environment);
  EXPECT_EQ(handler.code, 1);
  EXPECT_THAT(handler.err, HasSubstr(problem));
}

TEST(OpenClDrivers, AreMissed) {
  const TestFolder folder;
  ExpectProblem(folder.path() + "/", "found no driver (CL_PLATFORM_NOT_FOUND_KHR)");
}

TEST(OpenClDrivers, WithoutADeviceAreNamed) {
  const TestFolder folder;
  folder.Write("empty.icd", std::string(ACAN_EMPTY_DRIVER) + "\n");
  ExpectProblem(folder.path() + "/",
                "drivers without a device: Empty driver (CL_DEVICE_NOT_FOUND)");
}

#endif

#ifdef ACAN_FAKE_GPU_MODULES

// Most memory of this fake GPU is local memory of its threads.
TEST(CudaHandler, WarnsThatItsDeviceHasLessThanIsAskedFor) {
  const TestFolder folder;
  Environment environment = OfferedGpus();
  environment["ACAN_FAKE_GPUS"] = "tight";
  Program handler({"handler", "--connect", "ipc://" + (folder / "nobody"), "--device", "cuda:0",
                   "--memory", "300MiB"},
                  environment);
  EXPECT_TRUE(handler.WaitForErr("warning: cuda:0 has only "));
  EXPECT_THAT(handler.err(), HasSubstr(" of the 300MiB asked for; other processes and the threads' "
                                       "local memory have the rest"));
  handler.Signal(SIGTERM);
  EXPECT_EQ(handler.Wait(), 128 + SIGTERM);
}

#endif

// A broker, and handlers on the CPU and on a device with a fault (see faulty_module.cpp).
class FaultyDevice : public Devices {
 protected:
  FaultyDevice()
      : endpoint_("ipc://" + (folder_ / "space")), broker_({"broker", "--listen", endpoint_}) {}

  std::vector<std::string> HandlerWords(const std::string& device) const {
    return {"handler", "--connect", endpoint_, "--device", device, "--memory", "64MiB"};
  }
  static Environment Fault(const std::string& fault) {
    return {{"ACAN_MODULE_PATH", ACAN_FAULTY_MODULES}, {"ACAN_TEST_FAULT", fault}};
  }
  void ExpectReference(Program& manager) const {
    ASSERT_EQ(manager.Wait(), 0) << manager.err();
    EXPECT_EQ(nlohmann::json::parse(LastLine(manager.out()))["weights_sha256"], reference_);
  }

  std::string endpoint_;
  Program broker_;
};

// The healthy handler takes part and is then stopped until the other one has met its fault. It is
// throttled so that the job does not end before that.
TEST_F(FaultyDevice, WithoutMemoryLeavesItsTasksToOthers) {
  std::vector<std::string> slow = HandlerWords("cpu:1");
  slow.insert(slow.end(), {"--throttle", "0.05"});
  Program healthy(slow);
  Program manager({"manager", "--connect", endpoint_, job_, "--out", folder_ / "out", "--json"});
  ASSERT_TRUE(manager.WaitForErr("step 1/"));
  healthy.Signal(SIGSTOP);
  Program faulty(HandlerWords("opencl:0"), Fault("memory:20"));
  ASSERT_TRUE(faulty.WaitForErr("task failed: clCreateBuffer on opencl:0: CL_OUT_OF_RESOURCES"));
  healthy.Signal(SIGCONT);
  ExpectReference(manager);
  faulty.Signal(SIGTERM);
  EXPECT_EQ(faulty.Wait(), 128 + SIGTERM) << "it went on with what it could do";
}

TEST_F(FaultyDevice, ThatIsLostEndsItsHandlerAndNotTheJob) {
  Program faulty(HandlerWords("opencl:0"), Fault("lost:20"));
  Program manager({"manager", "--connect", endpoint_, job_, "--out", folder_ / "out", "--json"});
  EXPECT_EQ(faulty.Wait(), 1);
  EXPECT_THAT(faulty.err(), HasSubstr("clFinish on opencl:0: CL_DEVICE_NOT_AVAILABLE"));
  Program healthy(HandlerWords("cpu:1"));
  ExpectReference(manager);
}

// Other handlers get the tasks of the hanging one, which logs why it does nothing. A second signal
// ends it.
TEST_F(FaultyDevice, ThatHangsIsSpokenOfAndKeepsNobody) {
  Program faulty(HandlerWords("opencl:0"), Fault("hang:0"));
  ASSERT_TRUE(faulty.WaitForErr("joined"));
  Program manager({"manager", "--connect", endpoint_, job_, "--out", folder_ / "out", "--json"});
  Program healthy(HandlerWords("cpu:1"));
  EXPECT_TRUE(faulty.WaitForErr("opencl:0 has been computing for"));
  ExpectReference(manager);
  faulty.Signal(SIGTERM);
  EXPECT_TRUE(faulty.WaitForErr("a second signal ends this process at once"));
  faulty.Signal(SIGINT);
  EXPECT_EQ(faulty.Wait(), 128 + SIGINT);
}

// Predict does not prove the device, but computes on it by itself.
TEST_F(FaultyDevice, ThatHangsInItsProofIsSpokenOf) {
  struct Hanging {
    std::vector<std::string> words;
    const char* says;
  };
  const std::vector<Hanging> commands = {
      {HandlerWords("opencl:0"), "handler opencl:0 has made no progress for"},
      {{"devices"}, "acan devices has made no progress for"},
      {{"check", "--connect", endpoint_, "--device", "opencl:0", "--memory", "64MiB"},
       "acan check has made no progress for"},
      {{"predict", folder_ / "reference", "--inputs", folder_ / "test-inputs", "--out",
        folder_ / "logits.npy", "--device", "opencl:0", "--memory", "64MiB"},
       "acan predict has made no progress for"}};
  std::deque<Program> programs;
  for (const Hanging& command : commands) programs.emplace_back(command.words, Fault("proof:0"));
  for (std::size_t i = 0; i < commands.size(); ++i) {
    EXPECT_TRUE(programs[i].WaitForErr(commands[i].says));
  }
  programs[0].Signal(SIGTERM);
  EXPECT_EQ(programs[0].Wait(), 128 + SIGTERM) << programs[0].err();
}

// The tasks are so short that the handler does not give them to the device's threads.
TEST_F(FaultyDevice, ThatHangsOnTheHandlersOwnThreadIsSpokenOf) {
  const std::string endless = folder_.Write("endless.toml", EndlessJob());
  Program faulty(HandlerWords("opencl:0"), Fault("own:0"));
  ASSERT_TRUE(faulty.WaitForErr("joined"));
  Program manager({"manager", "--connect", endpoint_, endless, "--out", folder_ / "out", "--set",
                   "train.batch=4"});
  EXPECT_TRUE(faulty.WaitForErr("handler opencl:0 has made no progress for"));
  faulty.Signal(SIGTERM);
  faulty.Signal(SIGINT);
  EXPECT_THAT(faulty.Wait(), AnyOf(128 + SIGTERM, 128 + SIGINT)) << faulty.err();
}

// There are no tasks for other devices, so the job cannot continue, and its error says why.
TEST_F(FaultyDevice, AloneMakesTheJobFailInItsWords) {
  Program faulty(HandlerWords("opencl:0"), Fault("memory:20"));
  Program manager({"manager", "--connect", endpoint_, job_, "--out", folder_ / "out", "--json"});
  EXPECT_EQ(manager.Wait(), 1);
  EXPECT_THAT(manager.err(), HasSubstr("CL_OUT_OF_RESOURCES"));
}

}  // namespace
}  // namespace acan::testing
