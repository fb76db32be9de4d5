// What the tuple space costs a training. The fixed job 784-4096-4096-10, batch 512, runs with a
// broker, a manager and two handlers of one thread (processes), against the same kernels called in
// one plain loop with two threads. On another device, it runs with one handler against the loop on
// that device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "acan/core/device.h"

namespace acan::bench {

struct TrainBenchOptions {
  std::vector<std::int64_t> layers = {784, 4096, 4096, 10};
  std::int64_t batch = 512;
  int handlers = 2;  // of one thread each; the plain loop has as many threads
  int steps = 12;    // of one run; the first three are not counted
  int repeats = 5;   // runs of both, alternating
  // Make the device of the loop and that of every handler; unset: the CPU's. They are called in
  // separate processes, because drivers do not survive a fork.
  std::function<std::unique_ptr<Device>()> make_device;
  std::function<std::unique_ptr<Device>()> make_handler_device;
};

// {job, ratio, acan_samples_per_s, plain_samples_per_s: {median, min, max, repeats}, same_weights};
// `ratio` is over the pairs of runs, above 1 where acan is faster. Takes about two minutes.
nlohmann::json RunTrainBench(const TrainBenchOptions& options);

}  // namespace acan::bench
