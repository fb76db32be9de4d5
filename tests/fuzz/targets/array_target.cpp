// Data files: IDX, NPY and CSV, also compressed with gzip, read as arrays in memory and in the
// file, and the resulting samples; and the same bytes as a stream of tokens.
//
// Input: the file
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <variant>

#include "acan/core/error.h"
#include "acan/manager/load_data.h"
#include "acan/manager/stored_array.h"
#include "memory_file.h"
#include "target.h"
#include "tests/manager/test_files.h"

namespace acan::fuzz::array_target {
namespace {

// CSV is read in chunks of 1 MiB; gzip expands one byte to at most 1032.
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

// Uses the file as both the inputs and the targets of a job.
void CheckData(const std::string& path, const Array& array) {
  Job job;
  const std::int64_t values = array.values_per_sample();
  job.perceptron().layers = {values, std::max<std::int64_t>(values, 2)};
  job.perceptron().loss = values == 1 ? Loss::kCrossEntropy : Loss::kMeanSquaredError;
  if (values == 1) job.perceptron().layers.back() = 256;
  job.data.train_inputs = job.data.train_targets = path;
  try {
    CheckSet(*LoadData(job).train, job);
  } catch (const Error& refused) {  // not finite, or not a label
    Require(refused.kind() == Error::Kind::kUsage, "{}", refused.what());
  }
}

// The array must be the same whether its values are in memory or stay in the file.
void CheckStored(const StoredArray& stored, const Array& array) {
  Require(stored.shape() == array.shape, "shapes that differ");
  std::vector<std::uint8_t> bytes(
      static_cast<std::size_t>(stored.count() * BytesOf(stored.type())));
  stored.ReadBytes(0, bytes);
  std::visit(
      [&](const auto& values) {
        Require(bytes.size() == values.size() * sizeof(values[0]) &&
                    std::memcmp(bytes.data(), values.data(), bytes.size()) == 0,
                "values that differ");
      },
      array.values);
}

// Windows of two tokens: each token is below the bound, and each label is the next token.
void CheckTokens(const std::string& path, const std::string& type) {
  constexpr std::int64_t kTokens = 1000;
  Job job;
  job.data.tokens.train = path;
  job.data.tokens.type = type;
  const std::vector<WantedInput> wanted = {{"tokens", model::InputRole::kTokens, 2, 1, kTokens},
                                           {"labels", model::InputRole::kLabels, 2, 1, kTokens}};
  try {
    const Data data = LoadData(job, wanted);
    for (const std::int64_t sample : {std::int64_t{0}, data.train->samples() - 1}) {
      std::uint32_t tokens[2], labels[2];
      data.train->Copy({"tokens", sample, 3, {0, 2}, {0, 1}}, tokens);
      data.train->Copy({"labels", sample, 3, {0, 2}, {0, 1}}, labels);
      Require(tokens[1] == labels[0], "the label {} of the token {}", labels[0], tokens[1]);
      Require(tokens[0] < kTokens && tokens[1] < kTokens && labels[1] < kTokens, "no token");
    }
  } catch (const Error& refused) {
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
  CheckTokens(file.path(), "uint16");
  CheckTokens(file.path(), "uint32");
  CheckTokens(file.path(), "");
  check_heap();
  try {
    const Array array = ReadArray(file.path());
    check_heap();
    CheckArray(array);
    CheckStored(OpenArray(file.path()), array);
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
          {"npy-tokens", Npy("<i4", "(5,)", Raw<std::int32_t>({1, 2, 999, 4, 0}))},
          {"npy-column", Npy("<i8", "(5, 1)", Raw<std::int64_t>({1, 2, 3, 4, 5}))},
          {"npy-labels-gzip", Gzip(labels)}};
}

const Registration registration({"array", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz::array_target
