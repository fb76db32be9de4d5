// The names that transformers has for one activation function.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace acan {

struct ActivationSynonym {
  std::string_view other;
  std::string_view name;  // the one that acan writes
};

inline constexpr std::array kActivationSynonyms = {
    ActivationSynonym{"gelu_pytorch_tanh", "gelu_new"}, ActivationSynonym{"gelu_fast", "gelu_new"},
    ActivationSynonym{"gelu_python_tanh", "gelu_new"},  ActivationSynonym{"gelu_python", "gelu"},
    ActivationSynonym{"gelu_accurate", "gelu_new"},     ActivationSynonym{"swish", "silu"}};

inline std::string OneActivation(const std::string& word) {
  const auto row =
      std::ranges::find(kActivationSynonyms, word, [](const auto& known) { return known.other; });
  return row == kActivationSynonyms.end() ? word : std::string(row->name);
}

}  // namespace acan
