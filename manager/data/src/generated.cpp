#include "generated.h"

#include <fmt/format.h>

#include <cmath>

#include "acan/core/error.h"
#include "acan/core/philox.h"
#include "acan/manager/input_file.h"
#include "random_streams.h"

namespace acan {
namespace {

constexpr std::int64_t kHidden = 16;

// Element `index` of a stream, in [-1, 1): 24 random bits, exact.
float SignedUnit(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const acan_philox4 words = acan_philox(seed, index / 4, stream);
  return 2.0f * acan_unit_float(words.v[index % 4]) - 1.0f;
}

class Teacher {
 public:
  Teacher(std::int64_t inputs, std::int64_t outputs, std::uint64_t seed)
      : inputs_(inputs), outputs_(outputs) {
    std::uint64_t index = 0;
    const auto draw = [&](std::int64_t count, float scale, std::vector<float>* values) {
      for (std::int64_t i = 0; i < count; ++i) {
        values->push_back(scale * SignedUnit(seed, RandomStream(RandomUse::kTeacher, 0), index++));
      }
    };
    // Gives the hidden sums a variance of about 1, so that the activation is not nearly linear.
    draw(kHidden * inputs, 3.0f / std::sqrt(static_cast<float>(inputs)), &hidden_weights_);
    draw(kHidden, 1.0f, &hidden_biases_);
    draw(outputs * kHidden, 1.0f, &output_weights_);
  }

  // x[inputs] -> y[outputs]
  void Target(const float* x, float* y) const {
    float hidden[kHidden];
    for (std::int64_t h = 0; h < kHidden; ++h) {
      float sum = hidden_biases_[static_cast<std::size_t>(h)];
      const float* weights = hidden_weights_.data() + h * inputs_;
      for (std::int64_t i = 0; i < inputs_; ++i) sum += weights[i] * x[i];
      hidden[h] = sum / (1.0f + std::fabs(sum));
    }
    for (std::int64_t o = 0; o < outputs_; ++o) {
      float sum = 0;
      for (std::int64_t h = 0; h < kHidden; ++h) {
        sum += output_weights_[static_cast<std::size_t>(o * kHidden + h)] * hidden[h];
      }
      y[o] = sum;
    }
  }

 private:
  std::int64_t inputs_;
  std::int64_t outputs_;
  std::vector<float> hidden_weights_;  // [kHidden, inputs]
  std::vector<float> hidden_biases_;   // [kHidden]
  std::vector<float> output_weights_;  // [outputs, kHidden]
};

// Samples [first, first + samples) of the infinite sequence that the seed defines.
SampleValues MakeSamples(const Teacher& teacher, std::int64_t first, std::int64_t samples,
                         std::int64_t inputs, std::int64_t outputs, std::uint64_t seed) {
  SampleValues set;
  set.samples = samples;
  set.inputs = inputs;
  set.targets = outputs;
  set.floats.resize(static_cast<std::size_t>(samples * inputs));
  set.target_values.resize(static_cast<std::size_t>(samples * outputs));
  const std::uint64_t stream = RandomStream(RandomUse::kSampleInputs, 0);
  const auto base = static_cast<std::uint64_t>(first * inputs);
  for (std::size_t i = 0; i < set.floats.size(); ++i) {
    set.floats[i] = SignedUnit(seed, stream, base + i);
  }
  for (std::int64_t row = 0; row < samples; ++row) {
    teacher.Target(set.floats.data() + row * inputs, set.target_values.data() + row * outputs);
  }
  return set;
}

}  // namespace

GeneratedValues GenerateRegression(std::int64_t samples, std::int64_t inputs, std::int64_t outputs,
                                   std::uint64_t seed) {
  const std::int64_t bytes_of_one = (inputs + outputs) * static_cast<std::int64_t>(sizeof(float));
  if (samples > kMaxDataBytes / bytes_of_one) {
    throw UsageError(
        fmt::format("data.samples = {}: that many samples of {} inputs and {} outputs "
                    "exceed the limit of {} bytes; at most {} fit",
                    samples, inputs, outputs, kMaxDataBytes, kMaxDataBytes / bytes_of_one));
  }
  const Teacher teacher(inputs, outputs, seed);
  const std::int64_t test_samples = samples / 10 > 0 ? samples / 10 : 1;
  GeneratedValues data;
  data.train = MakeSamples(teacher, 0, samples, inputs, outputs, seed);
  data.test = MakeSamples(teacher, samples, test_samples, inputs, outputs, seed);
  return data;
}

}  // namespace acan
