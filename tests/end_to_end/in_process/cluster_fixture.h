// Runs broker, manager and handlers as threads of this process. The oracle is a plain loop over the
// same kernels.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "acan/core/names.h"
#include "acan/cpu/cpu_device.h"
#include "acan/handler/handler.h"
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "plain_loop.h"
#include "tuplespace/broker.h"

namespace acan {

// A handler that runs on its own thread.
class RunningHandler {
 public:
  RunningHandler(const std::string& endpoint, std::uint64_t memory_bytes)
      : RunningHandler(Options(endpoint, memory_bytes)) {}
  explicit RunningHandler(HandlerOptions options)
      : handler_(std::make_unique<Handler>(std::move(options))), thread_([this] { Run(); }) {}
  ~RunningHandler() { Stop(); }
  HandlerReport Stop() {
    {
      const std::lock_guard lock(mutex_);
      if (handler_) handler_->Stop();
    }
    if (thread_.joinable()) thread_.join();
    return report_;
  }
  static HandlerOptions Options(const std::string& endpoint, std::uint64_t memory_bytes) {
    HandlerOptions options;
    options.endpoint = endpoint;
    options.name = "test handler of " + std::to_string(memory_bytes) + " bytes";
    options.device = MakeCpuDevice({.threads = 1, .memory_limit_bytes = memory_bytes, .isa = {}});
    return options;
  }

 private:
  void Run() {
    try {
      report_ = handler_->Run();
    } catch (const DeviceLost&) {  // like a handler's process, which ends then
      const std::lock_guard lock(mutex_);
      handler_.reset();
    }
  }

  HandlerReport report_;
  std::mutex mutex_;  // guards the destruction of handler_
  std::unique_ptr<Handler> handler_;
  std::thread thread_;
};

class ClusterTest : public testing::Test {
 protected:
  explicit ClusterTest(std::uint64_t payload_bytes = tuplespace::SpaceLimits().payload_bytes) {
    std::string folder = (std::filesystem::temp_directory_path() / "acan-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    tuplespace::BrokerOptions options;
    options.listen = {"ipc://" + folder_ + "/space"};
    options.first_tuples = FirstTuples();
    options.limits.payload_bytes = payload_bytes;
    broker_ = std::make_unique<tuplespace::Broker>(std::move(options));
    endpoint_ = broker_->endpoints().front();
    broker_thread_ = std::thread([this] { broker_->Run(); });
  }
  ~ClusterTest() override {
    handlers_.clear();
    broker_->Stop();
    broker_thread_.join();
    broker_.reset();
    std::filesystem::remove_all(folder_);
  }

  static Job SmallJob(const std::string& more = "") {
    return ParseJob(
        "[model]\nlayers = [97, 211, 53, 10]\nactivation = \"tanh\"\nloss = \"mse\"\n"
        "[data]\ngenerated = \"regression\"\nsamples = 400\n"
        "[train]\nbatch = 37\nepochs = 3\nlearning_rate = 0.05\noptimizer = \"momentum\"\n" +
            more,
        "test", ".", {});
  }
  static std::string PlainHash(const Job& job) {
    const Data data = LoadData(job);
    const auto device = MakeCpuDevice({.threads = 1, .memory_limit_bytes = 1ull << 30, .isa = {}});
    bench::PlainLoop loop(*device, job, *data.train);
    for (std::int64_t step = 0; step < loop.total_steps(); ++step) loop.Step(step);
    return loop.WeightsSha256();
  }
  void AddHandler(std::uint64_t memory_bytes) { handlers_.emplace_back(endpoint_, memory_bytes); }
  void AddHandler(std::unique_ptr<Device> device) {
    HandlerOptions options = RunningHandler::Options(endpoint_, 0);
    options.device = std::move(device);
    handlers_.emplace_back(std::move(options));
  }

  // Runs the job; calls `at_step` on this thread after each step.
  Receipt Run(const Job& job, std::function<void(const Progress&)> at_step = nullptr) {
    ManagerOptions options;
    options.endpoint = endpoint_;
    options.source = "test";
    options.expected_handlers = static_cast<int>(handlers_.size());
    options.least_removed_bytes = least_removed_bytes_;
    options.progress = std::move(at_step);
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    return *Manager(std::move(options), job, LoadData(job)).Run();
  }

  std::string folder_, endpoint_, log_;
  std::uint64_t least_removed_bytes_ = ManagerOptions().least_removed_bytes;
  std::unique_ptr<tuplespace::Broker> broker_;
  std::thread broker_thread_;
  std::list<RunningHandler> handlers_;
};

}  // namespace acan
