// Building blocks of presets: modules as in PyTorch, each an operator with the parameters
// NAME.weight and NAME.bias.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/model/graph.h"
#include "acan/model/presets.h"

namespace acan::model {

// Checks of options. Messages begin "model: NAME = VALUE".
void CheckCount(std::string_view name, std::int64_t value, std::int64_t least = 1,
                std::int64_t most = kMaxFeatures);
void CheckRate(std::string_view name, float value);  // in [0, 1)
void CheckPositive(std::string_view name, float value);
// A size that a part must divide.
struct NamedSize {
  std::string name;
  std::int64_t size = 0;
};
void CheckDivides(std::string_view part_name, std::int64_t part,
                  const std::vector<NamedSize>& wholes);
// The length of the samples' sequences: `length`, or `most` if it is 0.
std::int64_t CheckedLength(std::int64_t length, std::string_view most_name, std::int64_t most);
void CheckImage(const Extent& image_size, std::int64_t channels, std::int64_t num_classes);
// Checks the widths and block counts of stages.
void CheckStages(const std::vector<std::int64_t>& widths, const std::vector<std::int64_t>& blocks);

// Initial values of a linear operator or a convolution; it has no bias if `bias` is unset.
struct LinearStart {
  Initial weight = Constant{};
  std::optional<Initial> bias = Constant{};
  FileLayout layout = FileLayout::kSame;
};

// A value of images, and the images' size.
struct Image {
  ValueId value = kNoValue;
  Extent size;
};

struct ConvolutionShape {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 1;
  std::int64_t groups = 1;
};

class Composer {
 public:
  explicit Composer(Mode mode) : mode_(mode) {}

  Graph& graph() { return graph_; }
  Graph Take() && { return std::move(graph_); }
  bool training() const { return mode_ == Mode::kTraining; }
  std::int64_t FeaturesOf(ValueId value) const { return graph_.value(value).shape.features; }

  ValueId Linear(const std::string& name, ValueId x, std::int64_t outputs,
                 const LinearStart& start);
  // A linear operator with explicit parameter names, such as torchvision's in_proj_weight.
  ValueId Linear(const std::string& name, const std::string& weight_name,
                 const std::string& bias_name, ValueId x, std::int64_t outputs,
                 const LinearStart& start);
  ValueId Table(const std::string& name, std::int64_t rows, std::int64_t columns,
                const Initial& initial);
  ValueId LayerNorm(const std::string& name, ValueId x, float epsilon, bool bias = true);
  ValueId RmsNorm(const std::string& name, ValueId x, float epsilon);
  ValueId BatchNorm(const std::string& name, ValueId x);
  ValueId GroupNorm(const std::string& name, ValueId x, std::int64_t groups);
  Image Convolution(const std::string& name, const Image& x, std::int64_t outputs,
                    const ConvolutionShape& shape, const LinearStart& start);
  ValueId Activation(const std::string& name, ValueId x, ActivationKind kind);
  ValueId Add(const std::string& name, ValueId a, ValueId b) {
    return graph_.Add(name, model::Add{}, {a, b});
  }
  // Returns x itself if the rate is 0 or the mode is evaluation.
  ValueId Dropout(const std::string& name, ValueId x, float rate,
                  DropoutUnit unit = DropoutUnit::kElement);
  // Attributes of an attention of `heads` heads with the usual scale.
  Attention AttentionOf(AttentionMask mask, std::int64_t heads, std::int64_t key_value_heads,
                        std::int64_t head_size, float dropout);
  // x has the columns of q, k and v, in this order.
  ValueId FusedAttention(const std::string& name, ValueId x, const Attention& attention);
  // Adds a cross-entropy loss over classes, and the logits as an output.
  void Classify(ValueId logits, std::int64_t classes, float label_smoothing);

 private:
  ValueId Vector(const std::string& name, Role role, std::int64_t columns, const Initial& initial);

  Mode mode_;
  Graph graph_;
  std::int64_t dropout_streams_ = 0;
};

}  // namespace acan::model
