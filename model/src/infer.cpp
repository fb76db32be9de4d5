#include "infer.h"

#include <fmt/format.h>

#include <cmath>

#include "acan/core/error.h"
#include "acan/model/dropout.h"
#include "words.h"

namespace acan::model {
namespace {

// What a port expects, in words; empty if `shape` fits.
std::string_view KindProblem(PortKind kind, const Shape& shape) {
  const bool floats = shape.element == Element::kFloat;
  const bool samples = shape.rows_of == RowsOf::kSample;
  switch (kind) {
    case PortKind::kFeatures:
      return floats && samples ? "" : "floats with rows for each sample";
    case PortKind::kIntegers:
      return !floats && samples && shape.features == 1
                 ? ""
                 : "integers with rows for each sample and one feature";
    case PortKind::kLengths:
      return !floats && samples && shape.rows == 1 && shape.features == 1
                 ? ""
                 : "one integer for each sample";
    case PortKind::kMatrix:
      return floats && !samples ? "" : "floats that all samples share";
    case PortKind::kVector:
      return floats && !samples && shape.rows == 1 ? ""
                                                   : "one row of floats that all samples share";
    case PortKind::kFloats:
      return floats ? "" : "floats";
  }
  return "";
}

void CheckExtent(const Operands& in, std::string_view name, const Extent& extent,
                 std::int64_t least) {
  in.ExpectAttribute(extent.height >= least && extent.width >= least && extent.height <= kMaxSide &&
                         extent.width <= kMaxSide,
                     name, fmt::format("{}x{}", extent.height, extent.width),
                     fmt::format("at least {} and at most {} in both directions", least, kMaxSide));
}

}  // namespace

Operands::Operands(const Graph& graph, const std::string& name, const Operator& op,
                   const std::vector<ValueId>& ids)
    : graph_(graph), name_(name), row_(RowOf(op)), ids_(ids) {}

const Shape& Operands::operator[](int operand) const {
  return graph_.value(ids_[static_cast<std::size_t>(operand)]).shape;
}

const Port& Operands::PortOf(int operand) const {
  const auto place = static_cast<std::size_t>(operand);
  return place < row_.operands.size() ? row_.operands[place] : row_.operands.back();
}

std::string Operands::Where() const {
  return fmt::format("node '{}' ({})", name_, row_.name);
}

void Operands::CheckAgainstTable() const {
  const bool repeats =
      !row_.operands.empty() && row_.operands.back().presence == Presence::kRepeated;
  if (ids_.size() > row_.operands.size() && !repeats) {
    throw UsageError(fmt::format("{}: it has {} operands, but takes {} at most", Where(),
                                 ids_.size(), row_.operands.size()));
  }
  for (int i = 0; i < size(); ++i) {
    const Port& port = PortOf(i);
    if (!Has(i)) {
      if (port.presence == Presence::kOptional) continue;
      throw UsageError(fmt::format("{}: operand '{}' is missing", Where(), port.name));
    }
    const std::string_view problem = KindProblem(port.kind, (*this)[i]);
    if (!problem.empty()) Fail(i, std::string(problem));
    // Integers of other roles may be 0.
    if (port.kind == PortKind::kLengths && InputOf(i)->role != InputRole::kLengths) {
      Fail(i, fmt::format("an input of the role \"{}\"", Word(InputRole::kLengths)));
    }
  }
}

const Input* Operands::InputOf(int operand) const {
  const Value& value = graph_.value(ids_[static_cast<std::size_t>(operand)]);
  if (value.source != Source::kInput) return nullptr;
  return &graph_.inputs()[static_cast<std::size_t>(value.index)];
}

void Operands::Fail(int operand, const std::string& expected) const {
  const Value& value = graph_.value(ids_[static_cast<std::size_t>(operand)]);
  throw UsageError(fmt::format("{}: operand '{}' is '{}' of shape {}; expected {}", Where(),
                               PortOf(operand).name, value.name, ToText(value.shape), expected));
}

void Operands::ExpectRows(int operand, std::int64_t rows, std::string_view why) const {
  if (Has(operand) && this->rows(operand) != rows) {
    Fail(operand, fmt::format("{} {}, {}", rows, rows == 1 ? "row" : "rows", why));
  }
}

void Operands::ExpectFeatures(int operand, std::int64_t features, std::string_view why) const {
  if (Has(operand) && this->features(operand) != features) {
    Fail(operand, fmt::format("{} {}, {}", features, features == 1 ? "feature" : "features", why));
  }
}

void Operands::ExpectVector(int operand, std::int64_t features, std::string_view why) const {
  ExpectRows(operand, 1, "as it is a vector");
  ExpectFeatures(operand, features, why);
}

void Operands::ExpectSame(int operand, int as) const {
  if (!Has(operand) || (*this)[operand] == (*this)[as]) return;
  Fail(operand, fmt::format("{}, the shape of operand '{}'", ToText((*this)[as]), PortOf(as).name));
}

void Operands::ExpectBound(int integers, int owner, std::int64_t size,
                           std::string_view what) const {
  const Input* input = InputOf(integers);
  if (input == nullptr) return;
  // Lengths may equal their bound. Used as lengths they count rows; used as row numbers they need
  // one more row than the bound.
  const bool numbers_rows =
      input->role == InputRole::kLengths && PortOf(integers).kind != PortKind::kLengths;
  const std::int64_t least = numbers_rows ? input->bound + 1 : input->bound;
  if (least <= size) return;
  Fail(owner,
       fmt::format("at least {} {}, as the bound of input '{}' is {}{}", least, what, input->name,
                   input->bound, numbers_rows ? ", and lengths may be their bound" : ""));
}

void Operands::ExpectAttribute(bool holds, std::string_view attribute, const std::string& value,
                               std::string_view must) const {
  if (holds) return;
  throw UsageError(fmt::format("{}: {} is {}, but must be {}", Where(), attribute, value, must));
}

void CheckWindow(const Operands& in, const Window& w) {
  CheckExtent(in, "input", w.input, 1);
  CheckExtent(in, "kernel", w.kernel, 1);
  CheckExtent(in, "stride", w.stride, 1);
  CheckExtent(in, "padding", w.padding, 0);
  in.ExpectAttribute(
      w.kernel.height <= w.input.height + 2 * w.padding.height &&
          w.kernel.width <= w.input.width + 2 * w.padding.width,
      "kernel", fmt::format("{}x{}", w.kernel.height, w.kernel.width),
      fmt::format("no larger than the padded input of {}x{}", w.input.height + 2 * w.padding.height,
                  w.input.width + 2 * w.padding.width));
}

void CheckGroups(const Operands& in, const Convolution& op, std::int64_t inputs,
                 std::int64_t outputs) {
  CheckWindow(in, op.window);
  in.ExpectAttribute(
      op.groups >= 1 && inputs % op.groups == 0 && outputs % op.groups == 0, "groups",
      fmt::format("{}", op.groups),
      fmt::format("a divisor of the {} input and the {} output channels", inputs, outputs));
}

void CheckHeads(const Operands& in, const Attention& op) {
  const std::int64_t q = in.features(0);
  in.ExpectAttribute(op.heads >= 1 && q % op.heads == 0, "heads", fmt::format("{}", op.heads),
                     fmt::format("a divisor of the {} features of 'q'", q));
  in.ExpectAttribute(op.key_value_heads >= 1 && op.heads % op.key_value_heads == 0,
                     "key_value_heads", fmt::format("{}", op.key_value_heads),
                     fmt::format("a divisor of the {} heads", op.heads));
  in.ExpectAttribute(std::isfinite(op.scale), "scale", fmt::format("{}", op.scale), "finite");
  CheckDropout(in, "dropout", op.dropout, op.dropout_stream);
  const std::int64_t width = q / op.heads * op.key_value_heads;
  const std::string why =
      fmt::format("as {} key-value heads have {} features each", op.key_value_heads, q / op.heads);
  for (const int operand : {1, 2}) {
    in.ExpectRows(operand, in.rows(0), "those of operand 'q'");
    in.ExpectFeatures(operand, width, why);
  }
}

void CheckDropout(const Operands& in, std::string_view name, float rate, std::int64_t stream) {
  in.ExpectAttribute(rate >= 0.0f && rate < 1.0f, name, fmt::format("{}", rate),
                     "at least 0 and below 1");
  in.ExpectAttribute(stream >= 0 && stream < kMaxDropoutStreams, "the stream of dropout",
                     fmt::format("{}", stream),
                     fmt::format("at least 0 and below {}", kMaxDropoutStreams));
}

void CheckPatches(const Operands& in, const Patches& op) {
  const Extent& patch = op.patch;
  CheckExtent(in, "input", op.input, 1);
  CheckExtent(in, "patch", patch, 1);
  in.ExpectAttribute(op.input.height % patch.height == 0 && op.input.width % patch.width == 0,
                     "patch", fmt::format("{}x{}", patch.height, patch.width),
                     fmt::format("a divisor of the image of {}x{} in both directions",
                                 op.input.height, op.input.width));
}

std::vector<Shape> InferShapes(const Graph& graph, const std::string& name, const Operator& op,
                               const std::vector<ValueId>& operands) {
  const Operands in(graph, name, op, operands);
  in.CheckAgainstTable();
  return IsBackward(op) ? InferBackward(op, in) : InferForward(op, in);
}

}  // namespace acan::model
