// Writes docs/operators.md from the tables, or checks it:
//   operators_document            prints it
// operators_document FILE       fails if the file's contents differ
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "acan/core/operators/operators.h"
#include "acan/core/optimizers.h"

namespace acan {
namespace {

// The end of the words from `at` on that must stay on one line: a line that starts with an operator
// sign would be a list item in Markdown.
std::size_t EndOfWords(std::string_view text, std::size_t at) {
  std::size_t end = std::min(text.find(' ', at), text.size());
  while (end + 2 < text.size() && text[end + 2] == ' ' &&
         std::string_view("*+-").find(text[end + 1]) != std::string_view::npos) {
    end += 2;
  }
  return end;
}

// Wraps `text` at spaces so that no line has more than 100 columns.
std::string Wrapped(std::string_view text, std::string_view first, std::string_view others) {
  constexpr std::size_t kColumns = 100;
  std::string out, line(first);
  bool empty = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = EndOfWords(text, at);
    const std::string_view word = text.substr(at, end - at);
    if (!empty && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = others;
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
    at = end + 1;
  }
  return out + line + "\n";
}

std::string_view AccessText(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "written";
    case Access::kUpdate:
      return "read and written";
  }
  return "";
}

std::string RuleText(const OperatorRow& row, const Scalar& scalar) {
  switch (scalar.rule) {
    case ScalarRule::kAny:
      return "";
    case ScalarRule::kVariant:
      return fmt::format(", 0 to {}", row.variants - 1);
    case ScalarRule::kBlock:
      return ", a power of two of at least 16";
    case ScalarRule::kSize:
      return ", a size of at least 1";
    case ScalarRule::kOffset:
      return ", at least 0";
  }
  return "";
}

std::string_view SpaceText(KernelSpace space) {
  switch (space) {
    case KernelSpace::kElement:
      return "element by element";
    case KernelSpace::kRow:
      return "row by row";
    case KernelSpace::kColumn:
      return "column by column";
    case KernelSpace::kTile:
      return "tile by tile";
  }
  return "";
}

std::string Section(const OperatorRow& row, std::string_view space, std::string_view flops) {
  std::string out = fmt::format("### {}\n\n", row.name);
  out += Wrapped(row.meaning, "", "") + "\n";
  out +=
      Wrapped(fmt::format("Computed {} over `{}`; {} flops.", SpaceText(row.space), space, flops),
              "", "") +
      "\n";
  for (const Operand& operand : row.operands) {
    out += Wrapped(fmt::format("`{}`: {}{}{}", operand.text, AccessText(operand.access),
                               operand.element == Element::kInt32 ? ", int32" : "",
                               operand.optional ? ", may be absent" : ""),
                   "- ", "  ");
  }
  for (const Scalar& scalar : row.scalars) {
    out += Wrapped(fmt::format("`{}[{}]` {}{}", scalar.integer ? 'i' : 'f', scalar.index,
                               scalar.name, RuleText(row, scalar)),
                   "- ", "  ");
  }
  return out + "\n";
}

std::string RangeText(const OptimizerKey& key) {
  return fmt::format("in [{}, {}{}", key.least, key.most, key.below_most ? ")" : "]");
}

std::string OptimizerSection(const OptimizerRow& row) {
  std::string out = fmt::format("### {}\n\n", row.word);
  out += Wrapped(fmt::format("{} Kernel {}, {} matri{} of state for each parameter.", row.meaning,
                             RowOf(row.kernel).name, row.states, row.states == 1 ? "x" : "ces"),
                 "", "");
  out += "\n";
  for (const OptimizerKey& key : kOptimizerKeys) {
    const UsedKey* const used = FindKey(row, key.name);
    if (used == nullptr) continue;
    out +=
        fmt::format("- `train.{}`, {}; {} by default\n", key.name, RangeText(key), used->standard);
  }
  return out + "\n";
}

std::string Document() {
  std::string out =
      "# Calls and kernels\n\n"
      "This file lists what a task can ask of a device. The operators of a model, of which graph\n"
      "files consist, are in another [table](graph_files.md#nodes).\n"
      "\n"
      "This file is made from the table of calls\n"
      "(`core/include/acan/core/operators/operators.inc`), and a test compares the two. To change\n"
      "it, change the table and run `operators_document > docs/operators.md`. The head of the\n"
      "table explains the rows and how shapes are written. Matrices are of float32 unless stated.\n"
      "\n"
      "## Products\n\n"
      "The sum is in the canonical order, with leaves of the task's `block`. The result overlaps "
      "no\n"
      "operand.\n\n";
#define ACAN_PRODUCT(number, enumerator, name, space, operands, flops, meaning) \
  out += Section(RowOf(GemmForm::enumerator), space, flops);
#include "acan/core/operators/operators.inc"
  out +=
      "## Kernels\n\n"
      "A written operand may be the same matrix as a read one whose shape is written in the same\n"
      "way; it overlaps no other operand in any other way. In kernels that are computed tile by\n"
      "tile, and where the text says so, it overlaps no operand.\n\n";
#define ACAN_OPERATOR(number, enumerator, function, iteration, variants, space, operands, scalars, \
                      flops, meaning)                                                              \
  out += Section(RowOf(Kernel::enumerator), space, flops);
#include "acan/core/operators/operators.inc"
  out +=
      "## Activations\n\n"
      "These are the values of the scalar `activation`.\n\n";
  for (const ActivationRow& row : kActivations) {
    out += fmt::format("- {} `{}`: its gradient takes its {}\n", static_cast<int>(row.activation),
                       row.word, row.gradient_takes_input ? "input" : "output");
  }
  out +=
      "\n## Optimizers\n\n"
      "These are the words of the job file's key `train.optimizer`\n"
      "(`core/include/acan/core/optimizers.h`), with the keys that each one uses, their ranges\n"
      "and their defaults.\n\n";
  for (const OptimizerRow& row : kOptimizers) out += OptimizerSection(row);
  out.pop_back();
  return out;
}

int Check(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::istringstream want(Document());
  for (int line = 1;; ++line) {
    std::string is, must;
    const bool more = static_cast<bool>(std::getline(text, is));
    const bool more_wanted = static_cast<bool>(std::getline(want, must));
    if (!more && !more_wanted) return 0;
    if (more == more_wanted && is == must) continue;
    std::cerr << fmt::format(
        "{}, line {} is \"{}\", must be \"{}\"; operators_document prints the whole file\n", path,
        line, is, must);
    return 1;
  }
}

}  // namespace
}  // namespace acan

int main(int argc, char** argv) {
  if (argc > 2) {
    std::cerr << "usage: operators_document [FILE]\n";
    return 2;
  }
  if (argc == 2) return acan::Check(argv[1]);
  std::cout << acan::Document();
  return 0;
}
