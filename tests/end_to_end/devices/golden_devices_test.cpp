// Each kind of model trains its golden weights on each kind of device, alone and with the others.
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "golden_hashes.h"
#include "golden_jobs.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "offered_devices.h"
#include "program.h"

namespace acan::testing {
namespace {

// One cluster trains all jobs, because a device takes longer to start than for the few steps.
class GoldenDevices : public ::testing::Test {
 protected:
  GoldenDevices()
      : endpoint_("ipc://" + (folder_ / "space")), broker_({"broker", "--listen", endpoint_}) {}

  void Start(const std::string& device, const std::string& memory) {
    handlers_.emplace_back(std::vector<std::string>{"handler", "--connect", endpoint_, "--device",
                                                    device, "--memory", memory},
                           OfferedGpus());
  }
  // Trains all golden jobs, with these arguments. Returns how many tasks each device has done.
  std::map<std::string, int> TrainAll(const std::vector<std::string>& more) {
    std::map<std::string, int> tasks;
    for (const GoldenJob& job : WriteGoldenJobs(folder_)) {
      std::vector<std::string> words = {"manager", "--connect", endpoint_,
                                        job.path,  "--out",     folder_ / ("out/" + job.name),
                                        "--json"};
      words.insert(words.end(), more.begin(), more.end());
      const Result run = RunAcan(words);
      EXPECT_EQ(run.code, 0) << job.name << ": " << run.err;
      if (run.code != 0) break;
      const auto receipt = nlohmann::json::parse(LastLine(run.out));
      EXPECT_EQ(receipt["weights_sha256"], kGoldenHashes.at(job.name)) << job.name;
      for (const nlohmann::json& handler : receipt["handlers"]) {
        tasks[handler["device"].get<std::string>()] += handler["tasks"].get<int>();
      }
    }
    return tasks;
  }

  TestFolder folder_;
  std::string endpoint_;
  Program broker_;
  std::deque<Program> handlers_;
};

class GoldenDevicesAlone : public GoldenDevices,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(GoldenDevicesAlone, TrainTheWeightsOfTheRevision) {
  const nlohmann::json device = UsableDevice(GetParam(), OfferedGpus());
  if (device.is_null()) GTEST_SKIP() << "no " << GetParam() << " device here: not tested";
  const std::string name = device["name"];
  Start(name, "1GiB");
  const std::map<std::string, int> tasks = TrainAll({});
  EXPECT_EQ(tasks.size(), 1u);
  EXPECT_TRUE(tasks.contains(name)) << ::testing::PrintToString(tasks);
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenDevicesAlone, ::testing::Values("opencl", "cuda"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Several tasks of a step can run at the same time because each touches few weights. A handler that
// waits gets a task however slow its device is.
TEST_F(GoldenDevices, TogetherTrainTheWeightsOfTheRevision) {
  std::vector<std::string> devices = {"cpu:1", "cpu:2"};
  std::string missing;
  for (const char* backend : {"opencl", "cuda"}) {
    const nlohmann::json device = UsableDevice(backend, OfferedGpus());
    if (device.is_null()) {
      missing += (missing.empty() ? "" : " and ") + std::string(backend);
    } else {
      devices.push_back(device["name"]);
    }
  }
  CompileKernels();
  for (const std::string& device : devices) Start(device, "4MiB");
  for (Program& handler : handlers_) ASSERT_TRUE(handler.WaitForErr("joined"));
  const std::map<std::string, int> tasks =
      TrainAll({"--set", "tasks.size_bytes=16384", "--set", "tasks.leave_out_slow=false"});
  for (const std::string& device : devices) {
    const auto found = tasks.find(device);
    EXPECT_TRUE(found != tasks.end() && found->second > 0)
        << device << " has computed nothing: " << ::testing::PrintToString(tasks);
  }
  if (!missing.empty()) GTEST_SKIP() << "no " << missing << " device here: tested without";
}

}  // namespace
}  // namespace acan::testing
