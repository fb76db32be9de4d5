// Options for small models of each preset, which tests compute in float64. Those that pretrained
// weights decide differ from the defaults, so that a preset which ignores one computes something
// else.
#pragma once

#include <optional>

#include "acan/model/presets.h"

namespace acan::model {

GptOptions SmallGpt();
LlamaOptions SmallLlama();
BertOptions SmallBert(BertTask task);
VitOptions SmallVit();
ResnetOptions SmallResnet(ResnetBlock block, ResnetStem stem, NormKind norm);
ConvnextOptions SmallConvnext();
MlpOptions SmallMlp(std::optional<ActivationKind> activation, LossKind loss);

}  // namespace acan::model
