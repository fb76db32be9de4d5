// SampleSet: the samples of a data set, in memory or in files, as the inputs of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "acan/core/range.h"
#include "acan/model/graph.h"

namespace acan {

// An input of a model: for each sample a matrix [positions, features] of float or int32.
struct WantedInput {
  std::string name;
  model::InputRole role = model::InputRole::kNumbers;
  std::int64_t positions = 1;  // rows of one sample: tokens, pixels, or 1
  std::int64_t features = 1;
  std::int64_t bound = 0;  // integers only: values are below it (lengths: at most it)
  // Labels only: the value that stands for "no class"; unset if the loss needs a class everywhere.
  // In a loaded set it is unset if every label is a class.
  std::optional<std::int64_t> ignored_label = {};
  std::optional<model::Extent> image = {};            // for pixels: height and width, if known
  std::optional<std::int64_t> ignored_in_files = {};  // the files' value instead; unset: itself

  std::optional<std::int64_t> IgnoredInFiles() const {
    return ignored_in_files ? ignored_in_files : ignored_label;
  }
  friend bool operator==(const WantedInput&, const WantedInput&) = default;
};

// Null if there is no input of that name.
const WantedInput* FindInput(const std::vector<WantedInput>& inputs, std::string_view name);

// A part of one sample's values for one input.
struct SamplePart {
  std::string_view input;
  std::int64_t sample = 0;
  std::int64_t epoch = 0;  // selects the random draws, such as an image's crop
  Range positions;
  Range features;
};

// Immutable after loading; any thread may read it.
class SampleSet {
 public:
  virtual ~SampleSet() = default;

  virtual std::int64_t samples() const = 0;
  // The hash of everything except the epoch that decides what Copy writes: the values and how they
  // are used.
  virtual const std::string& sha256() const = 0;
  virtual const std::vector<WantedInput>& inputs() const = 0;
  // Writes the part row by row as 32-bit words, the bits of float or int32; fills `out`.
  // REQUIRES: the part lies within the set, and `out` has room for exactly its values.
  // Throws Error (failure) if a file that is not in memory has changed or can no longer be read.
  virtual void Copy(const SamplePart& part, std::span<std::uint32_t> out) const = 0;

 protected:
  SampleSet() = default;
  SampleSet(const SampleSet&) = default;
  SampleSet& operator=(const SampleSet&) = default;
};

struct Data {
  std::shared_ptr<const SampleSet> train;
  std::shared_ptr<const SampleSet> test;  // null: none
  // For text: the meaning of the token numbers, as JSON; otherwise empty.
  std::string vocabulary = {};
  // Messages to the user about conversions that may not be intended.
  std::vector<std::string> warnings = {};

  // 0 or "" if there is no such set.
  std::int64_t train_samples() const { return train ? train->samples() : 0; }
  std::int64_t test_samples() const { return test ? test->samples() : 0; }
  std::string train_sha256() const { return train ? train->sha256() : ""; }
  std::string test_sha256() const { return test ? test->sha256() : ""; }
};

// The order of the samples in an epoch: a permutation of [0, samples), a pure function of (seed,
// epoch) by Philox (Fisher-Yates from the end with unbiased bounded draws); file order if !shuffle.
std::vector<std::int64_t> EpochOrder(std::int64_t samples, std::uint64_t seed, std::int64_t epoch,
                                     bool shuffle);

}  // namespace acan
