#include <fmt/format.h>

#include <cmath>

#include "composer.h"

namespace acan::model {
namespace {

constexpr float kVitEpsilon = 1e-6f;

class VitComposer {
 public:
  VitComposer(const VitOptions& options, Mode mode) : o_(options), composer_(mode) {
    CheckImage(o_.image_size, o_.channels, o_.num_classes);
    CheckDivides("patch_size", o_.patch_size,
                 {{"image_size (height)", o_.image_size.height},
                  {"image_size (width)", o_.image_size.width}});
    CheckCount("num_layers", o_.num_layers, 1, kMaxLayers);
    CheckCount("hidden_dim", o_.hidden_dim, 1, kMaxFeatures / 3);
    CheckDivides("num_heads", o_.num_heads, {{"hidden_dim", o_.hidden_dim}});
    CheckCount("mlp_dim", o_.mlp_dim);
    CheckRate("dropout", o_.dropout);
    CheckRate("attention_dropout", o_.attention_dropout);
  }

  Graph Compose() && {
    ValueId x = Embed();
    for (std::int64_t i = 0; i < o_.num_layers; ++i) {
      x = Layer(fmt::format("encoder.layers.encoder_layer_{}", i), x);
    }
    x = composer_.LayerNorm("encoder.ln", x, kVitEpsilon);
    x = composer_.graph().Add("class", Slice{SliceAxis::kPositions, 0, 1}, {x});
    x = composer_.Linear("heads.head", x, o_.num_classes, {Constant{0}, Constant{0}});
    composer_.Classify(x, o_.num_classes, o_.label_smoothing);
    return std::move(composer_).Take();
  }

 private:
  // A table that files store with a leading dimension of 1.
  ValueId Rows(const std::string& name, std::int64_t rows, const Initial& initial) {
    Parameter table = MatrixParameter(name, rows, o_.hidden_dim, initial);
    table.role = Role::kEmbedding;
    table.file_shape = {1, rows, o_.hidden_dim};
    return composer_.graph().AddParameter(std::move(table));
  }

  ValueId Embed() {
    Graph& graph = composer_.graph();
    const std::int64_t p = o_.patch_size;
    const ValueId images =
        graph.AddInput("images", InputRole::kNumbers, o_.image_size.area(), o_.channels);
    const ValueId token = Rows("class_token", 1, Constant{0});
    // A convolution whose windows do not overlap is a product with the patches.
    const ValueId patches = graph.Add("patches", Patches{o_.image_size, {p, p}}, {images});
    const std::int64_t inputs = composer_.FeaturesOf(patches);
    const auto deviation = static_cast<float>(std::sqrt(1.0 / static_cast<double>(inputs)));
    Parameter weight =
        MatrixParameter("conv_proj.weight", o_.hidden_dim, inputs, TruncatedNormal{0, deviation});
    weight.file_shape = {o_.hidden_dim, o_.channels, p, p};
    weight.file_layout = FileLayout::kConvolution;
    const ValueId weights = graph.AddParameter(std::move(weight));
    const ValueId bias = graph.AddParameter(
        VectorParameter("conv_proj.bias", Role::kBias, o_.hidden_dim, Constant{0}));
    const ValueId projected = graph.Add("conv_proj", Linear{}, {patches, weights, bias});
    const ValueId first = graph.Add("class_token.row", LearnedPositions{0, 1}, {token});
    ValueId x = graph.Add("encoder.tokens", Concat{SliceAxis::kPositions}, {first, projected});
    const std::int64_t rows = graph.value(x).shape.rows;
    const ValueId table = Rows("encoder.pos_embedding", rows, Normal{0, 0.02f});
    x = composer_.Add("encoder.placed", x,
                      graph.Add("encoder.positions", LearnedPositions{0, rows}, {table}));
    return composer_.Dropout("encoder.dropout", x, o_.dropout);
  }

  ValueId Layer(const std::string& name, ValueId x) {
    const std::int64_t d = o_.hidden_dim;
    const std::string self = name + ".self_attention";
    ValueId y = composer_.LayerNorm(name + ".ln_1", x, kVitEpsilon);
    y = composer_.Linear(self + ".in_proj", self + ".in_proj_weight", self + ".in_proj_bias", y,
                         3 * d, {XavierUniform(d, 3 * d), Constant{0}});
    y = composer_.FusedAttention(
        self, y,
        composer_.AttentionOf(AttentionMask::kFull, o_.num_heads, o_.num_heads, d / o_.num_heads,
                              o_.attention_dropout));
    y = composer_.Linear(self + ".out_proj", y, d, {UniformByInputs(d), Constant{0}});
    y = composer_.Dropout(name + ".dropout", y, o_.dropout);
    x = composer_.Add(name + ".attention_residual", y, x);
    y = composer_.LayerNorm(name + ".ln_2", x, kVitEpsilon);
    const Initial xavier = XavierUniform(d, o_.mlp_dim);
    const Initial bias = Normal{0, 1e-6f};
    y = composer_.Linear(name + ".mlp.0", y, o_.mlp_dim, {xavier, bias});
    y = composer_.Activation(name + ".mlp.1", y, ActivationKind::kGelu);
    y = composer_.Dropout(name + ".mlp.2", y, o_.dropout);
    y = composer_.Linear(name + ".mlp.3", y, d, {xavier, bias});
    y = composer_.Dropout(name + ".mlp.4", y, o_.dropout);
    return composer_.Add(name + ".mlp_residual", x, y);
  }

  const VitOptions& o_;
  Composer composer_;
};

}  // namespace

Graph Vit(const VitOptions& options, Mode mode) {
  return VitComposer(options, mode).Compose();
}

}  // namespace acan::model
