#include <fmt/format.h>

#include <cmath>

#include "composer.h"

namespace acan::model {
namespace {

class ResnetComposer {
 public:
  ResnetComposer(const ResnetOptions& options, Mode mode) : o_(options), composer_(mode) {
    CheckImage(o_.image_size, o_.channels, o_.num_classes);
    CheckStages(o_.widths, o_.blocks);
    if (o_.norm == NormKind::kGroup) {
      std::vector<NamedSize> widths;
      for (std::size_t i = 0; i < o_.widths.size(); ++i) {
        widths.push_back({fmt::format("widths[{}]", i), o_.widths[i]});
      }
      CheckDivides("norm_groups", o_.norm_groups, widths);
    }
  }

  Graph Compose() && {
    Graph& graph = composer_.graph();
    Image x{graph.AddInput("images", InputRole::kNumbers, o_.image_size.area(), o_.channels),
            o_.image_size};
    x = Stem(x);
    for (std::size_t stage = 0; stage < o_.widths.size(); ++stage) {
      for (std::int64_t i = 0; i < o_.blocks[stage]; ++i) {
        const std::int64_t stride = i == 0 && stage > 0 ? 2 : 1;
        x = Block(fmt::format("layer{}.{}", stage + 1, i), x, o_.widths[stage], stride);
      }
    }
    const ValueId pooled = graph.Add("avgpool", GlobalPooling{PoolingKind::kAverage}, {x.value});
    const Initial initial = UniformByInputs(composer_.FeaturesOf(pooled));
    const ValueId logits = composer_.Linear("fc", pooled, o_.num_classes, {initial, initial});
    composer_.Classify(logits, o_.num_classes, o_.label_smoothing);
    return std::move(composer_).Take();
  }

 private:
  // No bias, because a norm follows. nn.init.kaiming_normal_(mode="fan_out", "relu").
  Image Convolve(const std::string& name, const Image& x, std::int64_t outputs,
                 const ConvolutionShape& shape) {
    const auto fan_out = static_cast<double>(outputs * shape.kernel * shape.kernel);
    const Initial initial = Normal{0, static_cast<float>(std::sqrt(2.0 / fan_out))};
    return composer_.Convolution(name, x, outputs, shape, {initial, std::nullopt});
  }
  Image Norm(const std::string& name, const Image& x) {
    return {o_.norm == NormKind::kBatch ? composer_.BatchNorm(name, x.value)
                                        : composer_.GroupNorm(name, x.value, o_.norm_groups),
            x.size};
  }
  Image Relu(const std::string& name, const Image& x) {
    return {composer_.Activation(name, x.value, ActivationKind::kRelu), x.size};
  }

  Image Stem(Image x) {
    const bool small = o_.stem == ResnetStem::kSmall;
    x = Convolve("conv1", x, o_.widths.front(),
                 small ? ConvolutionShape{3, 1, 1} : ConvolutionShape{7, 2, 3});
    x = Relu("relu", Norm("bn1", x));
    if (small) return x;
    const Pooling pooling{PoolingKind::kMaximum, {x.size, {3, 3}, {2, 2}, {1, 1}}};
    return {composer_.graph().Add("maxpool", pooling, {x.value}), pooling.window.output()};
  }

  Image Block(const std::string& name, const Image& x, std::int64_t width, std::int64_t stride) {
    const bool basic = o_.block == ResnetBlock::kBasic;
    const std::int64_t outputs = basic ? width : 4 * width;
    Image y = basic ? Convolve(name + ".conv1", x, width, {3, stride, 1})
                    : Convolve(name + ".conv1", x, width, {1, 1, 0});
    y = Relu(name + ".relu1", Norm(name + ".bn1", y));
    y = Convolve(name + ".conv2", y, width, {3, basic ? 1 : stride, 1});
    y = Norm(name + ".bn2", y);
    if (!basic) {
      y = Relu(name + ".relu2", y);
      y = Norm(name + ".bn3", Convolve(name + ".conv3", y, outputs, {1, 1, 0}));
    }
    Image shortcut = x;
    if (stride != 1 || composer_.FeaturesOf(x.value) != outputs) {
      shortcut = Norm(name + ".downsample.1",
                      Convolve(name + ".downsample.0", x, outputs, {1, stride, 0}));
    }
    return Relu(name + ".relu",
                {composer_.Add(name + ".residual", y.value, shortcut.value), y.size});
  }

  const ResnetOptions& o_;
  Composer composer_;
};

}  // namespace

Graph Resnet(const ResnetOptions& options, Mode mode) {
  return ResnetComposer(options, mode).Compose();
}

}  // namespace acan::model
