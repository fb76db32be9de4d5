// Data files: IDX, NPY and CSV, also packed with gzip, and the samples that come of them.
//
// Input: the file
#include <zlib.h>

#include <algorithm>
#include <variant>

#include "acan/core/error.h"
#include "acan/manager/load_data.h"
#include "acan/manager/input_file.h"
#include "memory_file.h"
#include "target.h"
#include "tests/manager/test_files.h"

namespace acan::fuzz {
namespace {

// CSV is read in pieces of 1 MiB; gzip unpacks at most 1032 bytes from one.
constexpr std::uint64_t kHeapBytes = 8 << 20;
constexpr std::uint64_t kPlainFactor = 64, kGzipFactor = 4 * 1032;

void CheckArray(const Array& array) {
  std::int64_t values = 1;
  Require(!array.shape.empty(), "an array without a shape");
  for (const std::int64_t size : array.shape) {
    Require(size > 0, "an array with a size of {}", size);
    values *= size;
  }
  const std::size_t found = std::visit([](const auto& all) { return all.size(); }, array.values);
  Require(found == static_cast<std::size_t>(values), "{} values of a shape for {}", found, values);
}

void CheckSet(const SampleSet& set, const Job& job) {
  Require(set.samples() > 0 && set.inputs() == WantedInputs(job.perceptron()), "{} samples",
          set.samples());
  for (const WantedInput& input : set.inputs()) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(input.features));
    set.Copy({input.name, set.samples() - 1, 0, {0, 1}, {0, input.features}}, words);
    if (input.role != model::InputRole::kLabels) continue;
    Require(words[0] < static_cast<std::uint64_t>(input.bound), "the label {}", words[0]);
  }
}

// The file as both the inputs and the targets of a job.
void CheckData(const std::string& path, const Array& array) {
  Job job;
  const std::int64_t values = array.values_per_sample();
  job.perceptron().layers = {values, std::max<std::int64_t>(values, 2)};
  job.perceptron().loss = values == 1 ? Loss::kCrossEntropy : Loss::kMeanSquaredError;
  if (values == 1) job.perceptron().layers.back() = 256;
  job.data.train_inputs = job.data.train_targets = path;
  try {
    CheckSet(*LoadData(job).train, job);
  } catch (const Error& refused) {  // not finite, or no label
    Require(refused.kind() == Error::Kind::kUsage, "{}", refused.what());
  }
}

bool Run(std::string_view input) {
  const MemoryFile file(input);
  const bool packed = input.starts_with("\x1f\x8b");
  const HeapWatch heap;
  const auto check_heap = [&] {
    heap.RequireAtMost(kHeapBytes + (packed ? kGzipFactor : kPlainFactor) * input.size());
  };
  try {
    const Array array = ReadArray(file.path());
    check_heap();
    CheckArray(array);
    CheckData(file.path(), array);
    return true;
  } catch (const Error& refused) {
    check_heap();
    Require(refused.kind() == Error::Kind::kUsage, "{}", refused.what());
    return false;
  }
}

std::vector<Seed> Seeds() {
  const std::string csv = "first, second\n1,2.5\r\n-3e-2, 4\n";
  const std::string idx = IdxBytes({2, 3}, {0, 1, 2, 253, 254, 255});
  const std::string labels = Npy("<i8", "(3,)", Raw<std::int64_t>({0, 255, 7}));
  return {{"csv", csv},
          {"csv-gzip", Gzip(csv)},
          {"idx", idx},
          {"idx-gzip", Gzip(idx)},
          {"idx-floats", IdxHeader(0x0d, {1, 1}) + BigEndian(0x3f800000)},
          {"npy-bytes", Npy("|u1", "(2, 2)", Raw<std::uint8_t>({1, 2, 3, 4}))},
          {"npy-floats", Npy("<f4", "(2, 2)", Raw<float>({1, -2.5f, 3, 1e-40f}), 2)},
          {"npy-doubles", Npy("<f8", "(1, 2)", Raw<double>({1e-300, 2}), 3)},
          {"npy-labels", labels},
          {"npy-labels-gzip", Gzip(labels)}};
}

const Registration registration({"array", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz
