// What the tuple space costs a training: the fixed job 784-4096-4096-10, batch 512, by a broker, a
// manager and two handlers of one thread (processes), against the same kernels called in one plain
// loop with two threads; or, on another device, by one handler against the loop on that device.
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
  int handlers = 2;  // of one thread; the plain loop has as many threads
  int steps = 12;    // of one run; the first three are not counted
  int repeats = 5;   // alternating runs of both
  // Make the device of the loop and that of every handler, if it is not the CPU's. Called in
  // processes of their own: drivers do not survive a fork.
  std::function<std::unique_ptr<Device>()> make_device;
  std::function<std::unique_ptr<Device>()> make_handler_device;
};

// {job, ratio, acan_samples_per_s, plain_samples_per_s: {median, min, max, repeats},
// same_weights}; `ratio` over the pairs of runs, above 1 where acan is faster. Two minutes or so.
nlohmann::json RunTrainBench(const TrainBenchOptions& options);

}  // namespace acan::bench
