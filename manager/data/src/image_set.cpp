#include "image_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/ieee_mode.h"
#include "acan/core/philox.h"
#include "integers.h"
#include "random_streams.h"

namespace acan {
namespace {

std::vector<float> ToFloats(const std::vector<double>& values) {
  const IeeeMode ieee;  // the same values in every process
  return {values.begin(), values.end()};
}

// A number below `bound`. The bias is below bound / 2^32, which is small for small bounds.
std::int64_t Below(std::uint32_t word, std::int64_t bound) {
  return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(bound) >> 32);
}

// Adds all values to the hash, as they lie in the file; floats must be finite.
void CheckImages(const StoredArray& images, Sha256* hash) {
  const std::int64_t at_once = std::max<std::int64_t>(1, (1 << 20) / BytesOf(images.type()));
  std::vector<std::uint8_t> bytes;
  std::vector<float> floats;
  for (std::int64_t first = 0; first < images.count(); first += at_once) {
    const std::int64_t values = std::min(at_once, images.count() - first);
    bytes.resize(static_cast<std::size_t>(values * BytesOf(images.type())));
    images.ReadBytes(first, bytes);
    hash->Add(bytes.data(), bytes.size());
    if (IsInteger(images.type())) continue;
    floats.resize(static_cast<std::size_t>(values));
    images.ReadFloats(first, floats);
    const auto wrong = std::ranges::find_if(floats, [](float x) { return !std::isfinite(x); });
    if (wrong == floats.end()) continue;
    throw UsageError(fmt::format("{}: {} is {}, expected a finite 32-bit number", images.path(),
                                 images.Place(first + (wrong - floats.begin())), *wrong));
  }
}

}  // namespace

ImageSet::ImageSet(const std::string& images, const std::string& labels, const ImageData& how,
                   std::vector<WantedInput> wanted, std::optional<std::uint64_t> seed)
    : images_(OpenArray(images)),
      inputs_(std::move(wanted)),
      mean_(ToFloats(how.mean)),
      deviation_(ToFloats(how.deviation)),
      crop_padding_(seed ? how.crop_padding : 0),
      flip_(seed && how.flip),
      seed_(seed) {
  if (images_.type() != NumberType::kUint8 && images_.type() != NumberType::kFloat32) {
    // Files of booleans are read as int8.
    throw UsageError(fmt::format(
        "{}: its values are {}, but images are uint8 or float32; save them as one of the two",
        images, images_.type() == NumberType::kInt8 ? "int8 or bool" : Word(images_.type())));
  }
  if (images_.samples() > kMaxSamples) {
    throw UsageError(
        fmt::format("{}: has {} samples; the limit is {}", images, images_.samples(), kMaxSamples));
  }
  FindLayout(how);
  CheckChannels(how);
  if (!labels.empty()) OpenLabels(labels);
  SetHash();
}

void ImageSet::OpenLabels(const std::string& path) {
  labels_ = OpenArray(path);
  if (labels_->samples() != images_.samples()) {
    throw UsageError(fmt::format("{}: has {} samples, but {} has {}", path, labels_->samples(),
                                 images_.path(), images_.samples()));
  }
  if (labels_->values_per_sample() != 1) {
    throw UsageError(fmt::format("{}: has shape {}, expected one class label per sample", path,
                                 ShapeText(labels_->shape())));
  }
}

void ImageSet::FindLayout(const ImageData& how) {
  const WantedInput& wanted = *FindInput(inputs_, "images");
  const std::vector<std::int64_t>& shape = images_.shape();
  const auto fits = [&](std::int64_t height, std::int64_t width, std::int64_t channels) {
    const bool has_size = wanted.image
                              ? wanted.image->height == height && wanted.image->width == width
                              : height * width == wanted.positions;
    return has_size && channels == wanted.features;
  };
  const bool plain = shape.size() == 3 && fits(shape[1], shape[2], 1);
  const bool four = shape.size() == 4;
  const bool first = four && fits(shape[2], shape[3], shape[1]) && how.layout != "HWC";
  const bool last = four && fits(shape[1], shape[2], shape[3]) && how.layout != "CHW";
  if (!plain && !first && !last) {
    const std::string pixels =
        wanted.image ? fmt::format("{} x {}", wanted.image->height, wanted.image->width)
                     : fmt::format("{}", wanted.positions);
    throw UsageError(
        fmt::format("{}: has shape {}{}, but the model takes images of {} pixels and {} channel{}",
                    images_.path(), ShapeText(shape),
                    how.layout.empty() ? "" : fmt::format(" (layout {})", how.layout), pixels,
                    wanted.features, wanted.features == 1 ? "" : "s"));
  }
  if (first && last && shape[1] != 1) {
    throw UsageError(
        fmt::format("{}: shape {} fits both layouts; set data.layout = \"CHW\" or "
                    "\"HWC\"",
                    images_.path(), ShapeText(shape)));
  }
  channels_first_ = first;
  height_ = shape[first ? 2 : 1];
  width_ = shape[first ? 3 : 2];
  channels_ = wanted.features;
}

void ImageSet::CheckChannels(const ImageData& how) const {
  const auto check = [this](const char* key, const std::vector<double>& values) {
    if (values.empty() || static_cast<std::int64_t>(values.size()) == channels_) return;
    throw UsageError(fmt::format("data.{} has {} values, but the images in {} have {} channels",
                                 key, values.size(), images_.path(), channels_));
  };
  check("mean", how.mean);
  check("std", how.deviation);
}

void ImageSet::SetHash() {
  Sha256 hash;
  const std::int64_t shape[] = {images_.samples(),
                                height_,
                                width_,
                                channels_,
                                channels_first_ ? 1 : 0,
                                images_.type() == NumberType::kUint8 ? 1 : 0,
                                crop_padding_,
                                flip_ ? 1 : 0,
                                mean_.empty() ? 0 : 1,
                                deviation_.empty() ? 0 : 1};
  hash.Add("images", 6);
  hash.Add(shape, sizeof shape);
  if (!mean_.empty()) hash.Add(mean_.data(), mean_.size() * sizeof(float));
  if (!deviation_.empty()) hash.Add(deviation_.data(), deviation_.size() * sizeof(float));
  CheckImages(images_, &hash);
  if (labels_) {
    CheckLabels(
        *labels_, [](std::int64_t value) { return fmt::format("the label of sample {}", value); },
        &hash, &*std::ranges::find(inputs_, "labels", &WantedInput::name));
  }
  sha256_ = hash.Hex();
}

ImageSet::View ImageSet::ViewOf(std::int64_t sample, std::int64_t epoch) const {
  if (!seed_ || (crop_padding_ == 0 && !flip_)) return {};
  const acan_philox4 words =
      acan_philox(*seed_, static_cast<std::uint64_t>(sample),
                  RandomStream(RandomUse::kAugmentation, static_cast<std::uint64_t>(epoch)));
  const std::int64_t places = 2 * crop_padding_ + 1;
  return {Below(words.v[0], places) - crop_padding_, Below(words.v[1], places) - crop_padding_,
          flip_ && (words.v[2] & 1) != 0};
}

// Pixels outside of the file's image are 0 before normalization.
void ImageSet::CopyPixels(const SamplePart& part, std::span<const float> image,
                          std::span<std::uint32_t> out) const {
  const IeeeMode ieee;
  const View view = ViewOf(part.sample, part.epoch);
  const bool bytes = images_.type() == NumberType::kUint8;
  std::size_t next = 0;
  for (std::int64_t p = part.positions.begin; p < part.positions.end; ++p) {
    const std::int64_t column = p % width_;
    const std::int64_t y = p / width_ + view.top;
    const std::int64_t x = (view.flipped ? width_ - 1 - column : column) + view.left;
    const bool inside = y >= 0 && y < height_ && x >= 0 && x < width_;
    for (std::int64_t c = part.features.begin; c < part.features.end; ++c) {
      float value = 0;
      if (inside) {
        value = image[static_cast<std::size_t>(channels_first_ ? (c * height_ + y) * width_ + x
                                                               : (y * width_ + x) * channels_ + c)];
      }
      if (bytes) value /= 255.0f;
      if (!mean_.empty()) value -= mean_[static_cast<std::size_t>(c)];
      if (!deviation_.empty()) value /= deviation_[static_cast<std::size_t>(c)];
      out[next++] = std::bit_cast<std::uint32_t>(value);
    }
  }
}

void ImageSet::Copy(const SamplePart& part, std::span<std::uint32_t> out) const {
  assert(part.sample >= 0 && part.sample < samples());
  assert(static_cast<std::int64_t>(out.size()) == part.positions.size() * part.features.size());
  if (part.input == "labels") {
    assert(out.size() == 1);
    labels_->ReadWords(part.sample, out);
    return ReplaceIgnored(*FindInput(inputs_, "labels"), out);
  }
  std::vector<float> image(static_cast<std::size_t>(images_.values_per_sample()));
  images_.ReadFloats(part.sample * images_.values_per_sample(), image);
  CopyPixels(part, image, out);
}

}  // namespace acan
