// The battery's cases. A change to any of them changes the hashes in conformance_table.inc, which
// all handlers of a cluster must share.
#include "conformance_cases.h"

#include <array>
#include <span>

#include "acan/core/operators/kernel_constants.h"

namespace acan::conformance {
namespace {

constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kRows = 7;
constexpr std::int64_t kLaneCols = 211;  // four leaves in lane order, the last of 19

constexpr auto kAllProductCases = [] {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kSpecial = Values::kSpecial;
  const auto of = [](std::string_view what, std::int64_t m, std::int64_t n, std::int64_t k,
                     std::int64_t block, Values a, Values b) {
    return ProductCase{block, {"", what, {{"m", m}, {"n", n}, {"k", k}}, {a, b}}};
  };
  return std::array{
      of("ragged", 35, 37, 83, kBlock, kWide, kWide), of("one row", 1, 33, 150, 32, kUnit, kUnit),
      of("one column", 29, 1, 77, kBlock, kUnit, kUnit), of("deep", 3, 5, 1100, 64, kUnit, kUnit),
      of("one leaf", 13, 17, 64, 64, kWide, kWide),
      of("special values", 9, 34, 51, kBlock, kSpecial, kSpecial),
      // Sizes for which devices may read four words at once.
      of("aligned", 36, 44, 88, kBlock, kWide, kWide),
      // Without larger terms, which would hide that a denormal was flushed to zero.
      of("denormal sums", 9, 34, 51, kBlock, Values::kTiny, Values::kTiny),
      of("denormal operands", 9, 34, 51, kBlock, Values::kDenormal, kUnit)};
}();

struct AttentionForm {
  std::string_view what;
  std::int64_t causal, sequences, queries, keys, key_value_heads, shared, width;
  float dropout;
  Values values;
};
constexpr std::array<AttentionForm, 5> kAttentionForms{
    {{"full", 0, 1, 66, 65, 1, 2, 17, 0.0f, Values::kUnit},
     {"causal", 1, 1, 66, 65, 1, 2, 17, 0.0f, Values::kUnit},
     {"wide", 1, 1, 20, 20, 1, 1, 83, 0.0f, Values::kUnit},
     {"dropout", 0, 2, 20, 24, 2, 1, 16, 0.25f, Values::kUnit},
     {"special values", 1, 1, 66, 65, 1, 2, 17, 0.0f, Values::kSpecial}}};
// Heads whose size is a multiple of four, which GPUs compute by tiles.
constexpr std::array<AttentionForm, 3> kAttentionTiles{
    {{"quads", 1, 1, 66, 70, 1, 1, 20, 0.0f, Values::kUnit},
     {"wide quads", 1, 1, 20, 20, 1, 1, 68, 0.0f, Values::kUnit},
     {"special quads", 1, 1, 66, 70, 1, 1, 20, 0.0f, Values::kSpecial}}};

// Enough rows for the tallest of these tiles.
constexpr std::array<AttentionForm, 1> kTallAttentionTiles{
    {{"many quads", 0, 1, 70, 512, 1, 1, 4, 0.0f, Values::kUnit}}};

constexpr void AddAttentionCases(std::span<const AttentionForm> forms, Few<KernelCase, 256>& all) {
  constexpr Values kLengths = Values::kLabels, kStatistics = Values::kPositive;
  for (const AttentionForm& form : forms) {
    const Sizes sizes{{"sequences", form.sequences},
                      {"queries", form.queries},
                      {"keys", form.keys},
                      {"key_value_heads", form.key_value_heads},
                      {"shared", form.shared},
                      {"heads", form.key_value_heads * form.shared},
                      {"width", form.width},
                      {"first_query", 0},
                      {"first_key", 0}};
    const Values x = form.values;
    KernelScalars scalars{.f = {0.25f, form.dropout, 1.0f / (1.0f - form.dropout)},
                          .i = {form.causal, form.queries, form.keys, form.key_value_heads,
                                form.shared, 0, 0, 99, 7, 3, 200, 1, 9, 1}};
    all.Add({Kernel::kAttention, {"", form.what, sizes, {x, x, x, kLengths}, scalars}});
    scalars.i[13] = 0;
    all.Add({Kernel::kAttentionGradient,
             {"", form.what, sizes, {x, x, x, kLengths, kStatistics, x, x}, scalars}});
  }
}

constexpr void AddAttentionRowCases(Few<KernelCase, 256>& all) {
  constexpr Values kSpecial = Values::kSpecial, kStatistics = Values::kPositive;
  const Sizes rows{{"rows", kRows}, {"heads", 3}, {"width", 20}};
  const KernelScalars heads{.f = {}, .i = {3}};
  for (const Values x : {Values::kWide, kSpecial}) {
    const std::string_view what = x == kSpecial ? "special values" : "";
    all.Add({Kernel::kAttentionJoin, {"", what, rows, {x, kStatistics, x, kStatistics}, heads}});
    all.Add({Kernel::kAttentionFinish, {"", what, rows, {x, kStatistics}, heads}});
  }
}

// The cases of the kernels, in the order of their hashes.
class KernelCases {
 public:
  constexpr void Add(Kernel kernel, std::string_view variant, std::string_view what,
                     const KernelScalars& scalars, const Few<Values, kMaxKernelMatrices>& values,
                     std::int64_t rows = kRows, std::int64_t cols = kCols) {
    // Dimensions that only scalars determine are in no operand's shape; any size does, here 1.
    all_.Add({kernel,
              {variant,
               what,
               {{"rows", rows},   {"cols", cols},       {"heads", 3},        {"half", 9},
                {"positions", 5}, {"samples", 3},       {"words", 11},       {"group", 1},
                {"first", 1},     {"row", 1},           {"col", 1},          {"width", 4},
                {"height", 5},    {"window_height", 3}, {"window_width", 2}, {"stride_y", 2},
                {"stride_x", 1},  {"padding_y", 1},     {"padding_x", 0},    {"out_height", 3},
                {"out_width", 3}, {"channels", 19},     {"classes", 1},      {"all", 1}},
               values,
               scalars}});
  }
  constexpr const Few<KernelCase, 256>& all() const { return all_; }

 private:
  Few<KernelCase, 256> all_;
};

constexpr std::size_t kFirstActivations = 6;  // later ones have their cases further down

constexpr void AddFirstCases(KernelCases& cases) {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kSpecial = Values::kSpecial;
  cases.Add(Kernel::kAdd, "", "", {}, {kWide, kWide});
  cases.Add(Kernel::kAdd, "", "special values", {}, {kSpecial, kWide});
  cases.Add(Kernel::kFill, "", "", {.f = {0.1f}, .i = {}}, {});
  cases.Add(Kernel::kUniform, "", "",
            {.f = {-0.0357142873f, 0.0357142873f}, .i = {0x123456789abcdef, 3, 4096, 64, 784}}, {});
  cases.Add(Kernel::kSgd, "", "", {.f = {0.1f, 0.01f}, .i = {}}, {kWide, kWide});
  cases.Add(Kernel::kMomentum, "", "", {.f = {0.1f, 0.9f, 0.01f}, .i = {}}, {kWide, kWide, kWide});
  cases.Add(Kernel::kAdamW, "", "",
            {.f = {0.001f, 0.1f, 0.001f, 1e-8f, 0.01f, 0.271f, 0.0547083385f}, .i = {}},
            {kWide, kWide, Values::kPositive, kWide});
  for (std::size_t i = 0; i < kFirstActivations; ++i) {
    const ActivationRow& each = kActivations[i];
    const KernelScalars scalars{.f = {6.0f}, .i = {static_cast<std::int64_t>(each.activation)}};
    for (const Values values : {kUnit, kSpecial}) {
      const std::string_view what = values == kUnit ? "" : "special values";
      cases.Add(Kernel::kBiasActivation, each.word, what, scalars, {values, kUnit});
      cases.Add(Kernel::kActivationGradient, each.word, what, scalars, {kWide, values});
    }
  }
  for (const Values values : {kUnit, kSpecial}) {
    const std::string_view what = values == kUnit ? "" : "special values";
    const KernelScalars scalars{.f = {0.0078125f}, .i = {kBlock}};
    cases.Add(Kernel::kSoftmaxCrossEntropy, "", what, scalars, {values, Values::kLabels});
    cases.Add(Kernel::kSquaredError, "", what, scalars, {values, kUnit});
    cases.Add(Kernel::kColumnSums, "", what, scalars, {values}, kCols, 21);
  }
}

// Element by element.
constexpr void AddElementCases(KernelCases& cases) {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kSpecial = Values::kSpecial;
  for (std::size_t i = 0; i < std::size(kActivations); ++i) {
    const ActivationRow& each = kActivations[i];
    const KernelScalars scalars{.f = {6.0f}, .i = {static_cast<std::int64_t>(each.activation)}};
    for (const Values values : {kUnit, kSpecial}) {
      const std::string_view what = values == kUnit ? "" : "special values";
      cases.Add(Kernel::kActivation, each.word, what, scalars, {values});
      if (i < kFirstActivations) continue;
      cases.Add(Kernel::kBiasActivation, each.word, what, scalars, {values, kUnit});
      cases.Add(Kernel::kActivationGradient, each.word, what, scalars, {kWide, values});
    }
  }
  cases.Add(Kernel::kMultiply, "", "", {}, {kWide, kWide});
  cases.Add(Kernel::kScale, "", "", {.f = {0.3f}, .i = {}}, {kWide});
  cases.Add(Kernel::kScaleBy, "", "", {}, {kWide, kUnit});
  cases.Add(Kernel::kScaleColumns, "", "", {}, {kWide, kUnit});
  cases.Add(Kernel::kClipFactor, "", "", {.f = {1.0f, 1e-6f}, .i = {}}, {kSpecial});
  for (const Values values : {kUnit, kSpecial}) {
    const std::string_view what = values == kUnit ? "" : "special values";
    cases.Add(Kernel::kSwiGlu, "", what, {}, {values, kUnit});
    cases.Add(Kernel::kSwiGluGradient, "", what, {}, {values, kUnit, kWide});
  }
  const KernelScalars dropout{
      .f = {0.3f, 1.42857146f},
      .i = {ACAN_DROP_ELEMENTS, 0x123456789abcdef, INT64_MIN + 77, 5, 3, 90, 4}};
  cases.Add(Kernel::kDropout, "elements", "", dropout, {kWide}, kRows, kLaneCols);
  KernelScalars samples = dropout;
  samples.i[0] = ACAN_DROP_SAMPLES;
  cases.Add(Kernel::kDropout, "samples", "", samples, {kWide}, kLaneCols, kRows);
}

// Norms and cross entropy: sums along rows; and sums over rows in groups.
constexpr void AddSumCases(KernelCases& cases) {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kSpecial = Values::kSpecial;
  constexpr Values kLabels = Values::kLabels, kPositive = Values::kPositive;
  for (const Values values : {kUnit, kSpecial}) {
    const std::string_view what = values == kUnit ? "" : "special values";
    for (const std::int64_t kind : {ACAN_LAYER_NORM, ACAN_RMS_NORM}) {
      const std::string_view word = kind == ACAN_LAYER_NORM ? "layer norm" : "RMS norm";
      const KernelScalars scalars{.f = {1e-5f}, .i = {kind}};
      cases.Add(Kernel::kNorm, word, what, scalars, {values, kUnit, kUnit}, kRows, kLaneCols);
      cases.Add(Kernel::kNormGradient, word, what, scalars, {values, kPositive, kWide, kUnit},
                kRows, kLaneCols);
    }
    const KernelScalars groups{.f = {}, .i = {kBlock, 24}};
    cases.Add(Kernel::kColumnDots, "", what, groups, {values, kUnit}, kCols, 21);
    cases.Add(Kernel::kNormScaleGradient, "", what, groups, {values, kPositive, kWide}, kCols, 21);
    const KernelScalars first{.f = {}, .i = {3}};
    cases.Add(Kernel::kClassMaxima, "", what, first, {values}, kRows, kLaneCols);
    cases.Add(Kernel::kClassSums, "", what, first, {values, kPositive, kLabels}, kRows, kLaneCols);
    cases.Add(Kernel::kCrossEntropyGradient, "", what, {.f = {0.0078125f, 0.1f}, .i = {3, 300, 17}},
              {values, kPositive, kPositive, kLabels}, 31, kLaneCols);
    cases.Add(Kernel::kRowSquares, "", what, {}, {values}, kRows, kLaneCols);
  }
  cases.Add(Kernel::kCombineMaxima, "", "", {}, {kSpecial, kLabels, kWide, kLabels}, kLaneCols);
  cases.Add(Kernel::kCrossEntropyLoss, "", "", {.f = {0.1f}, .i = {80, 17}},
            {kPositive, kLabels, kLabels}, kLaneCols);
  cases.Add(Kernel::kCrossEntropyLoss, "", "without smoothing", {.f = {}, .i = {80, -100}},
            {kSpecial, kLabels, kLabels}, kLaneCols);
}

// Kernels that look up rows.
constexpr void AddTableCases(KernelCases& cases) {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kSpecial = Values::kSpecial;
  constexpr Values kLabels = Values::kLabels, kIndices = Values::kIndices;
  cases.Add(Kernel::kRotary, "forward", "", {.f = {}, .i = {0, 4}}, {kWide, kUnit, kUnit});
  cases.Add(Kernel::kRotary, "back", "", {.f = {}, .i = {1, 4}}, {kWide, kUnit, kUnit});
  cases.Add(Kernel::kEmbedding, "", "", {}, {kIndices, kSpecial});
  cases.Add(Kernel::kEmbedding, "", "rows that are not there", {}, {kLabels, kWide});
  cases.Add(Kernel::kEmbeddingGradient, "", "", {.f = {}, .i = {kBlock, 24, 0, 2}},
            {kIndices, kWide}, kCols, 21);
  cases.Add(Kernel::kEmbeddingGradient, "", "many rows of a word",
            {.f = {}, .i = {kBlock, 1200, 1, -1}}, {kIndices, kSpecial}, 1100, 3);
  cases.Add(Kernel::kPositions, "", "", {.f = {}, .i = {3}}, {kWide, kUnit});
  cases.Add(Kernel::kPositionsGradient, "", "", {.f = {}, .i = {2}}, {kWide});
}

// Norms over rows, and images of 5 x 4 under windows of 3 x 2 in steps of (2, 1), padded by (1, 0).
constexpr void AddImageCases(KernelCases& cases) {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kSpecial = Values::kSpecial;
  constexpr Values kPositive = Values::kPositive;
  const KernelScalars window{.f = {}, .i = {5, 4, 3, 2, 2, 1, 1, 0}};
  for (const Values values : {kUnit, kSpecial}) {
    const std::string_view what = values == kUnit ? "" : "special values";
    const KernelScalars groups{.f = {}, .i = {kBlock, 24}};
    cases.Add(Kernel::kDivide, "", what, {.f = {3.0f}, .i = {}}, {values});
    cases.Add(Kernel::kInverseRoot, "", what, {.f = {1e-5f}, .i = {}}, {values});
    cases.Add(Kernel::kBlend, "", what, {.f = {0.9f, 0.1f}, .i = {}}, {values, kUnit});
    cases.Add(Kernel::kColumnSquares, "", what, groups, {values, kUnit}, kCols, 21);
    cases.Add(Kernel::kColumnNorm, "", what, {}, {values, kPositive, kUnit, kUnit});
    cases.Add(Kernel::kColumnNormSums, "", what, groups, {values, kPositive, kWide}, kCols, 21);
    cases.Add(Kernel::kColumnNormGradient, "", what, {},
              {values, kPositive, kWide, kUnit, kUnit, kUnit});
    cases.Add(Kernel::kUnfold, "", what, window, {values});
    cases.Add(Kernel::kFold, "", what, window, {values});
    cases.Add(Kernel::kMaxPooling, "", what, window, {values});
    cases.Add(Kernel::kMaxPoolingGradient, "", what, window, {values, kWide});
    cases.Add(Kernel::kAveragePooling, "", what, window, {values});
    cases.Add(Kernel::kAveragePoolingGradient, "", what, window, {values});
  }
}

// Positions of samples: copies, group norm, global pooling; depthwise convolution; the epilogue of
// a linear operator with a residual.
constexpr void AddSampleCases(Few<KernelCase, 256>& all) {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kSpecial = Values::kSpecial;
  constexpr Values kPositive = Values::kPositive, kLengths = Values::kLabels;
  const Sizes copies{{"samples", 3}, {"to", 5}, {"from", 4}, {"cols", 19}};
  for (const std::int64_t first : {-2, 3}) {
    const std::string_view what = first < 0 ? "a slice" : "a part";
    const KernelScalars scalars{.f = {}, .i = {5, 4, first}};
    all.Add({Kernel::kPlacePositions, {"", what, copies, {kSpecial}, scalars}});
    all.Add({Kernel::kCopyPositions, {"", what, copies, {kWide, kSpecial}, scalars}});
  }
  const Sizes rows{{"rows", kRows}, {"cols", kCols}};
  // A group has 143 elements: three leaves, the last of 15.
  const Sizes groups{{"samples", 3}, {"positions", 11}, {"groups", 3}, {"width", 13}, {"group", 1}};
  // 37 positions: three leaves of kBlock, the last of 5.
  const Sizes pooled{{"samples", 3}, {"positions", 37}, {"cols", 19}};
  // 5 x 2 results of 20 taps, which are two leaves. The channels fill whole registers, half of one,
  // and less.
  const Sizes images{{"samples", 3},      {"height", 5},     {"width", 4},     {"window_height", 5},
                     {"window_width", 4}, {"stride_y", 1},   {"stride_x", 2},  {"padding_y", 2},
                     {"padding_x", 1},    {"out_height", 5}, {"out_width", 2}, {"channels", 115},
                     {"group", 1}};
  for (const Values x : {kUnit, kSpecial}) {
    const std::string_view what = x == kSpecial ? "special values" : "";
    const KernelScalars norm{.f = {1e-5f}, .i = {11, 3}};
    all.Add({Kernel::kGroupNorm, {"", what, groups, {x, kUnit, kUnit}, norm}});
    all.Add({Kernel::kGroupNormGradient, {"", what, groups, {x, kPositive, kWide, kUnit}, norm}});
    all.Add({Kernel::kGroupNormScaleGradient,
             {"", what, groups, {x, kPositive, kWide}, {.f = {}, .i = {kBlock, 22, 11, 3}}}});
    const KernelScalars positions{.f = {}, .i = {37}};
    all.Add({Kernel::kGlobalMaxPooling, {"", what, pooled, {x, kLengths}, positions}});
    all.Add(
        {Kernel::kGlobalMaxPoolingGradient, {"", what, pooled, {x, kLengths, kWide}, positions}});
    all.Add({Kernel::kGlobalAveragePooling,
             {"", what, pooled, {x, kLengths}, {.f = {}, .i = {kBlock, 37}}}});
    all.Add({Kernel::kGlobalAveragePoolingGradient, {"", what, pooled, {kLengths, x}, positions}});
    all.Add({Kernel::kTranspose, {"", what, rows, {x}}});
    const KernelScalars window{.f = {}, .i = {5, 4, 5, 4, 1, 2, 2, 1, kBlock, 20}};
    all.Add({Kernel::kDepthwise, {"", what, images, {x, kWide}, window}});
    all.Add({Kernel::kDepthwiseInputGradient, {"", what, images, {x, kWide}, window}});
    all.Add({Kernel::kDepthwiseWeightGradient, {"", what, images, {x, kWide}, window}});
    all.Add({Kernel::kBiasResidual, {"", what, rows, {x, kUnit, kWide}}});
  }
}

// The truncated distributions' range is so narrow that some values are drawn 64 times.
constexpr void AddNormalCases(Few<KernelCase, 256>& all) {
  KernelCases cases;
  const std::int64_t seed = 0x123456789abcdef;
  cases.Add(Kernel::kNormal, "", "", {.f = {0.5f, 0.02f}, .i = {seed, 3, 4096, 64, 784}}, {});
  cases.Add(Kernel::kTruncatedNormal, "", "",
            {.f = {0.0f, 1.0f, -2.0f, 2.0f}, .i = {seed, 3, 4096, 64, 784}}, {});
  cases.Add(Kernel::kTruncatedNormal, "", "rare",
            {.f = {0.0f, 1.0f, 2.0f, 2.5f}, .i = {seed, 3, 4096, 64, 784}}, {});
  cases.Add(Kernel::kEmbedding, "", "a part of a table", {.f = {}, .i = {2, 1000}},
            {Values::kIndices, Values::kSpecial});
  for (const KernelCase& each : cases.all()) all.Add(each);
}

// Long rows, and columns of many leaves: devices have more threads for each, and sum them in
// several turns. The rows have a few groups of 65 leaves, which are more than a power of two.
constexpr void AddLongCases(Few<KernelCase, 256>& all) {
  constexpr Values kUnit = Values::kUnit, kWide = Values::kWide, kPositive = Values::kPositive;
  constexpr Values kLabels = Values::kLabels;
  constexpr std::int64_t kLong = 1100;
  const auto add = [&all](Kernel kernel, const Sizes& sizes,
                          const Few<Values, kMaxKernelMatrices>& values,
                          const KernelScalars& scalars) {
    all.Add({kernel, {"", "long", sizes, values, scalars}});
  };
  const Sizes along{{"rows", 2}, {"cols", kLong}, {"first", 1}};
  const KernelScalars block{.f = {0.0078125f}, .i = {kBlock}}, first{.f = {}, .i = {3}};
  const KernelScalars layer{.f = {1e-5f}, .i = {ACAN_LAYER_NORM}};
  add(Kernel::kSoftmaxCrossEntropy, along, {kUnit, kLabels}, block);
  add(Kernel::kSquaredError, along, {kUnit, kUnit}, block);
  add(Kernel::kNorm, along, {kUnit, kUnit, kUnit}, layer);
  add(Kernel::kNormGradient, along, {kUnit, kPositive, kWide, kUnit}, layer);
  add(Kernel::kClassMaxima, along, {kUnit}, first);
  add(Kernel::kClassSums, along, {kUnit, kPositive, kLabels}, first);
  add(Kernel::kRowSquares, along, {kUnit}, {});
  const Sizes heads{{"rows", 2}, {"heads", 4}, {"width", kLong / 4}};
  add(Kernel::kAttentionJoin, heads, {kWide, kPositive, kWide, kPositive}, {.f = {}, .i = {4}});
  const Sizes channels{
      {"samples", 1}, {"positions", kLong / 4}, {"groups", 1}, {"width", 4}, {"group", 1}};
  const KernelScalars norm{.f = {1e-5f}, .i = {kLong / 4, 1}};
  add(Kernel::kGroupNorm, channels, {kUnit, kUnit, kUnit}, norm);
  add(Kernel::kGroupNormGradient, channels, {kUnit, kPositive, kWide, kUnit}, norm);
  const Sizes down{{"rows", kLong}, {"cols", 3}, {"group", 1}};
  const KernelScalars groups{.f = {}, .i = {kBlock, 65 * kBlock}};
  add(Kernel::kColumnSums, down, {kUnit}, block);
  add(Kernel::kColumnDots, down, {kUnit, kUnit}, groups);
  add(Kernel::kColumnSquares, down, {kUnit, kUnit}, groups);
  add(Kernel::kColumnNormSums, down, {kUnit, kPositive, kWide}, groups);
  add(Kernel::kNormScaleGradient, down, {kUnit, kPositive, kWide}, groups);
  const Sizes sample{
      {"samples", 1}, {"positions", kLong}, {"groups", 1}, {"width", 3}, {"group", 1}};
  add(Kernel::kGroupNormScaleGradient, sample, {kUnit, kPositive, kWide},
      {.f = {}, .i = {kBlock, 65 * kBlock, kLong, 1}});
  const Sizes pixels{{"samples", 1},        {"height", kLong},   {"width", 1},
                     {"window_height", 3},  {"window_width", 1}, {"stride_y", 1},
                     {"stride_x", 1},       {"padding_y", 1},    {"padding_x", 0},
                     {"out_height", kLong}, {"out_width", 1},    {"channels", 3},
                     {"group", 1}};
  add(Kernel::kDepthwiseWeightGradient, pixels, {kUnit, kWide},
      {.f = {}, .i = {kLong, 1, 3, 1, 1, 1, 1, 0, kBlock, 65 * kBlock}});
}

// Add a new kernel's cases at the end, and their hashes at the end of conformance_table.inc.
constexpr auto kAllKernelCases = [] {
  KernelCases cases;
  AddFirstCases(cases);
  AddElementCases(cases);
  AddSumCases(cases);
  AddTableCases(cases);
  AddImageCases(cases);
  Few<KernelCase, 256> all = cases.all();
  AddAttentionCases(kAttentionForms, all);
  AddAttentionRowCases(all);
  AddSampleCases(all);
  AddNormalCases(all);
  AddAttentionCases(kAttentionTiles, all);
  AddAttentionCases(kTallAttentionTiles, all);
  AddLongCases(all);
  return all;
}();

constexpr bool EveryVariantHasACase() {
  for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
    for (std::int64_t variant = 0; variant < kKernelRows[kernel]->variants; ++variant) {
      bool found = false;
      for (const KernelCase& each : kAllKernelCases) {
        found = found || (static_cast<std::size_t>(each.kernel) == kernel &&
                          (kKernelRows[kernel]->variants == 1 || each.of.scalars.i[0] == variant));
      }
      if (!found) return false;
    }
  }
  return true;
}
static_assert(EveryVariantHasACase(), "a kernel of operators.inc has no case for some variant");

constexpr bool EveryOperandHasValues() {
  for (const KernelCase& each : kAllKernelCases) {
    std::size_t read = 0;
    for (const Operand& operand : RowOf(each.kernel).operands) read += operand.reads() ? 1 : 0;
    if (read != each.of.values.size()) return false;
  }
  return true;
}
static_assert(EveryOperandHasValues(), "a case has not one kind of values for each operand read");

}  // namespace

std::span<const ProductCase> AllProductCases() {
  return kAllProductCases;
}

std::span<const KernelCase> AllKernelCases() {
  return {kAllKernelCases.begin(), kAllKernelCases.end()};
}

}  // namespace acan::conformance
