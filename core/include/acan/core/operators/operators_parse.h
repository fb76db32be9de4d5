// The parser of operators.h, which includes this file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace acan {

constexpr std::size_t ElementBytes(Element element) {
  switch (element) {
    case Element::kFloat32:
    case Element::kInt32:
      return 4;
  }
  throw "an element type without a size";
}

namespace operators_parse {

constexpr KernelSpace SpaceOf(std::string_view word) {
  if (word == "ELEMENT") return KernelSpace::kElement;
  if (word == "ROW") return KernelSpace::kRow;
  if (word == "COLUMN") return KernelSpace::kColumn;
  if (word == "TILE") return KernelSpace::kTile;
  throw "operators.inc: the iteration is not ELEMENT, ROW, COLUMN or TILE";
}

constexpr Access AccessOf(std::string_view word) {
  if (word == "read") return Access::kRead;
  if (word == "write") return Access::kWrite;
  if (word == "update") return Access::kUpdate;
  throw "operators.inc: the access of an operand is not read, write or update";
}

constexpr Element ElementOf(std::string_view word) {
  if (word == "float32") return Element::kFloat32;
  if (word == "int32") return Element::kInt32;
  throw "operators.inc: the element type of an operand is not float32 or int32";
}

constexpr ScalarRule RuleOf(std::string_view word) {
  if (word == "variant") return ScalarRule::kVariant;
  if (word == "block") return ScalarRule::kBlock;
  if (word == "size") return ScalarRule::kSize;
  if (word == "offset") return ScalarRule::kOffset;
  throw "operators.inc: the rule of a scalar is not variant, block, size or offset";
}

constexpr std::uint32_t KnownFromScalars(const OperatorRow& row) {
  std::uint32_t known = 0;
  for (const OperatorRow::FromScalar& from : row.from_scalars) known |= 1u << from.dimension;
  for (const OperatorRow::Defined& each : row.defined) known |= 1u << each.dimension;
  return known;
}

constexpr void ReadDefinition(ShapeReader& in, OperatorRow& row) {
  OperatorRow::Defined defined;
  defined.dimension = static_cast<std::size_t>(in.IndexOf(in.Word()));
  in.Expect('=');
  defined.value = in.Formula();
  if ((defined.value.uses & ~KnownFromScalars(row)) != 0) {
    throw "operators.inc: a definition uses what is neither a scalar nor defined before it";
  }
  row.defined.Add(defined);
}

constexpr void ReadScalars(std::string_view text, OperatorRow& row) {
  ShapeReader in(text, &row.dimensions);
  std::size_t floats = 0, integers = 0;
  while (!in.AtEnd()) {
    Scalar scalar;
    const std::string_view type = in.Word();
    if (type == "let") {
      ReadDefinition(in, row);
      if (!in.AtEnd()) in.Expect(';');
      continue;
    }
    if (type != "int" && type != "float") throw "operators.inc: a scalar is not int or float";
    scalar.integer = type == "int";
    scalar.name = in.Word();
    scalar.index = scalar.integer ? integers++ : floats++;
    if (in.Take(':')) scalar.rule = RuleOf(in.Word());
    if (scalar.rule != ScalarRule::kAny && !scalar.integer) {
      throw "operators.inc: a float has a rule, which only integers may";
    }
    if (scalar.rule == ScalarRule::kSize || scalar.rule == ScalarRule::kOffset) {
      row.from_scalars.Add({static_cast<std::size_t>(in.IndexOf(scalar.name)), scalar.index});
    }
    row.scalars.Add(scalar);
    if (!in.AtEnd()) in.Expect(';');
  }
  if (integers > ACAN_KERNEL_INTEGERS || floats > ACAN_KERNEL_FLOATS) {
    throw "operators.inc: a row has more scalars than a call can carry (kernel_constants.h)";
  }
}

constexpr void ReadOperands(std::string_view text, OperatorRow& row) {
  ShapeReader in(text, &row.dimensions);
  while (!in.AtEnd()) {
    Operand operand;
    operand.access = AccessOf(in.Word());
    operand.optional = in.Take('?');
    const std::size_t begin = in.at();
    operand.name = in.Word();
    in.Expect('[');
    operand.rows = in.Formula();
    in.Expect(',');
    operand.cols = in.Formula();
    in.Expect(']');
    operand.text = in.Since(begin);
    if (in.Take(':')) operand.element = ElementOf(in.Word());
    if (in.AtWord()) {
      if (in.Word() != "touches") throw "operators.inc: unknown word behind an operand";
      operand.touched = in.Formula();
    }
    row.operands.Add(operand);
    if (!in.AtEnd()) in.Expect(';');
  }
}

// Whether `expression` determines the only dimension in it that is not known yet.
constexpr bool Gives(const Expression& expression, std::uint32_t known, std::size_t& dimension) {
  const std::uint32_t missing = expression.uses & ~known;
  if (missing == 0 || (missing & (missing - 1)) != 0 || (expression.factors & missing) == 0) {
    return false;
  }
  dimension = 0;
  while ((missing >> dimension & 1) == 0) ++dimension;
  return true;
}

// Visits the operands, read ones first, until no new dimension is found.
constexpr void FindDimensions(OperatorRow& row) {
  std::uint32_t known = KnownFromScalars(row);
  for (bool found = true; found;) {
    found = false;
    for (const bool read : {true, false}) {
      for (std::size_t i = 0; i < row.operands.size(); ++i) {
        const Operand& operand = row.operands[i];
        if (operand.optional || operand.reads() != read) continue;
        for (const bool of_cols : {false, true}) {
          std::size_t dimension = 0;
          const Expression& given = of_cols ? operand.cols : operand.rows;
          if (!Gives(given, known, dimension)) continue;
          row.from_operands.Add({dimension, i, of_cols, given.steps.size() == 1});
          known |= 1u << dimension;
          found = true;
        }
      }
    }
  }
  if (known != (1u << row.dimensions.size()) - 1) {
    throw "operators.inc: no scalar and no operand that is always there gives some dimension";
  }
}

constexpr std::uint32_t MayBe(const OperatorRow& row, const Operand& written) {
  const bool overlaps_none = row.space == KernelSpace::kTile ||
                             row.meaning.find("overlaps no operand") != std::string_view::npos;
  if (overlaps_none) return 0;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    const Operand& read = row.operands[i];
    const bool is_alike = read.rows.IsSameAs(written.rows) && read.cols.IsSameAs(written.cols);
    if (read.access == Access::kRead && is_alike) bits |= 1u << i;
  }
  return bits;
}

// Sets which operands each written operand may be the same matrix as, and which are touched only at
// the element of the space.
constexpr void FindMeetings(OperatorRow& row) {
  Few<Operand, ACAN_KERNEL_MATRICES> operands;
  for (Operand operand : row.operands) {
    if (operand.access == Access::kWrite) operand.may_be = MayBe(row, operand);
    operand.at_element = row.space == KernelSpace::kElement &&
                         operand.rows.IsSameAs(row.space_rows) &&
                         operand.cols.IsSameAs(row.space_cols);
    operands.Add(operand);
  }
  row.operands = operands;
}

constexpr void CheckRow(const OperatorRow& row) {
  bool writes = false;
  for (const Operand& operand : row.operands) writes = writes || operand.writes();
  if (!writes) throw "operators.inc: a row writes nothing";
  bool has_variant = false;
  for (const Scalar& scalar : row.scalars) {
    if (scalar.rule != ScalarRule::kVariant) continue;
    has_variant = true;
    if (scalar.index != 0) throw "operators.inc: the variant is not the first integer";
  }
  if (has_variant != (row.variants > 1)) {
    throw "operators.inc: a row has variants exactly if a scalar chooses between them";
  }
}

}  // namespace operators_parse

constexpr OperatorRow ParseOperator(std::string_view name, std::string_view function_space,
                                    std::int64_t variants, std::string_view space,
                                    std::string_view operands, std::string_view scalars,
                                    std::string_view flops, std::string_view meaning) {
  OperatorRow row;
  row.name = name;
  row.space = operators_parse::SpaceOf(function_space);
  row.variants = variants;
  row.meaning = meaning;
  operators_parse::ReadScalars(scalars, row);
  operators_parse::ReadOperands(operands, row);
  ShapeReader of_space(space, &row.dimensions);
  of_space.Expect('[');
  row.space_rows = of_space.Formula();
  of_space.Expect(',');
  row.space_cols = of_space.Formula();
  of_space.Expect(']');
  ShapeReader of_flops(flops, &row.dimensions);
  row.flops = of_flops.Formula();
  if (!of_space.AtEnd() || !of_flops.AtEnd()) throw "operators.inc: text behind an expression";
  operators_parse::FindDimensions(row);
  operators_parse::FindMeetings(row);
  operators_parse::CheckRow(row);
  return row;
}

// Each row is a constant of its own, so that the compiler names a malformed row.
namespace operator_rows {

#define ACAN_OPERATOR(number, enumerator, function, iteration, variants, space, operands, scalars, \
                      flops, meaning)                                                              \
  inline constexpr OperatorRow enumerator =                                                        \
      ParseOperator(#enumerator, #iteration, variants, space, operands, scalars, flops, meaning);
#define ACAN_PRODUCT(number, enumerator, name, space, operands, flops, meaning) \
  inline constexpr OperatorRow enumerator =                                     \
      ParseOperator(name, "ELEMENT", 1, space, operands, "", flops, meaning);
#include "acan/core/operators/operators.inc"

}  // namespace operator_rows

// Row i describes the kernel, or the product, with the number i.
inline constexpr const OperatorRow* kKernelRows[] = {
#define ACAN_OPERATOR(number, enumerator, ...) &operator_rows::enumerator,
#include "acan/core/operators/operators.inc"
};
inline constexpr std::size_t kKernels = std::size(kKernelRows);

inline constexpr const OperatorRow* kProductRows[] = {
#define ACAN_PRODUCT(number, enumerator, ...) &operator_rows::enumerator,
#include "acan/core/operators/operators.inc"
};
inline constexpr std::size_t kProducts = std::size(kProductRows);

namespace operators_parse {

constexpr bool NumbersAreThoseOfTheRows() {
  std::size_t kernel = 0, product = 0;
  bool right = true;
#define ACAN_OPERATOR(number, ...) right = right && kernel++ == number;
#define ACAN_PRODUCT(number, ...) right = right && product++ == number;
#include "acan/core/operators/operators.inc"
  return right && kernel == kKernels && product == kProducts;
}
static_assert(NumbersAreThoseOfTheRows(), "operators.inc: row i must have the number i");

constexpr bool ActivationsAreInOrder() {
  for (std::size_t i = 0; i < std::size(kActivations); ++i) {
    if (static_cast<std::size_t>(kActivations[i].activation) != i) return false;
  }
  return std::size(kActivations) == ACAN_ACTIVATION_COUNT;
}
static_assert(ActivationsAreInOrder(), "kernel_constants.h: activation i must have the number i");

[[noreturn]] void RefuseNumber(std::string_view what, std::size_t number, std::size_t rows);

}  // namespace operators_parse

constexpr const OperatorRow& RowOf(Kernel kernel) {
  const auto index = static_cast<std::size_t>(kernel);
  if (index >= kKernels) operators_parse::RefuseNumber("kernel", index, kKernels);
  return *kKernelRows[index];
}

constexpr const OperatorRow& RowOf(GemmForm form) {
  const auto index = static_cast<std::size_t>(form);
  if (index >= kProducts) operators_parse::RefuseNumber("product", index, kProducts);
  return *kProductRows[index];
}

namespace operators_parse {

[[noreturn]] void RefuseMeeting(const OperatorRow& row, std::size_t written, std::size_t other);

}  // namespace operators_parse

template <typename Meet>
void CheckMeetings(const OperatorRow& row, const Meet& meet) {
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    if (!row.operands[i].writes()) continue;
    for (std::size_t j = 0; j < row.operands.size(); ++j) {
      if (j == i) continue;
      const Meeting meeting = meet(i, j);
      const bool may_be = (row.operands[i].may_be >> j & 1) != 0;
      if (meeting == Meeting::kApart || (meeting == Meeting::kSame && may_be)) continue;
      operators_parse::RefuseMeeting(row, i, j);
    }
  }
}

constexpr bool SumIndexComesFirst(GemmForm form, std::size_t operand) {
  // c, the last operand, has every dimension except the one that is summed over.
  const OperatorRow& row = RowOf(form);
  const Operand& c = row.operands[2];
  return (row.operands[operand].rows.uses & (c.rows.uses | c.cols.uses)) == 0;
}

}  // namespace acan
