// The words of a job's TOML for the enumerations of core/model.h and model/presets.h.
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
  static const Words<Activation> kWords = [] {
    Words<Activation> all;
    for (const ActivationRow& row : kActivations) all.emplace_back(row.word, row.activation);
    return all;
  }();
  return kWords;
}

inline const Words<Loss>& LossWords() {
  static const Words<Loss> kWords = {{"cross_entropy", Loss::kCrossEntropy},
                                     {"mse", Loss::kMeanSquaredError}};
  return kWords;
}

inline const Words<Optimizer>& OptimizerWords() {
  static const Words<Optimizer> kWords = [] {
    Words<Optimizer> all;
    for (const OptimizerRow& row : kOptimizers) all.emplace_back(row.word, row.optimizer);
    return all;
  }();
  return kWords;
}

inline const Words<Precision>& PrecisionWords() {
  static const Words<Precision> kWords = {{"exact", Precision::kExact}, {"fast", Precision::kFast}};
  return kWords;
}

inline const Words<ScheduleKind>& ScheduleWords() {
  static const Words<ScheduleKind> kWords = {{"constant", ScheduleKind::kConstant},
                                             {"step", ScheduleKind::kStep},
                                             {"cosine", ScheduleKind::kCosine}};
  return kWords;
}

inline const Words<Policy>& PolicyWords() {
  static const Words<Policy> kWords = {{"auto", Policy::kAuto},
                                       {"paper", Policy::kPaper},
                                       {"gss", Policy::kGuided},
                                       {"factoring", Policy::kFactoring},
                                       {"fixed", Policy::kFixed}};
  return kWords;
}

inline const Words<RecomputePolicy>& RecomputeWords() {
  static const Words<RecomputePolicy> kWords = {{"auto", RecomputePolicy::kAuto},
                                                {"never", RecomputePolicy::kNever},
                                                {"always", RecomputePolicy::kAlways}};
  return kWords;
}

inline const Words<model::DecayRule>& DecayWords() {
  static const Words<model::DecayRule> kWords = {{"everything", model::DecayRule::kEverything},
                                                 {"matrices", model::DecayRule::kMatrices}};
  return kWords;
}

inline const Words<OutputConfig>& OutputConfigWords() {
  static const Words<OutputConfig> kWords = {{"none", OutputConfig::kNone},
                                             {"transformers", OutputConfig::kTransformers}};
  return kWords;
}

// ---- of models: chosen by the type of the value ------------------------------------------------

inline const Words<model::ActivationKind>& ModelWords(model::ActivationKind) {
  using Kind = model::ActivationKind;
  static const Words<Kind> kWords = {{"relu", Kind::kRelu},          {"tanh", Kind::kTanh},
                                     {"sigmoid", Kind::kSigmoid},    {"gelu", Kind::kGelu},
                                     {"gelu_tanh", Kind::kGeluTanh}, {"silu", Kind::kSilu}};
  return kWords;
}

// kEncoder is missing, because an encoder alone has no loss and so no job can train it.
inline const Words<model::BertTask>& ModelWords(model::BertTask) {
  static const Words<model::BertTask> kWords = {
      {"masked_language", model::BertTask::kMaskedLanguage},
      {"classification", model::BertTask::kClassification}};
  return kWords;
}

inline const Words<model::ResnetBlock>& ModelWords(model::ResnetBlock) {
  static const Words<model::ResnetBlock> kWords = {{"basic", model::ResnetBlock::kBasic},
                                                   {"bottleneck", model::ResnetBlock::kBottleneck}};
  return kWords;
}

inline const Words<model::ResnetStem>& ModelWords(model::ResnetStem) {
  static const Words<model::ResnetStem> kWords = {{"imagenet", model::ResnetStem::kImageNet},
                                                  {"small", model::ResnetStem::kSmall}};
  return kWords;
}

inline const Words<model::NormKind>& ModelWords(model::NormKind) {
  static const Words<model::NormKind> kWords = {{"batch", model::NormKind::kBatch},
                                                {"group", model::NormKind::kGroup}};
  return kWords;
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
