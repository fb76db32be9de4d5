#include <fmt/format.h>

#include <cmath>

#include "acan/core/error.h"
#include "composer.h"

namespace acan::model {
namespace {

constexpr float kConvnextEpsilon = 1e-6f;

class ConvnextComposer {
 public:
  ConvnextComposer(const ConvnextOptions& options, Mode mode) : o_(options), composer_(mode) {
    CheckImage(o_.image_size, o_.channels, o_.num_classes);
    CheckStages(o_.widths, o_.blocks);
    CheckCount("patch_size", o_.patch_size, 1, kMaxSide);
    CheckRate("stochastic_depth_prob", o_.stochastic_depth_prob);
    CheckPositive("layer_scale", o_.layer_scale);
    for (const std::int64_t blocks : o_.blocks) all_blocks_ += blocks;
  }

  Graph Compose() && {
    Graph& graph = composer_.graph();
    Image x{graph.AddInput("images", InputRole::kNumbers, o_.image_size.area(), o_.channels),
            o_.image_size};
    x = Reduce("features.0.0", x, o_.widths.front(), o_.patch_size);
    x.value = composer_.LayerNorm("features.0.1", x.value, kConvnextEpsilon);
    for (std::size_t stage = 0; stage < o_.widths.size(); ++stage) {
      if (stage > 0) {
        const std::string name = fmt::format("features.{}", 2 * stage);
        x.value = composer_.LayerNorm(name + ".0", x.value, kConvnextEpsilon);
        x = Reduce(name + ".1", x, o_.widths[stage], 2);
      }
      for (std::int64_t i = 0; i < o_.blocks[stage]; ++i) {
        x.value = Block(fmt::format("features.{}.{}", 2 * stage + 1, i), x);
      }
    }
    ValueId y = graph.Add("avgpool", GlobalPooling{PoolingKind::kAverage}, {x.value});
    y = composer_.LayerNorm("classifier.0", y, kConvnextEpsilon);
    y = composer_.Linear("classifier.2", y, o_.num_classes, kStart);
    composer_.Classify(y, o_.num_classes, o_.label_smoothing);
    return std::move(composer_).Take();
  }

 private:
  static inline const LinearStart kStart{TruncatedNormal{0, 0.02f}, Constant{0}};

  // A convolution whose windows are adjacent and do not overlap.
  Image Reduce(const std::string& name, const Image& x, std::int64_t outputs, std::int64_t by) {
    if (x.size.height < by || x.size.width < by) {
      throw UsageError(fmt::format(
          "model: image_size = {}x{} is too small for {} stages: before '{}' it is {}x{}, and {} "
          "pixels become one",
          o_.image_size.height, o_.image_size.width, o_.widths.size(), name, x.size.height,
          x.size.width, by));
    }
    return composer_.Convolution(name, x, outputs, {by, by, 0}, kStart);
  }

  ValueId Block(const std::string& name, const Image& x) {
    Graph& graph = composer_.graph();
    const std::int64_t width = composer_.FeaturesOf(x.value);
    Parameter layer_scale =
        VectorParameter(name + ".layer_scale", Role::kScale, width, Constant{o_.layer_scale});
    layer_scale.file_shape = {width, 1, 1};
    const ValueId scale = graph.AddParameter(std::move(layer_scale));
    ValueId y = composer_.Convolution(name + ".block.0", x, width, {7, 1, 3, width}, kStart).value;
    y = composer_.LayerNorm(name + ".block.2", y, kConvnextEpsilon);
    y = composer_.Linear(name + ".block.3", y, 4 * width, kStart);
    y = composer_.Activation(name + ".block.4", y, ActivationKind::kGelu);
    y = composer_.Linear(name + ".block.5", y, width, kStart);
    y = graph.Add(name + ".scaled", ScaleColumns{}, {y, scale});
    y = composer_.Dropout(name + ".stochastic_depth", y, NextDepthRate(), DropoutUnit::kSample);
    return composer_.Add(name + ".residual", y, x.value);
  }

  float NextDepthRate() {
    const std::int64_t block = block_++;
    if (all_blocks_ == 1) return 0;
    return static_cast<float>(static_cast<double>(o_.stochastic_depth_prob) *
                              static_cast<double>(block) / static_cast<double>(all_blocks_ - 1));
  }

  const ConvnextOptions& o_;
  Composer composer_;
  std::int64_t all_blocks_ = 0;
  std::int64_t block_ = 0;
};

}  // namespace

Graph Convnext(const ConvnextOptions& options, Mode mode) {
  return ConvnextComposer(options, mode).Compose();
}

}  // namespace acan::model
