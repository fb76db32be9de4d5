#include "words.h"

#include <fmt/format.h>

#include <type_traits>

namespace acan::model {
namespace {

// The word at the enumerator's place.
template <class Enum, std::size_t kCount>
std::string_view At(Enum value, const std::string_view (&words)[kCount]) {
  const auto place = static_cast<std::size_t>(value);
  return place < kCount ? words[place] : "unknown";
}

// An attribute's value in a dump.
std::string AttributeText(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string AttributeText(float value) {
  return fmt::format("{}", value);
}
std::string AttributeText(const Extent& value) {
  return fmt::format("{}x{}", value.height, value.width);
}
template <class Enum>
requires std::is_enum_v<Enum> std::string AttributeText(Enum value) {
  return std::string(Word(value));
}

struct InitialText {
  std::string operator()(const Constant& c) const { return fmt::format("constant({})", c.value); }
  std::string operator()(const Uniform& u) const {
    return fmt::format("uniform({}, {})", u.low, u.high);
  }
  std::string operator()(const Normal& n) const {
    return fmt::format("normal({}, {})", n.mean, n.deviation);
  }
  std::string operator()(const TruncatedNormal& n) const {
    return fmt::format("truncated_normal({}, {}, {}, {})", n.mean, n.deviation, n.low, n.high);
  }
};

}  // namespace

std::string_view Word(Rotation rotation) {
  return At(rotation, {"forward", "back"});
}
std::string_view Word(AttentionMask mask) {
  return At(mask, {"full", "causal"});
}
std::string_view Word(Correction correction) {
  return At(correction, {"none", "unbiased"});
}
std::string_view Word(PoolingKind kind) {
  return At(kind, {"maximum", "average"});
}
std::string_view Word(SliceAxis axis) {
  return At(axis, {"positions", "features"});
}
std::string_view Word(ActivationKind kind) {
  return At(kind, {"relu", "clipped_relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"});
}
std::string_view Word(DropoutUnit unit) {
  return At(unit, {"element", "sample"});
}
std::string_view Word(ExponentialOrder order) {
  return At(order, {"lanes", "leaves"});
}
std::string_view Word(Role role) {
  return At(role, {"matrix", "bias", "scale", "embedding", "statistic"});
}
std::string_view Word(FileLayout layout) {
  return At(layout, {"same", "transposed", "convolution"});
}
std::string_view Word(InputRole role) {
  return At(role, {"numbers", "targets", "tokens", "labels", "lengths"});
}

std::string_view ToText(Axis axis) {
  return At(axis, {"whole", "samples", "rows", "queries", "keys", "columns", "outputs", "inputs",
                   "heads", "taps"});
}
std::string_view ToText(Halving halving) {
  return At(halving, {"parts", "sums", "row sums", "triples", "maximum then sums"});
}

std::string ToText(const Shape& shape) {
  return fmt::format("{}[{}{}, {}]", shape.element == Element::kInteger ? "integers " : "",
                     shape.rows_of == RowsOf::kSample ? "samples x " : "", shape.rows,
                     shape.features);
}

std::string ToText(const Initial& initial) {
  return std::visit(InitialText{}, initial);
}

std::string ToText(const Operator& op) {
  return std::visit(
      [](const auto& attributes) {
        using Attributes = std::decay_t<decltype(attributes)>;
        std::string inside;
        Attributes::Attributes(attributes, [&](std::string_view name, const auto& value) {
          inside += fmt::format("{}{}={}", inside.empty() ? "" : ", ", name, AttributeText(value));
        });
        const std::string name(Attributes::kName);
        return inside.empty() ? name : fmt::format("{}({})", name, inside);
      },
      op);
}

}  // namespace acan::model
