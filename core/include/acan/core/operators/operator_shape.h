// The shape language of operators.inc: expressions over the dimensions of a call, compiled into
// programs for a small stack machine at compile time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace acan {

// A list of at most kMost values, usable at compile time.
template <typename T, std::size_t kMost>
class Few {
 public:
  constexpr Few() = default;
  constexpr Few(std::initializer_list<T> values) {
    for (const T& value : values) Add(value);
  }
  constexpr void Add(const T& value) {
    if (count_ == kMost) throw "operators.inc: a row has more of something than its list holds";
    values_[count_++] = value;
  }
  constexpr std::size_t size() const { return count_; }
  constexpr bool empty() const { return count_ == 0; }
  constexpr const T& operator[](std::size_t i) const { return values_[i]; }
  constexpr const T* begin() const { return values_.data(); }
  constexpr const T* end() const { return values_.data() + count_; }

 private:
  std::array<T, kMost> values_{};
  std::size_t count_ = 0;
};

inline constexpr std::size_t kMaxDimensions = 16;
inline constexpr std::size_t kMaxExpressionSteps = 20;

// The values of a row's dimensions, by their index in OperatorRow::dimensions.
using Dimensions = std::array<std::int64_t, kMaxDimensions>;

// One expression. `uses` and `factors` are bit masks of dimensions: those that the expression
// names, and those that it can be solved for because they are factors of a product.
struct Expression {
  enum class Do : std::uint8_t { kNumber, kDimension, kAdd, kSubtract, kMultiply, kDivide };
  struct Step {
    Do what = Do::kNumber;
    std::int32_t value = 0;
    friend constexpr bool operator==(const Step&, const Step&) = default;
  };

  Few<Step, kMaxExpressionSteps> steps;  // operands before their operator
  std::uint32_t uses = 0;
  std::uint32_t factors = 0;
  // Most expressions are products of a number and dimensions and need no stack. 0: not such a
  // product.
  std::int64_t coefficient = 0;
  Few<std::uint8_t, kMaxExpressionSteps> dimensions;

  // Whether both have the same steps.
  constexpr bool IsSameAs(const Expression& other) const {
    if (steps.size() != other.steps.size()) return false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!(steps[i] == other.steps[i])) return false;
    }
    return true;
  }

  // nullopt if the value does not fit into 64 bits or a division is by 0.
  constexpr std::optional<std::int64_t> ValueOf(const Dimensions& values) const {
    if (coefficient <= 0) return Compute(values);
    std::int64_t product = coefficient;
    for (const std::uint8_t dimension : dimensions) {
      if (__builtin_mul_overflow(product, values[dimension], &product)) return std::nullopt;
    }
    return product;
  }

 private:
  constexpr std::optional<std::int64_t> Compute(const Dimensions& values) const;
};

constexpr std::optional<std::int64_t> Expression::Compute(const Dimensions& values) const {
  std::array<std::int64_t, kMaxExpressionSteps> stack{};
  std::size_t top = 0;
  for (const Step& step : steps) {
    if (step.what == Do::kNumber || step.what == Do::kDimension) {
      stack[top++] =
          step.what == Do::kNumber ? step.value : values[static_cast<std::size_t>(step.value)];
      continue;
    }
    const std::int64_t right = stack[--top];
    std::int64_t& left = stack[top - 1];
    bool overflows = false;
    if (step.what == Do::kAdd) {
      overflows = __builtin_add_overflow(left, right, &left);
    } else if (step.what == Do::kSubtract) {
      overflows = __builtin_sub_overflow(left, right, &left);
    } else if (step.what == Do::kMultiply) {
      overflows = __builtin_mul_overflow(left, right, &left);
    } else {
      if (right <= 0) return std::nullopt;
      left = left / right - (left % right < 0 ? 1 : 0);
    }
    if (overflows) return std::nullopt;
  }
  return stack[0];
}

// Reads the texts of one row. Dimensions get indexes in the order in which they are first named.
// Malformed text throws; at compile time that is an error that shows the text of the throw.
class ShapeReader {
 public:
  using Names = Few<std::string_view, kMaxDimensions>;

  constexpr explicit ShapeReader(std::string_view text, Names* names) : text_(text), names_(names) {
    Skip();
  }

  constexpr bool AtEnd() const { return at_ == text_.size(); }
  constexpr std::size_t at() const { return at_; }
  constexpr std::string_view Since(std::size_t begin) const {
    std::size_t end = at_;
    while (end > begin && text_[end - 1] == ' ') --end;
    return text_.substr(begin, end - begin);
  }

  constexpr bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    Skip();
    return true;
  }
  constexpr void Expect(char c) {
    if (!Take(c)) throw "operators.inc: a character of the row's language is missing";
  }
  constexpr bool AtWord() const { return !AtEnd() && IsLetter(text_[at_]); }
  constexpr std::string_view Word() {
    if (!AtWord()) throw "operators.inc: a name is missing";
    const std::size_t begin = at_;
    while (!AtEnd() && (IsLetter(text_[at_]) || IsDigit(text_[at_]))) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    Skip();
    return word;
  }

  constexpr Expression Formula() {
    Expression out;
    Sum(out);
    FindProduct(out);
    return out;
  }

  constexpr std::int32_t IndexOf(std::string_view name) {
    for (std::size_t i = 0; i < names_->size(); ++i) {
      if ((*names_)[i] == name) return static_cast<std::int32_t>(i);
    }
    names_->Add(name);
    return static_cast<std::int32_t>(names_->size() - 1);
  }

 private:
  using Do = Expression::Do;

  static constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static constexpr bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

  constexpr void Skip() {
    while (!AtEnd() && text_[at_] == ' ') ++at_;
  }

  static constexpr void FindProduct(Expression& out) {
    std::int64_t coefficient = 1;
    for (const Expression::Step& step : out.steps) {
      if (step.what == Do::kNumber) {
        coefficient *= step.value;
      } else if (step.what == Do::kDimension) {
        out.dimensions.Add(static_cast<std::uint8_t>(step.value));
      } else if (step.what != Do::kMultiply) {
        return;
      }
    }
    out.coefficient = coefficient;
  }

  constexpr void Sum(Expression& out) {
    Product(out);
    for (;;) {
      const Do what = Take('+') ? Do::kAdd : Take('-') ? Do::kSubtract : Do::kNumber;
      if (what == Do::kNumber) return;
      Product(out);
      out.steps.Add({what, 0});
      out.factors = 0;
    }
  }

  constexpr void Product(Expression& out) {
    Factor(out);
    for (;;) {
      const Do what = Take('*') ? Do::kMultiply : Take('/') ? Do::kDivide : Do::kNumber;
      if (what == Do::kNumber) return;
      Factor(out);
      out.steps.Add({what, 0});
      if (what == Do::kDivide) out.factors = 0;
    }
  }

  constexpr void Factor(Expression& out) {
    if (Take('(')) {
      Expression inner;
      Sum(inner);
      Expect(')');
      for (const Expression::Step& step : inner.steps) out.steps.Add(step);
      out.factors &= ~inner.uses;
      out.uses |= inner.uses;
    } else if (AtWord()) {
      const std::int32_t index = IndexOf(Word());
      const std::uint32_t bit = 1u << index;
      out.steps.Add({Do::kDimension, index});
      // A dimension that appears twice is not a factor.
      out.factors = (out.uses & bit) != 0 ? out.factors & ~bit : out.factors | bit;
      out.uses |= bit;
    } else {
      out.steps.Add({Do::kNumber, Number()});
    }
  }

  constexpr std::int32_t Number() {
    if (AtEnd() || !IsDigit(text_[at_])) throw "operators.inc: a number or a name is missing";
    std::int32_t value = 0;
    for (; !AtEnd() && IsDigit(text_[at_]); ++at_) value = value * 10 + (text_[at_] - '0');
    Skip();
    return value;
  }

  std::string_view text_;
  Names* names_;
  std::size_t at_ = 0;
};

}  // namespace acan
