// SequenceSet: token sequences of one length, each with one label, or with a label per token.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "acan/manager/sample_set.h"
#include "acan/manager/stored_array.h"

namespace acan {

struct SequenceFiles {
  std::string tokens;       // [samples, positions]
  std::string labels;       // [samples] or [samples, positions], as the model takes them
  std::string lengths;      // [samples]; empty: all positions count
  std::string token_types;  // [samples, positions]; empty: all 0
  // Whether the user may still choose the number of positions, with model.sequence_length.
  bool positions_have_key = false;
};

class SequenceSet final : public SampleSet {
 public:
  // `wanted` is "tokens", and optionally "labels", "lengths" and "token_type_ids". Throws Error
  // (usage) for files that do not fit each other or the model, and for values out of bounds.
  SequenceSet(const SequenceFiles& files, std::vector<WantedInput> wanted);

  std::int64_t samples() const override { return samples_; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override;

 private:
  void RequireLengths(const SequenceFiles& files) const;

  std::vector<WantedInput> inputs_;
  std::map<std::string, StoredArray, std::less<>> arrays_;  // by input; absent: the default
  std::int64_t samples_ = 0;
  std::string sha256_;
};

}  // namespace acan
