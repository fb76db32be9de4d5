// ImageSet: images, each with a label or without. Rows are pixels in scan order, features are
// channels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/sample_set.h"
#include "acan/manager/stored_array.h"

namespace acan {

class ImageSet final : public SampleSet {
 public:
  // `images` has the shape [n, h, w] (one channel), [n, c, h, w] or [n, h, w, c], as uint8, which
  // is scaled (value / 255), or as floats. `labels` has the shape [n], or is empty. `wanted` is
  // "images" and, with labels, "labels". With a seed, each image is cropped and flipped as `how`
  // says; without a seed, for testing, none is. Throws Error (usage) for files that do not fit each
  // other or the model, and for values that are out of bounds.
  ImageSet(const std::string& images, const std::string& labels, const ImageData& how,
           std::vector<WantedInput> wanted, std::optional<std::uint64_t> seed);

  std::int64_t samples() const override { return images_.samples(); }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override;

 private:
  // Where the pixel (0, 0) of a training sample lies in the file's image.
  struct View {
    std::int64_t top = 0, left = 0;
    bool flipped = false;
  };

  void OpenLabels(const std::string& path);
  void FindLayout(const ImageData& how);
  void CheckChannels(const ImageData& how) const;
  void SetHash();
  View ViewOf(std::int64_t sample, std::int64_t epoch) const;
  void CopyPixels(const SamplePart& part, std::span<const float> image,
                  std::span<std::uint32_t> out) const;

  StoredArray images_;
  std::optional<StoredArray> labels_;
  std::vector<WantedInput> inputs_;
  std::int64_t height_ = 0, width_ = 0, channels_ = 0;
  bool channels_first_ = false;
  std::vector<float> mean_, deviation_;  // [channels]; empty: none
  std::int64_t crop_padding_ = 0;
  bool flip_ = false;
  std::optional<std::uint64_t> seed_;
  std::string sha256_;
};

}  // namespace acan
