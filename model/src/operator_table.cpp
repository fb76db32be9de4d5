#include "acan/model/operator_table.h"

#include <cassert>

namespace acan::model {
namespace {

using enum Axis;
using enum Halving;
using enum PortKind;

Port Optional(Port port) {
  port.presence = Presence::kOptional;
  return port;
}

// Ports that many rows share.
constexpr Port kX{"x", kFeatures, kRows, kColumns};
constexpr Port kDy{"dy", kFeatures, kRows, kColumns};
constexpr Port kY{"y", kFeatures, kRows, kColumns};
constexpr Port kDx{"dx", kFeatures, kRows, kColumns};
constexpr Port kRowX{"x", kFeatures, kRows, kWhole};
constexpr Port kRowDy{"dy", kFeatures, kRows, kWhole};
constexpr Port kRowY{"y", kFeatures, kRows, kWhole};
constexpr Port kRowDx{"dx", kFeatures, kRows, kWhole};
constexpr Port kSampleX{"x", kFeatures, kSamples, kWhole};
constexpr Port kSampleDy{"dy", kFeatures, kSamples, kWhole};
constexpr Port kSampleY{"y", kFeatures, kSamples, kWhole};
constexpr Port kSampleDx{"dx", kFeatures, kSamples, kWhole};
constexpr Port kPoolX{"x", kFeatures, kSamples, kColumns};
constexpr Port kPoolDy{"dy", kFeatures, kSamples, kColumns};
constexpr Port kPoolY{"y", kFeatures, kSamples, kColumns};
constexpr Port kPoolDx{"dx", kFeatures, kSamples, kColumns};
constexpr Port kLengthsPort{"lengths", kLengths, kSamples, kWhole};
constexpr Port kLabelsPort{"labels", kIntegers, kRows, kWhole};
constexpr Port kWholeScale{"scale", kVector, kWhole, kWhole};
constexpr Port kWholeBias{"bias", kVector, kWhole, kWhole};

constexpr Port Columns(std::string_view name) {
  return {name, kVector, kWhole, kColumns};
}
constexpr Port Whole(std::string_view name) {
  return {name, kVector, kWhole, kWhole};
}
constexpr Port Heads(std::string_view name, Axis rows) {
  return {name, kFeatures, rows, kHeads};
}
constexpr Port Elements(std::string_view name) {
  return {name, kFloats, kRows, kColumns};
}

const std::vector<Cut> kRowsOnly{{kRows, kParts}};
const std::vector<Cut> kRowsColumns{{kRows, kParts}, {kColumns, kParts}};
const std::vector<Cut> kSamplesOnly{{kSamples, kParts}};
const std::vector<Cut> kSamplesColumns{{kSamples, kParts}, {kColumns, kParts}};
const std::vector<Cut> kSumOfRows{{kRows, kRowSums}};
const std::vector<Cut> kSumOfRowsColumns{{kRows, kRowSums}, {kColumns, kParts}};
const std::vector<Cut> kSumOfSamplesColumns{{kSamples, kRowSums}, {kColumns, kParts}};

// Linear to GroupNorm.
std::vector<GraphOperatorRow> ProductsAndNorms() {
  return {
      {"linear",
       {{"x", kFeatures, kRows, kInputs},
        {"weight", kMatrix, kOutputs, kInputs},
        {"bias", kVector, kWhole, kOutputs, Presence::kOptional}},
       {{"y", kFeatures, kRows, kOutputs}},
       {{kRows, kParts}, {kOutputs, kParts}, {kInputs, kSums}}},
      {"embedding",
       {{"ids", kIntegers, kRows, kWhole}, {"table", kMatrix, kWhole, kColumns}},
       {kY},
       kRowsColumns},
      {"learned_positions", {{"table", kMatrix, kWhole, kColumns}}, {kPoolY}, kSamplesColumns},
      {"rotary", {Heads("x", kRows)}, {Heads("y", kRows)}, {{kRows, kParts}, {kHeads, kParts}}},
      {"attention",
       {Heads("q", kQueries), Heads("k", kKeys), Heads("v", kKeys), Optional(kLengthsPort)},
       {Heads("o", kQueries), Heads("statistics", kQueries)},
       {{kSamples, kParts}, {kHeads, kParts}, {kQueries, kParts}, {kKeys, kTriples}}},
      {"layer_norm", {kRowX, Optional(kWholeScale), Optional(kWholeBias)}, {kRowY}, kRowsOnly},
      {"rms_norm", {kRowX, kWholeScale}, {kRowY}, kRowsOnly},
      {"batch_norm",
       {kX, Columns("scale"), Columns("bias")},
       {kY, Columns("mean"), Columns("variance")},
       kSumOfRowsColumns},
      {"batch_norm_inference",
       {kX, Columns("scale"), Columns("bias"), Columns("mean"), Columns("variance")},
       {kY},
       kRowsColumns},
      {"running_average",
       {Columns("running"), Columns("value")},
       {Columns("y")},
       {{kColumns, kParts}}},
      {"group_norm", {kSampleX, kWholeScale, kWholeBias}, {kSampleY}, kSamplesOnly},
  };
}

// Convolution to SquaredError.
std::vector<GraphOperatorRow> ImagesAndElements() {
  return {
      {"convolution",
       {kSampleX,
        {"weight", kMatrix, kOutputs, kTaps},
        {"bias", kVector, kWhole, kOutputs, Presence::kOptional}},
       {{"y", kFeatures, kSamples, kOutputs}},
       {{kSamples, kParts}, {kOutputs, kParts}, {kTaps, kSums}}},
      {"pooling", {kPoolX}, {kPoolY}, kSamplesColumns},
      {"global_pooling", {kPoolX, Optional(kLengthsPort)}, {kPoolY}, kSamplesColumns},
      {"patches", {kSampleX}, {kSampleY}, kSamplesOnly},
      {"reshape", {kSampleX}, {kSampleY}, kSamplesOnly},
      {"slice", {kSampleX}, {kSampleY}, kSamplesOnly},
      {"concat",
       {{"x", kFeatures, kSamples, kWhole, Presence::kRepeated}},
       {kSampleY},
       kSamplesOnly},
      {"add", {Elements("a"), Elements("b")}, {Elements("y")}, kRowsColumns},
      {"multiply", {Elements("a"), Elements("b")}, {Elements("y")}, kRowsColumns},
      {"scale", {Elements("x")}, {Elements("y")}, kRowsColumns},
      {"scale_columns", {kX, Columns("scale")}, {kY}, kRowsColumns},
      {"activation", {kX}, {kY}, kRowsColumns},
      {"swiglu",
       {{"gate", kFeatures, kRows, kColumns}, {"up", kFeatures, kRows, kColumns}},
       {kY},
       kRowsColumns},
      {"dropout", {kX}, {kY}, kRowsColumns},
      {"cross_entropy",
       {{"logits", kFeatures, kRows, kColumns}, kLabelsPort},
       {{"loss", kFeatures, kRows, kWhole}, {"correct", kFeatures, kRows, kWhole}},
       {{kRows, kParts}, {kColumns, kMaxThenSums}}},
      {"squared_error",
       {kRowX, {"targets", kFeatures, kRows, kWhole}},
       {{"loss", kFeatures, kRows, kWhole}},
       kRowsOnly},
  };
}

// LinearInputGradient to BatchNormInferenceGradient.
std::vector<GraphOperatorRow> GradientsOfProductsAndNorms() {
  return {
      {"linear_input_gradient",
       {{"dy", kFeatures, kRows, kOutputs}, {"weight", kMatrix, kOutputs, kInputs}},
       {{"dx", kFeatures, kRows, kInputs}},
       {{kRows, kParts}, {kInputs, kParts}, {kOutputs, kSums}}},
      {"linear_weight_gradient",
       {{"dy", kFeatures, kRows, kOutputs}, {"x", kFeatures, kRows, kInputs}},
       {{"dweight", kMatrix, kOutputs, kInputs}},
       {{kOutputs, kParts}, {kInputs, kParts}, {kRows, kRowSums}}},
      {"column_sums", {kX}, {Columns("y")}, kSumOfRowsColumns},
      {"column_dots",
       {{"a", kFeatures, kRows, kColumns}, {"b", kFeatures, kRows, kColumns}},
       {Columns("y")},
       kSumOfRowsColumns},
      {"embedding_gradient",
       {{"ids", kIntegers, kRows, kWhole}, kDy},
       {{"dtable", kMatrix, kOutputs, kColumns}},
       {{kOutputs, kParts}, {kColumns, kParts}, {kRows, kRowSums}}},
      {"learned_positions_gradient",
       {kPoolDy},
       {{"dtable", kMatrix, kWhole, kColumns}},
       kSumOfSamplesColumns},
      {"attention_gradient",
       {Heads("q", kQueries), Heads("k", kKeys), Heads("v", kKeys), Optional(kLengthsPort),
        Heads("statistics", kQueries), Heads("o", kQueries), Heads("do", kQueries)},
       {Heads("dq", kQueries), Heads("dk", kKeys), Heads("dv", kKeys)},
       {{kSamples, kParts}, {kHeads, kParts}, {kQueries, kSums}, {kKeys, kSums}}},
      {"layer_norm_gradient", {kRowX, Optional(kWholeScale), kRowDy}, {kRowDx}, kRowsOnly},
      {"layer_norm_scale_gradient", {kRowX, kRowDy}, {Whole("dscale")}, kSumOfRows},
      {"rms_norm_gradient", {kRowX, kWholeScale, kRowDy}, {kRowDx}, kRowsOnly},
      {"rms_norm_scale_gradient", {kRowX, kRowDy}, {Whole("dscale")}, kSumOfRows},
      {"batch_norm_sums",
       {kX, Columns("mean"), Columns("variance"), kDy},
       {Columns("dscale"), Columns("dbias")},
       kSumOfRowsColumns},
      {"batch_norm_gradient",
       {kX, Columns("scale"), Columns("mean"), Columns("variance"), Columns("dscale"),
        Columns("dbias"), kDy},
       {kDx},
       kRowsColumns},
      {"batch_norm_inference_gradient",
       {Columns("scale"), Columns("variance"), kDy},
       {kDx},
       kRowsColumns},
  };
}

// GroupNormGradient to SquaredErrorGradient.
std::vector<GraphOperatorRow> GradientsOfImagesAndElements() {
  return {
      {"group_norm_gradient", {kSampleX, kWholeScale, kSampleDy}, {kSampleDx}, kSamplesOnly},
      {"group_norm_scale_gradient",
       {kSampleX, kSampleDy},
       {Whole("dscale")},
       {{kSamples, kRowSums}}},
      {"convolution_input_gradient",
       {{"dy", kFeatures, kSamples, kOutputs}, {"weight", kMatrix, kOutputs, kWhole}},
       {kSampleDx},
       {{kSamples, kParts}, {kOutputs, kSums}}},
      {"convolution_weight_gradient",
       {{"dy", kFeatures, kSamples, kOutputs}, kSampleX},
       {{"dweight", kMatrix, kOutputs, kTaps}},
       {{kOutputs, kParts}, {kTaps, kParts}, {kSamples, kRowSums}}},
      {"pooling_gradient", {Optional(kPoolX), kPoolDy}, {kPoolDx}, kSamplesColumns},
      {"global_pooling_gradient",
       {Optional(kPoolX), Optional(kLengthsPort), kPoolDy},
       {kPoolDx},
       kSamplesColumns},
      {"patches_gradient", {kSampleDy}, {kSampleDx}, kSamplesOnly},
      {"slice_gradient", {kSampleDy}, {kSampleDx}, kSamplesOnly},
      {"activation_gradient", {{"reads", kFeatures, kRows, kColumns}, kDy}, {kDx}, kRowsColumns},
      {"swiglu_gradient",
       {{"gate", kFeatures, kRows, kColumns}, {"up", kFeatures, kRows, kColumns}, kDy},
       {{"dgate", kFeatures, kRows, kColumns}, {"dup", kFeatures, kRows, kColumns}},
       kRowsColumns},
      {"cross_entropy_gradient",
       {{"logits", kFeatures, kRows, kColumns}, kLabelsPort},
       {{"dlogits", kFeatures, kRows, kColumns}},
       {{kRows, kParts}, {kColumns, kMaxThenSums}}},
      {"squared_error_gradient",
       {kX, {"targets", kFeatures, kRows, kColumns}},
       {kDx},
       kRowsColumns},
  };
}

}  // namespace

const std::vector<GraphOperatorRow>& OperatorTable() {
  static const std::vector<GraphOperatorRow> kTable = [] {
    std::vector<GraphOperatorRow> rows;
    for (const auto part : {ProductsAndNorms, ImagesAndElements, GradientsOfProductsAndNorms,
                            GradientsOfImagesAndElements}) {
      for (GraphOperatorRow& row : part()) rows.push_back(std::move(row));
    }
    assert(rows.size() == std::variant_size_v<Operator>);
    return rows;
  }();
  return kTable;
}

const GraphOperatorRow& RowOf(const Operator& op) {
  return OperatorTable()[op.index()];
}

}  // namespace acan::model
