// WindowSet: a text as the windows of a language model.
//
//   text      t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 ...      a window has 3 tokens, the offset is 1
//   sample 0     [t1 t2 t3]                          its labels: t2 t3 t4
//   sample 1              [t4 t5 t6]                 its labels: t5 t6 t7
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "acan/manager/sample_set.h"
#include "acan/manager/stored_array.h"

namespace acan {

class WindowSet final : public SampleSet {
 public:
  // `tokens` has the shape [length]; `wanted` is "tokens" and "labels", both with as many positions
  // as a window has tokens. With a seed, the offset of an epoch's windows is drawn below a window's
  // length; without a seed, for testing, it is 0. Throws Error (usage) for a text that is too
  // short, and for a token that is outside the model's vocabulary.
  WindowSet(StoredArray tokens, std::vector<WantedInput> wanted, std::optional<std::uint64_t> seed);

  std::int64_t samples() const override { return samples_; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override;

 private:
  std::int64_t OffsetOf(std::int64_t epoch) const;

  StoredArray tokens_;
  std::vector<WantedInput> inputs_;
  std::int64_t length_;  // tokens per window
  std::int64_t samples_;
  std::optional<std::uint64_t> seed_;
  std::string sha256_;
};

}  // namespace acan
