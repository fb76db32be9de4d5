// The job that the tests here disturb. It must always give the weights of the undisturbed run.
#pragma once

#include <string>

#include "program.h"

namespace acan::testing {

// Writes the job and returns its path. It has 1,090 steps; a snapshot has 261 kB, the model 130 kB,
// and a step's line of metrics 170 bytes. With `every_steps` = 0 there are no snapshots.
inline std::string WriteDisturbedJob(const TestFolder& folder, const std::string& name,
                                     int every_steps) {
  return folder.Write(name, R"([model]
layers = [97, 211, 53, 10]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 4000
[train]
batch = 37
epochs = 10
learning_rate = 0.05
optimizer = "momentum"
[snapshots]
every_steps = )" + std::to_string(every_steps) +
                                "\n");
}

}  // namespace acan::testing
