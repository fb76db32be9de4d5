// Help, usage errors and exit codes of the real program.
#include "program.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "nlohmann/json.hpp"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Help, OfEveryCommandTeachesByAnExample) {
  const Result all = RunAcan({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const char* command : {"train", "broker", "handler", "manager", "devices", "plan", "eval",
                              "generate", "graph", "verify", "version"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const Result help = RunAcan({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Example"), HasSubstr(std::string("  acan ") + command)));
    EXPECT_THAT(help.out, Not(HasSubstr("--child-of")));
    EXPECT_THAT(help.err, IsEmpty());
  }
}

TEST(Plan, SaysHowAJobWouldBeCut) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result whole = RunAcan({"plan", job, "--handlers", "cpu:1@64MiB", "--json"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const nlohmann::json one = nlohmann::json::parse(whole.out);
  EXPECT_EQ(one["moved_bytes"], one["least_moved_bytes"]);
  EXPECT_EQ(one["handlers"][0]["tasks_that_fit"], one["tasks"]);
  EXPECT_LE(one["largest_need_bytes"], 64 << 20);
  EXPECT_GT(one["estimated_step_ms"], 0);
  const Result small = RunAcan({"plan", job, "--handlers", "2xcpu:1@64KiB", "--json"});
  ASSERT_EQ(small.code, 0) << small.err;
  const nlohmann::json two = nlohmann::json::parse(small.out);
  EXPECT_LE(two["largest_need_bytes"], 64 << 10);
  EXPECT_EQ(two["handlers"].size(), 2u);
  std::int64_t tasks = 0;
  for (const nlohmann::json& stage : two["stages"]) tasks += stage["tasks"].get<std::int64_t>();
  EXPECT_EQ(two["tasks"], tasks);
  const Result text = RunAcan({"plan", job, "--handlers", "2xcpu:1@64KiB"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("tasks per step"), HasSubstr("handler cpu:1: 64KiB")));
}

TEST(Plan, SaysWhatCrossesTheLinksOfHosts) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::vector<std::string> words{"plan",    job, "--handlers", "2xcpu:1@64MiB",
                                       "--hosts", "2", "--link",     "0.1"};
  std::vector<std::string> with_json = words;
  with_json.push_back("--json");
  const Result result = RunAcan(with_json);
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json plan = nlohmann::json::parse(result.out);
  ASSERT_EQ(plan["hosts"].size(), 2u);
  EXPECT_EQ(plan["hosts"][0]["tasks"].get<int>() + plan["hosts"][1]["tasks"].get<int>(),
            plan["tasks"].get<int>());
  EXPECT_GT(plan["hosts"][0]["in_bytes"].get<int>() + plan["hosts"][1]["in_bytes"].get<int>(), 0);
  EXPECT_GT(plan["manager_out_bytes"].get<int>() + plan["broker_out_bytes"].get<int>(), 0);
  const Result text = RunAcan(words);
  EXPECT_THAT(text.out, AllOf(HasSubstr("gets no tasks"), HasSubstr("the manager sends"),
                              HasSubstr("one more host would not")));
}

// Plans leave out handlers with less than half of their processors, so all four would be left out
// on a machine with fewer processors than those of the hosts.
TEST(Plan, HostsHaveTheProcessorsOfTheirHandlers) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const unsigned threads = std::min(2 * std::thread::hardware_concurrency() + 1, 33u);
  const Result result =
      RunAcan({"plan", job, "--handlers", "4xcpu:" + std::to_string(threads) + "@64MiB", "--hosts",
               "4", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GE(nlohmann::json::parse(result.out)["workers"], 4);
}

TEST(Plan, TheEstimateContainsTheRoundTripsOfTheLinks) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const auto estimated_ms = [&](const std::string& round_trip_us) {
    const Result result = RunAcan({"plan", job, "--handlers", "2xcpu:1@64MiB", "--hosts", "2",
                                   "--round-trip", round_trip_us, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out)["estimated_step_ms"].get<double>();
  };
  // A step has several round trips, of which each takes 1 s instead of 0.2 ms.
  EXPECT_GT(estimated_ms("1000000") - estimated_ms("200"), 990.0);
}

// Without the sentence, the estimate would look as good as one of placed tasks.
TEST(Plan, SaysWhyTheTasksCannotBePlacedOnHosts) {
  const TestFolder folder;
  std::string text = SmallJob();
  text.replace(text.find("40, 2"), 5, "256, 256, 2");
  const std::string wide = folder.Write("wide.toml", text);
  const std::string why = "the handlers have too little memory to keep the weights";
  std::vector<std::string> words{"plan", wide, "--handlers", "2xcpu:1@96KiB", "--hosts", "2"};
  const Result said = RunAcan(words);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("cannot be placed on the hosts, because " + why),
                              HasSubstr("The estimate is rough"), Not(HasSubstr("host 1"))));
  words.push_back("--json");
  const nlohmann::json plan = nlohmann::json::parse(RunAcan(words).out);
  EXPECT_THAT(plan["not_placed"].get<std::string>(), HasSubstr(why));
  EXPECT_FALSE(plan.contains("hosts"));
  EXPECT_FALSE(plan.contains("estimated_step_ms_with_one_more_host"));
}

TEST(Plan, PlacesTheTasksOfOneHandlerAndOfVeryMany) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const auto plan_for = [&](const std::string& handlers) {
    return RunAcan({"plan", job, "--handlers", handlers, "--hosts", "64", "--json"});
  };
  const nlohmann::json one = nlohmann::json::parse(plan_for("cpu:1@64MiB").out);
  ASSERT_EQ(one["hosts"].size(), 1u);
  EXPECT_EQ(one["hosts"][0]["tasks"], one["tasks"]);
  EXPECT_FALSE(one.contains("handlers_to_place"));
  const nlohmann::json many = nlohmann::json::parse(plan_for("65xcpu:1@1MiB").out);
  EXPECT_EQ(many["hosts"].size(), 64u);
  EXPECT_EQ(many["handlers_to_place"], 64);
  const Result text = RunAcan({"plan", job, "--handlers", "65xcpu:1@1MiB", "--hosts", "2"});
  EXPECT_THAT(text.out, HasSubstr("on at most 64 of the handlers"));
  const Result one_host = RunAcan({"plan", job, "--handlers", "cpu:1@64MiB"});
  EXPECT_THAT(one_host.out, Not(HasSubstr("link")));
}

TEST(Version, IsPrinted) {
  const Result result = RunAcan({"version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("acan 0."));
}

TEST(Usage, TheLastErrorHasTheFormatOfTheLog) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const auto expect_json = [](const Result& result, int code, const std::string& text) {
    EXPECT_EQ(result.code, code) << result.err;
    std::istringstream lines(result.err);
    nlohmann::json last;
    for (std::string line; std::getline(lines, line);) {
      last = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      EXPECT_TRUE(last.is_object()) << line;
    }
    ASSERT_TRUE(last.is_object());
    EXPECT_EQ(last["level"], "error");
    EXPECT_EQ(last["role"], "train");
    EXPECT_THAT(last["message"].get<std::string>(), HasSubstr(text));
  };
  const std::vector<std::string> words = {"train",       job,     "--handlers",
                                          "cpu:1@64KiB", "--out", folder / "out"};
  std::vector<std::string> flag = words;
  flag.insert(flag.end(), {"--log-format", "json", "--set", "model.layers=[300,300,2]", "--set",
                           "train.block=256"});
  expect_json(RunAcan(flag), 1, "the largest task needs");
  std::vector<std::string> wrong = words;
  wrong.insert(wrong.end(), {"--set", "train.epochs=many"});
  expect_json(RunAcan(wrong, {{"ACAN_LOG_FORMAT", "json"}}), 2, "train.epochs");
  // Mistakes in the command line itself, before and behind the flag.
  const std::string last = "see \"acan train --help\"";
  expect_json(RunAcan({"train", "--nope", job, "--log-format", "json"}), 2, last);
  expect_json(RunAcan({"train", job, "--out", "--log-format=json", "--out"}), 2, last);
  expect_json(RunAcan({"train", job, "--out"}, {{"ACAN_LOG_FORMAT", "json"}}), 2, last);
}

TEST(Usage, NoOrUnknownCommand) {
  EXPECT_EQ(RunAcan({}).code, 2);
  const Result result = RunAcan({"trian", "job.toml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("trian"), HasSubstr("train"), HasSubstr("acan --help")));
  EXPECT_THAT(result.out, IsEmpty());
}

TEST(Usage, UnknownFlag) {
  const Result result = RunAcan({"train", "job.toml", "--handler", "cpu:1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--handler"), HasSubstr("acan train --help")));
}

TEST(Usage, JobThatIsMissing) {
  const Result result = RunAcan({"train", "no-such-job.toml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("no-such-job.toml"));
}

TEST(Usage, UnknownKeyInTheJobNamesLineAndNearestKey) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob() + "epohcs = 3\n");
  const Result result = RunAcan({"train", job, "--out", folder / "out"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("epohcs"), HasSubstr("line 13"), HasSubstr("epochs")));
  EXPECT_THAT(folder.Names(), ::testing::ElementsAre("job.toml"));
}

TEST(Usage, UnknownKeyInSet) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result result = RunAcan({"train", job, "--set", "train.epoch=3"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("train.epoch=3"), HasSubstr("epochs")));
}

TEST(Usage, BadSizesAndLists) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  Result result = RunAcan({"train", job, "--memory", "64K"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--memory"), HasSubstr("64K"), HasSubstr("64KiB")));
  result = RunAcan({"train", job, "--handlers", "cpu:1@1MiB", "--memory", "64K"});
  EXPECT_EQ(result.code, 2) << "refused even where nothing needs it";
  result = RunAcan({"train", job, "--handlers", "1024xauto,auto"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("1024"));
  result = RunAcan({"train", job}, {{"ACAN_MEMORY", "much"}});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("ACAN_MEMORY"), HasSubstr("much")));
  result = RunAcan({"train", job, "--handlers", "cpu:1,cuda:first"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cuda:first"), HasSubstr("`acan devices` lists")));
  result = RunAcan({"train", job, "--transport", "pigeon"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("pigeon"), HasSubstr("ipc or tcp")));
  result = RunAcan({"train", job, "--log-format", "xml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("xml"), HasSubstr("text or json")));
}

TEST(Usage, BadEndpoints) {
  for (const char* endpoint :
       {"localhost:5555", "tcp://", "http://127.0.0.1:80", "tcp://127.0.0.1"}) {
    const Result result = RunAcan({"handler", "--connect", endpoint});
    EXPECT_EQ(result.code, 2) << endpoint;
    EXPECT_THAT(result.err, AllOf(HasSubstr(endpoint), HasSubstr("tcp://127.0.0.1:5555")));
  }
  const Result result = RunAcan({"handler", "--connect", "tcp://127.0.0.1:notaport"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("tcp://127.0.0.1:notaport"));
}

TEST(Usage, HostsThatNobodyCanHave) {
  for (const char* host : {"two words", "a..b", "-a", "a-", ".a", "300.1.1.1", "1.2.3", "[::g]",
                           "[::1", "::1", "a/b", "*", "a;b",
                           "b\xc3\xbc"
                           "cher"}) {
    const std::string endpoint = std::string("tcp://") + host + ":5555";
    const Result result = RunAcan({"handler", "--connect", endpoint});
    EXPECT_EQ(result.code, 2) << endpoint;
    EXPECT_THAT(result.err, AllOf(HasSubstr("--connect"), HasSubstr(endpoint),
                                  HasSubstr("a name or an address is needed")));
  }
}

TEST(Usage, VectorInstructionsThatDoNotExist) {
  const Result result = RunAcan({"devices"}, {{"ACAN_CPU_ISA", "mmx"}});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("ACAN_CPU_ISA"), HasSubstr("mmx"), HasSubstr("portable")));
}

TEST(Broker, RefusesAddressesThatOthersCanReach) {
  for (const char* endpoint : {"tcp://0.0.0.0:*", "tcp://*:*", "tcp://192.0.2.1:5555"}) {
    const Result result = RunAcan({"broker", "--listen", endpoint});
    EXPECT_EQ(result.code, 2) << endpoint;
    EXPECT_THAT(result.err, AllOf(HasSubstr(endpoint), HasSubstr("loopback")));
  }
}

TEST(Broker, SaysThatAnAddressIsTaken) {
  Program first({"broker", "--listen", "tcp://127.0.0.1:*"});
  const std::string endpoint = EndpointOf(first);
  ASSERT_THAT(endpoint, ::testing::StartsWith("tcp://127.0.0.1:"));
  const Result second = RunAcan({"broker", "--listen", endpoint});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr(endpoint));
}

TEST(Train, OutFolderThatCannotBeWritten) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::string file = folder.Write("file", "not a folder");
  const Result result = RunAcan({"train", job, "--handlers", "cpu:1", "--out", file + "/out"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(file));
}

TEST(Devices, AreExactAndMeasured) {
  const Result result = RunAcan({"devices", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json devices = nlohmann::json::parse(result.out);
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0]["name"], "cpu:1");
  for (const nlohmann::json& device : devices) {
    if (!device["usable"].get<bool>()) {
      EXPECT_NE(device["backend"], "cpu");
      EXPECT_THAT(device["problem"].get<std::string>(), Not(IsEmpty())) << device;
      continue;
    }
    EXPECT_EQ(device["conformance_hash"], devices[0]["conformance_hash"]) << device;
    EXPECT_TRUE(device["exact"].get<bool>()) << device;
    for (const char* rate : {"gflops", "upload_gb_s", "download_gb_s"}) {
      EXPECT_GT(device[rate].get<double>(), 0) << device;
    }
  }
  EXPECT_THAT(RunAcan({"devices"}).out,
              AllOf(HasSubstr("cpu:1"), HasSubstr("GFLOP/s"), HasSubstr("exact")));
}

TEST(Devices, AListProvesAndMeasuresNothing) {
  const Result result = RunAcan({"devices", "--list", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json devices = nlohmann::json::parse(result.out);
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0]["name"], "cpu:1");
  for (const nlohmann::json& device : devices) {
    EXPECT_GT(device["memory_bytes"].get<double>(), device["usable"].get<bool>() ? 0 : -1);
    for (const char* key : {"exact", "conformance_hash", "gflops"}) {
      EXPECT_FALSE(device.contains(key)) << key << " of " << device;
    }
  }
  EXPECT_THAT(RunAcan({"devices", "--list"}).out,
              AllOf(HasSubstr("cpu:1"), HasSubstr("precisions"), Not(HasSubstr("GFLOP/s"))));
}

TEST(Devices, SayWhyTheyCannotBeUsed) {
  const Environment nowhere = {{"ACAN_MODULE_PATH", "/nowhere"}};
  const Result listed = RunAcan({"devices", "--json"}, nowhere);
  ASSERT_EQ(listed.code, 0) << listed.err;
  const nlohmann::json last = nlohmann::json::parse(listed.out).back();
  EXPECT_EQ(last["name"], "opencl");
  EXPECT_FALSE(last["usable"].get<bool>());
  EXPECT_THAT(last["problem"].get<std::string>(),
              AllOf(HasSubstr("acan_opencl.so"), HasSubstr("/nowhere")));
  const Result handler =
      RunAcan({"handler", "--connect", "tcp://127.0.0.1:1", "--device", "opencl:0"}, nowhere);
  EXPECT_EQ(handler.code, 1);
  EXPECT_THAT(handler.err, AllOf(HasSubstr("opencl:0 cannot be used"), HasSubstr("/nowhere")));
}

// As two OpenCL drivers do that each bring an LLVM.
TEST(Devices, AreAbsentIfTheirDriverEndsItsProcess) {
  const Environment aborting = {{"ACAN_MODULE_PATH", ACAN_ABORTING_MODULE}};
  const auto says_why = AllOf(HasSubstr("Aborted"), HasSubstr("LLVM ERROR: two of them"));
  const Result listed = RunAcan({"devices", "--list", "--json"}, aborting);
  ASSERT_EQ(listed.code, 0) << listed.err;
  const nlohmann::json last = nlohmann::json::parse(listed.out).back();
  EXPECT_EQ(last["name"], "opencl");
  EXPECT_FALSE(last["usable"].get<bool>());
  EXPECT_THAT(last["problem"].get<std::string>(), says_why);
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result trained = RunAcan({"train", job, "--out", folder / "out"}, aborting);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, AllOf(HasSubstr("warning: opencl cannot be used"), says_why));
  const Result named =
      RunAcan({"train", job, "--handlers", "opencl:0", "--out", folder / "named"}, aborting);
  EXPECT_EQ(named.code, 1);
  EXPECT_THAT(named.err, AllOf(HasSubstr("opencl:0 cannot be used"), says_why));
}

}  // namespace
}  // namespace acan::testing
