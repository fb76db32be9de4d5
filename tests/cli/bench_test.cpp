// acan bench, as users run it. These tests make no claims about speed.
#include <signal.h>

#include <set>

#include "acan/core/operators/operators.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"
#include "unannounced.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Checks {median, min, max, repeats} of a quantity that must be positive.
void ExpectNumber(const nlohmann::json& row, const char* key) {
  ASSERT_TRUE(row.contains(key)) << key << " is missing in " << row;
  const nlohmann::json& number = row[key];
  EXPECT_EQ(number["repeats"], 3) << row;
  EXPECT_GT(number["min"].get<double>(), 0) << key << " in " << row;
  EXPECT_LE(number["min"].get<double>(), number["median"].get<double>()) << row;
  EXPECT_LE(number["median"].get<double>(), number["max"].get<double>()) << row;
}

TEST(BenchBackends, MeasuresEveryProductKernelAndTransferOfADevice) {
  const TestFolder folder;
  const std::string picture = folder / "backends.svg";
  const Result run = RunAcan(
      {"bench", "backends", "--quick", "--json", "--device", "cpu:1,2xcpu:2", "--svg", picture});
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json result = nlohmann::json::parse(run.out);
  EXPECT_THAT(result["acan"].get<std::string>(), HasSubstr("."));
  ASSERT_EQ(result["devices"].size(), 2u) << "each once";
  for (const nlohmann::json& device : result["devices"]) {
    const std::string name = device["name"];
    EXPECT_TRUE(device["problem"].is_null()) << device;
    EXPECT_EQ(device["fast_is"], "library");
    std::set<std::string> products, kernels, transfers;
    for (const nlohmann::json& row : result["products"]) {
      if (row["device"] != name) continue;
      products.insert(row["precision"].get<std::string>() + " " + row["form"].get<std::string>());
      for (const char* key : {"microseconds", "gflops", "limit_gflops", "ratio"}) {
        ExpectNumber(row, key);
      }
    }
    for (const nlohmann::json& row : result["kernels"]) {
      if (row["device"] != name) continue;
      kernels.insert(row["kernel"].get<std::string>());
      for (const char* key : {"microseconds", "gb_s", "limit_gb_s", "ratio"})
        ExpectNumber(row, key);
    }
    for (const nlohmann::json& row : result["transfers"]) {
      if (row["device"] != name) continue;
      transfers.insert(row["direction"].get<std::string>());
      for (const char* key : {"microseconds", "gb_s", "limit_gb_s", "ratio"})
        ExpectNumber(row, key);
    }
    EXPECT_EQ(products.size(), 6u) << "three forms in two precisions";
    for (const OperatorRow* kernel : kKernelRows) {
      EXPECT_EQ(kernels.count(std::string(kernel->name)), 1u) << kernel->name << " on " << name;
    }
    EXPECT_THAT(transfers, ::testing::ElementsAre("down", "up"));
  }
  EXPECT_EQ(result["overhead"].size(), 2u);
  for (const nlohmann::json& row : result["overhead"]) ExpectNumber(row, "microseconds");
  EXPECT_THAT(ReadFile(picture), AllOf(::testing::StartsWith("<svg "), HasSubstr("AdamW"),
                                       HasSubstr("cpu:2"), ::testing::EndsWith("</svg>\n")));
}

TEST(BenchBackends, ADeviceWithoutRoomIsNamedAndTheOthersAreMeasured) {
  const Result run =
      RunAcan({"bench", "backends", "--quick", "--json", "--device", "cpu:1@64KiB,cpu:2"});
  EXPECT_EQ(run.code, 1);
  const nlohmann::json result = nlohmann::json::parse(run.out);
  EXPECT_THAT(result["devices"][0]["problem"].get<std::string>(), HasSubstr("65536 bytes"));
  EXPECT_TRUE(result["devices"][1]["problem"].is_null());
  for (const char* section : {"products", "kernels", "transfers", "overhead"}) {
    EXPECT_FALSE(result[section].empty()) << section;
    for (const nlohmann::json& row : result[section]) EXPECT_EQ(row["device"], "cpu:2");
  }
}

TEST(Bench, NamesItsCommands) {
  const Result none = RunAcan({"bench"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("acan bench needs a command: expected one of space, gemm, "));
  const Result unknown = RunAcan({"bench", "foo"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err,
              HasSubstr("\"foo\" is not a command of acan bench: expected one of space, gemm, "));
}

TEST(BenchBackends, BadFlagsExitWithTwoAndSayWhatIsRight) {
  struct Case {
    std::vector<std::string> flags;
    std::vector<std::string> words;
  };
  const TestFolder folder;
  for (const Case& each : std::vector<Case>{
           {{"--device", "gpu:1"}, {"--device", "gpu:1", "opencl:N"}},
           {{"--device", "cpu:1,"}, {"--device", "empty entry"}},
           {{"--repeats", "2"}, {"--repeats", "2", "3 to 1000"}},
           {{"--repeats", "many"}, {"--repeats", "many"}},
           {{"--svg", folder / "no-such-folder/a.svg"}, {"--svg", "no-such-folder", "folder"}},
           {{"--svg", folder.path()}, {"--svg", folder.path(), "folder"}},
           {{"--quik"}, {"--quik", "acan bench backends --help"}}}) {
    std::vector<std::string> arguments = {"bench", "backends"};
    arguments.insert(arguments.end(), each.flags.begin(), each.flags.end());
    const Result run = RunAcan(arguments);
    EXPECT_EQ(run.code, 2) << each.flags[0];
    EXPECT_THAT(run.out, IsEmpty());
    for (const std::string& word : each.words) EXPECT_THAT(run.err, HasSubstr(word));
  }
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(BenchBackends, HelpTeachesByAnExample) {
  const Result help = RunAcan({"bench", "backends", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("Examples"), HasSubstr("  acan bench backends")));
}

// Its processes use sockets in a folder. When they end, only a child that waits for that can remove
// the folder.
TEST(BenchTrain, LeavesNothingWhoeverStopsIt) {
  const TestFolder temporary;
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    Program bench({"bench", "train", "--layers", "64,64,8", "--batch", "8", "--steps", "20000"},
                  {{"TMPDIR", temporary.path()}});
    ASSERT_TRUE(bench.WaitForFiles({temporary.path()}, [&] { return !temporary.Names().empty(); }));
    bench.Signal(signal);
    EXPECT_EQ(bench.Wait(), -signal) << bench.err();  // once nobody holds its output any more
    EXPECT_THAT(temporary.Names(), IsEmpty());
  }
}

// Otherwise it would wait for that process forever.
TEST(BenchTrain, EndsIfOneOfItsProcessesDies) {
  const TestFolder temporary;
  Program bench({"bench", "train", "--layers", "64,64,8", "--batch", "8", "--steps", "20000"},
                {{"TMPDIR", temporary.path()}});
  // A process that removes the folder, the broker and a handler.
  std::set<pid_t> processes;
  const auto all_run = [&] { return (processes = bench.Descendants()).size() >= 3; };
  ASSERT_TRUE(tuplespace::AwaitUnannounced([&] { return all_run() || !bench.Runs(); }));
  ASSERT_GE(processes.size(), 3u) << bench.err();
  SignalProcess(*processes.rbegin(), SIGKILL);
  EXPECT_EQ(bench.Wait(), 1);
  EXPECT_THAT(bench.err(), HasSubstr("a process of the benchmark has died"));
  EXPECT_TRUE(AllGone(processes));
}

}  // namespace
}  // namespace acan::testing
