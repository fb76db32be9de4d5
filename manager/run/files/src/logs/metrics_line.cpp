#include "metrics_line.h"

#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include "acan/core/text/json_text.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Reads a line as MetricsLog writes it: a JSON object of numbers and nulls without spaces. That is
// many times faster than the JSON library, and a file may have millions of lines. Any other text
// makes it give up, even if it is JSON.
class QuickReader {
 public:
  explicit QuickReader(std::string_view text) : text_(text) {}

  std::optional<MetricsLine> Read() {
    if (!Take('{')) return std::nullopt;
    do {
      if (!TakePair()) return std::nullopt;
    } while (Take(','));
    if (!Take('}') || at_ != text_.size()) return std::nullopt;
    if (!step_ || !(loss_.seen || test_loss_.seen)) return std::nullopt;
    MetricsLine line;
    line.step = *step_;
    line.of_step = loss_.seen;
    line.loss = line.of_step ? loss_.number : test_loss_.number;
    line.learning_rate = learning_rate_.number.value_or(0);
    return line;
  }

 private:
  struct Value {
    bool seen = false;
    std::optional<double> number;  // nullopt: null
  };

  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool TakeDigits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    return at_ > begin;
  }

  // An empty text: there is no JSON number here.
  std::string_view TakeNumber() {
    const std::size_t begin = at_;
    Take('-');
    if (!Take('0') && !TakeDigits()) return {};
    if (Take('.') && !TakeDigits()) return {};
    if (Take('e') || Take('E')) {
      if (!Take('-')) Take('+');
      if (!TakeDigits()) return {};
    }
    return text_.substr(begin, at_ - begin);
  }

  // False if the number has no value that a double can hold: the library decides what that is.
  bool TakeValue(Value& value) {
    if (std::exchange(value.seen, true)) return false;
    if (text_.substr(at_).starts_with("null")) {
      at_ += 4;
      return true;
    }
    const std::string_view number = TakeNumber();
    const char* const end = number.data() + number.size();
    const auto parsed = std::from_chars(number.data(), end, value.number.emplace());
    return !number.empty() && parsed.ec == std::errc() && parsed.ptr == end;
  }

  bool TakeStep() {
    const std::string_view number = TakeNumber();
    if (step_ || number.empty() || !IsDigit(number.front())) return false;
    const char* const end = number.data() + number.size();
    const auto parsed = std::from_chars(number.data(), end, step_.emplace());
    return parsed.ec == std::errc() && parsed.ptr == end;
  }

  bool TakePair() {
    if (!Take('"')) return false;
    const std::size_t begin = at_;
    while (at_ < text_.size() && ((text_[at_] >= 'a' && text_[at_] <= 'z') || text_[at_] == '_')) {
      ++at_;
    }
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (!Take('"') || !Take(':')) return false;
    if (name == "step") return TakeStep();
    if (name == "loss") return TakeValue(loss_);
    if (name == "test_loss") return TakeValue(test_loss_);
    if (name == "learning_rate") return TakeValue(learning_rate_);
    Value other;
    return TakeValue(other);
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::optional<std::int64_t> step_;
  Value loss_, test_loss_, learning_rate_;
};

}  // namespace

std::optional<MetricsLine> ParseMetricsLine(std::string_view text) {
  if (const auto line = QuickReader(text).Read()) return line;
  const json value = ParseJsonOrDiscard(text);
  if (!value.is_object() || !value.contains("step")) return std::nullopt;
  // As MetricsLog writes it, without a sign: "-0" indicates damage.
  if (!value.at("step").is_number_unsigned()) return std::nullopt;
  MetricsLine line;
  line.step = value.at("step").get<std::int64_t>();
  line.of_step = value.contains("loss");
  if (!line.of_step && !value.contains("test_loss")) return std::nullopt;
  const json& loss = value.at(line.of_step ? "loss" : "test_loss");
  if (line.step < 0 || !(loss.is_number() || loss.is_null())) return std::nullopt;
  if (loss.is_number()) line.loss = loss.get<double>();
  const auto rate = value.find("learning_rate");
  if (rate != value.end() && rate->is_number()) line.learning_rate = rate->get<double>();
  return line;
}

}  // namespace acan
