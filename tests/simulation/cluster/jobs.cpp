#include "cluster/jobs.h"

#include <memory>
#include <string>
#include <utility>

#include "acan/manager/dataset.h"
#include "world/random.h"

namespace acan::simulation {
namespace {

std::shared_ptr<const SampleSet> MakeSet(const Job& job, std::int64_t samples,
                                         const std::string& sha256) {
  Random random(static_cast<std::uint64_t>(samples) * 131);
  SampleValues set;
  set.samples = samples;
  set.inputs = job.perceptron().layers.front();
  const std::int64_t outputs = job.perceptron().layers.back();
  const auto value = [&random] {
    return static_cast<float>(random.Between(-1000, 1000)) / 1000.0f;
  };
  for (std::int64_t i = 0; i < samples * set.inputs; ++i) set.floats.push_back(value());
  if (job.perceptron().loss == Loss::kCrossEntropy) {
    for (std::int64_t i = 0; i < samples; ++i) {
      set.labels.push_back(static_cast<std::int32_t>(random.Between(0, outputs - 1)));
    }
  } else {
    set.targets = outputs;
    for (std::int64_t i = 0; i < samples * outputs; ++i) set.target_values.push_back(value());
  }
  std::vector<WantedInput> inputs{{"x", model::InputRole::kNumbers, 1, set.inputs}};
  if (set.targets == 0) {
    inputs.push_back({"labels", model::InputRole::kLabels, 1, 1, outputs});
  } else {
    inputs.push_back({"targets", model::InputRole::kTargets, 1, outputs});
  }
  return std::make_shared<DataSet>(std::move(set), std::move(inputs), sha256);
}

SimulatedJob Make(const char* name, Job job, std::int64_t train_samples,
                  std::int64_t test_samples) {
  job.training.block = 16;
  job.tasks.resident_steps = 3;
  // Named in the receipt; there are no such files.
  job.data.train_inputs = "/simulated/train-inputs";
  job.data.train_targets = "/simulated/train-targets";
  if (test_samples > 0) {
    job.data.test_inputs = "/simulated/test-inputs";
    job.data.test_targets = "/simulated/test-targets";
  }
  SimulatedJob made{name, std::move(job), {}};
  made.data.train = MakeSet(made.job, train_samples, std::string(64, 'a'));
  if (test_samples > 0) made.data.test = MakeSet(made.job, test_samples, std::string(64, 'b'));
  return made;
}

Job Basic(std::vector<std::int64_t> layers, std::int64_t batch, std::int64_t epochs) {
  Job job;
  job.perceptron().layers = std::move(layers);
  job.training.batch = batch;
  job.training.epochs = epochs;
  return job;
}

std::vector<SimulatedJob> MakeAll() {
  std::vector<SimulatedJob> jobs;
  {  // Two layers, an evaluation after each epoch, a last batch that is smaller.
    Job job = Basic({20, 33, 10}, 24, 2);
    jobs.push_back(Make("two layers, an evaluation after each epoch", std::move(job), 60, 20));
  }
  {  // Values, momentum, a snapshot after each step.
    Job job = Basic({18, 40, 5}, 32, 3);
    job.perceptron().loss = Loss::kMeanSquaredError;
    job.perceptron().activation = Activation::kTanh;
    job.training.optimizer = Optimizer::kMomentum;
    job.snapshots.every_steps = 1;
    jobs.push_back(Make("momentum, a snapshot after each step", std::move(job), 64, 0));
  }
  {  // Three layers in the smallest tiles; AdamW has two states.
    Job job = Basic({24, 32, 24, 4}, 16, 2);
    job.perceptron().activation = Activation::kGelu;
    job.training.optimizer = Optimizer::kAdamW;
    job.training.learning_rate = 0.01;
    job.tasks.size_bytes = 1024;
    job.snapshots.every_steps = 2;
    jobs.push_back(Make("three layers, AdamW", std::move(job), 48, 0));
  }
  {  // A pouch, and tasks that are reissued after a while, done or not.
    Job job = Basic({30, 20, 7}, 20, 2);
    job.tasks.pouch = 4;
    job.tasks.timeout_ms = 700;
    jobs.push_back(Make("a pouch, and a timeout for tasks", std::move(job), 50, 30));
  }
  {  // Batches in parts, without a shuffled order.
    Job job = Basic({16, 48, 3}, 40, 1);
    job.perceptron().activation = Activation::kSigmoid;
    job.training.shuffle = false;
    job.tasks.batch_rows = 16;
    job.tasks.size_bytes = 2048;
    job.snapshots.every_steps = 1;
    jobs.push_back(Make("batches in parts", std::move(job), 150, 17));
  }
  {  // Many short steps of one layer, a pouch of one.
    Job job = Basic({12, 6}, 8, 2);
    job.training.optimizer = Optimizer::kMomentum;
    job.tasks.pouch = 1;
    job.snapshots.every_steps = 3;
    jobs.push_back(Make("many short steps, a pouch of one", std::move(job), 40, 8));
  }
  {  // At least two handlers compute each result, since one of them may lie.
    Job job = Basic({18, 36, 6}, 24, 2);
    job.tasks.audit = 1;
    job.snapshots.every_steps = 1;
    jobs.push_back(Make("every result is audited", std::move(job), 48, 10));
  }
  return jobs;
}

}  // namespace

const std::vector<SimulatedJob>& Jobs() {
  static const std::vector<SimulatedJob> jobs = MakeAll();
  return jobs;
}

}  // namespace acan::simulation
