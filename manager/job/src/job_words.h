// The words of a job's TOML for the enumerations of core/model.h.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/model.h"
#include "acan/manager/job.h"

namespace acan {

template <typename Enum>
using Words = std::vector<std::pair<std::string, Enum>>;

inline const Words<Activation>& ActivationWords() {
  static const Words<Activation> words = [] {
    Words<Activation> all;
    for (const ActivationRow& row : kActivations) all.emplace_back(row.word, row.activation);
    return all;
  }();
  return words;
}

inline const Words<Loss>& LossWords() {
  static const Words<Loss> words = {{"cross_entropy", Loss::kCrossEntropy},
                                    {"mse", Loss::kMeanSquaredError}};
  return words;
}

inline const Words<Optimizer>& OptimizerWords() {
  static const Words<Optimizer> words = [] {
    Words<Optimizer> all;
    for (const OptimizerRow& row : kOptimizers) all.emplace_back(row.word, row.optimizer);
    return all;
  }();
  return words;
}

inline const Words<Precision>& PrecisionWords() {
  static const Words<Precision> words = {{"exact", Precision::kExact}, {"fast", Precision::kFast}};
  return words;
}

inline const Words<ScheduleKind>& ScheduleWords() {
  static const Words<ScheduleKind> words = {{"constant", ScheduleKind::kConstant},
                                            {"step", ScheduleKind::kStep},
                                            {"cosine", ScheduleKind::kCosine}};
  return words;
}

inline const Words<Policy>& PolicyWords() {
  static const Words<Policy> words = {{"auto", Policy::kAuto},
                                      {"paper", Policy::kPaper},
                                      {"gss", Policy::kGuided},
                                      {"factoring", Policy::kFactoring},
                                      {"fixed", Policy::kFixed}};
  return words;
}

template <typename Enum>
const std::string& WordOf(const Words<Enum>& words, Enum value) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  assert(false);
  return words.front().first;
}

}  // namespace acan
