// SampleSet: the samples of a data set, wherever they lie, as the inputs of a model.
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
  std::int64_t bound = 0;  // integers only: they are below it (lengths: not above it)
  // Labels only: what stands where there is no class; unset if the loss needs a class everywhere.
  // Of a set that was loaded: unset if each label is a class.
  std::optional<std::int64_t> ignored_label = {};
  std::optional<model::Extent> image = {};  // of pixels: their rows and columns, if that is known
  std::optional<std::int64_t> ignored_in_files = {};  // what files have in its place; unset: itself

  std::optional<std::int64_t> IgnoredInFiles() const {
    return ignored_in_files ? ignored_in_files : ignored_label;
  }
  friend bool operator==(const WantedInput&, const WantedInput&) = default;
};

// Null if there is none of that name.
const WantedInput* FindInput(const std::vector<WantedInput>& inputs, std::string_view name);

// A part of one sample's values for one input.
struct SamplePart {
  std::string_view input;
  std::int64_t sample = 0;
  std::int64_t epoch = 0;  // what is drawn at random, as a crop of an image, is drawn by it
  Range positions;
  Range features;
};

// Immutable after loading: safe to read from any thread.
class SampleSet {
 public:
  virtual ~SampleSet() = default;

  virtual std::int64_t samples() const = 0;
  // Of all that decides what Copy writes, but for the epoch: what was read and how it is used.
  virtual const std::string& sha256() const = 0;
  virtual const std::vector<WantedInput>& inputs() const = 0;
  // Writes the part row by row as 32-bit words, the bits of float or int32: all of `out`.
  // REQUIRES: the part lies within the set, and `out` has room for exactly its values.
  // Throws Error (failure) if a file that is not in memory has changed or cannot be read any more.
  virtual void Copy(const SamplePart& part, std::span<std::uint32_t> out) const = 0;

 protected:
  SampleSet() = default;
  SampleSet(const SampleSet&) = default;
  SampleSet& operator=(const SampleSet&) = default;
};

struct Data {
  std::shared_ptr<const SampleSet> train;
  std::shared_ptr<const SampleSet> test;  // null: none
  // Of text: what the numbers of tokens mean, as JSON; else empty.
  std::string vocabulary = {};
  // Sentences on what is done to values and may not be meant, for people to read.
  std::vector<std::string> warnings = {};

  // 0 and "" of a set that is not there.
  std::int64_t train_samples() const { return train ? train->samples() : 0; }
  std::int64_t test_samples() const { return test ? test->samples() : 0; }
  std::string train_sha256() const { return train ? train->sha256() : ""; }
  std::string test_sha256() const { return test ? test->sha256() : ""; }
};

// The order of an epoch: a permutation of [0, samples), a pure function of (seed, epoch) by Philox
// (Fisher-Yates from the end with unbiased bounded draws); file order if !shuffle.
std::vector<std::int64_t> EpochOrder(std::int64_t samples, std::uint64_t seed, std::int64_t epoch,
                                     bool shuffle);

}  // namespace acan
