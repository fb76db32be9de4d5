// Operators that only gradients need, in the order of the forward operators that they belong to. dy
// is the loss' gradient with respect to the forward operator's result y, and so on. These operators
// have no gradients themselves.
#pragma once

#include <cstdint>
#include <string_view>

#include "acan/model/operators.h"

namespace acan::model {

// dx[r, i] = sum over o of dy[r, o] weight[o, i]
struct LinearInputGradient {
  static constexpr std::string_view kName = "linear_input_gradient";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const LinearInputGradient&, const LinearInputGradient&) = default;
};

// dweight[o, i] = sum over r of dy[r, o] x[r, i]
struct LinearWeightGradient {
  static constexpr std::string_view kName = "linear_weight_gradient";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const LinearWeightGradient&, const LinearWeightGradient&) = default;
};

// y[0, c] = sum over r of x[r, c]: the gradient of every bias
struct ColumnSums {
  static constexpr std::string_view kName = "column_sums";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const ColumnSums&, const ColumnSums&) = default;
};

// y[0, c] = sum over r of a[r, c] b[r, c]: the gradient of ScaleColumns' scale
struct ColumnDots {
  static constexpr std::string_view kName = "column_dots";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const ColumnDots&, const ColumnDots&) = default;
};

// dtable[t, c] = sum over the rows r with ids[r] = t of dy[r, c]; 0 for t = padding_id. It is the
// product of the one-hot matrix with dy, so its order is that of LinearWeightGradient.
struct EmbeddingGradient {
  static constexpr std::string_view kName = "embedding_gradient";
  Embedding forward;
  std::int64_t rows = 0;  // of the table
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Embedding::Attributes(self.forward, visit);
    visit("rows", self.rows);
  }
  friend bool operator==(const EmbeddingGradient&, const EmbeddingGradient&) = default;
};

// dtable[first + p, c] = sum over s of dy[(s, p), c]; 0 in the other rows
struct LearnedPositionsGradient {
  static constexpr std::string_view kName = "learned_positions_gradient";
  std::int64_t first = 0;
  std::int64_t rows = 0;  // of the table
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("first", self.first);
    visit("rows", self.rows);
  }
  friend bool operator==(const LearnedPositionsGradient&,
                         const LearnedPositionsGradient&) = default;
};

// With w and w' = m w of Attention (m = 1/(1 - dropout) or 0), g[i, j] = m[i, j] (do[i] . v[j]) and
// D[i] = do[i] . o[i], for each sample and head:
//   ds[i, j] = w[i, j] (g[i, j] - D[i])
//   dq[i] = scale x sum over j of ds[i, j] k[j]
//   dk[j] = scale x sum over i of ds[i, j] q[i]    dv[j] = sum over i of w'[i, j] do[i]
// dk and dv of a key-value head are sums over its query heads in ascending order. w is computed
// from q, k and `statistics`; the weights are not stored.
struct AttentionGradient {
  static constexpr std::string_view kName = "attention_gradient";
  Attention forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Attention::Attributes(self.forward, visit);
  }
  friend bool operator==(const AttentionGradient&, const AttentionGradient&) = default;
};

// With h = (x - mean) / sqrt(variance + epsilon), g = dy x scale, C features:
//   dx = (g - sum(g) / C - h x sum(g h) / C) / sqrt(variance + epsilon), the sums over the row
struct LayerNormGradient {
  static constexpr std::string_view kName = "layer_norm_gradient";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const LayerNormGradient&, const LayerNormGradient&) = default;
};

// dscale[0, c] = sum over r of dy[r, c] h[r, c]
struct LayerNormScaleGradient {
  static constexpr std::string_view kName = "layer_norm_scale_gradient";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const LayerNormScaleGradient&, const LayerNormScaleGradient&) = default;
};

// With h = x / sqrt(mean of x^2 + epsilon) and g = dy x scale:
//   dx = (g - h x sum(g h) / C) / sqrt(mean of x^2 + epsilon)
struct RmsNormGradient {
  static constexpr std::string_view kName = "rms_norm_gradient";
  float epsilon = 1e-6f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const RmsNormGradient&, const RmsNormGradient&) = default;
};

// dscale[0, c] = sum over r of dy[r, c] h[r, c]
struct RmsNormScaleGradient {
  static constexpr std::string_view kName = "rms_norm_scale_gradient";
  float epsilon = 1e-6f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const RmsNormScaleGradient&, const RmsNormScaleGradient&) = default;
};

// The two column sums of batch norm's gradient, with h = (x - mean) / sqrt(variance + epsilon):
//   dscale[0, c] = sum over r of dy[r, c] h[r, c];  dbias[0, c] = sum over r of dy[r, c]
struct BatchNormSums {
  static constexpr std::string_view kName = "batch_norm_sums";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const BatchNormSums&, const BatchNormSums&) = default;
};

// dx = (dy - dbias / R - h x dscale / R) x scale / sqrt(variance + epsilon), R = rows of the batch
struct BatchNormGradient {
  static constexpr std::string_view kName = "batch_norm_gradient";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const BatchNormGradient&, const BatchNormGradient&) = default;
};

// dx = dy x scale / sqrt(variance + epsilon)
struct BatchNormInferenceGradient {
  static constexpr std::string_view kName = "batch_norm_inference_gradient";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const BatchNormInferenceGradient&,
                         const BatchNormInferenceGradient&) = default;
};

// As LayerNormGradient, with the sums over the positions and channels of a sample's group.
struct GroupNormGradient {
  static constexpr std::string_view kName = "group_norm_gradient";
  GroupNorm forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    GroupNorm::Attributes(self.forward, visit);
  }
  friend bool operator==(const GroupNormGradient&, const GroupNormGradient&) = default;
};

// dscale[0, c] = sum over r of dy[r, c] h[r, c]
struct GroupNormScaleGradient {
  static constexpr std::string_view kName = "group_norm_scale_gradient";
  GroupNorm forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    GroupNorm::Attributes(self.forward, visit);
  }
  friend bool operator==(const GroupNormScaleGradient&, const GroupNormScaleGradient&) = default;
};

// dx[(s, iy, ix), i] = sum over the taps (ky, kx) whose window reached the pixel, ascending, of the
// sum over o of dy[(s, oy, ox), o] weight[o, k]
struct ConvolutionInputGradient {
  static constexpr std::string_view kName = "convolution_input_gradient";
  Convolution forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Convolution::Attributes(self.forward, visit);
  }
  friend bool operator==(const ConvolutionInputGradient&,
                         const ConvolutionInputGradient&) = default;
};

// dweight[o, k] = sum over (s, oy, ox) of dy[(s, oy, ox), o] x x[(s, iy, ix), i]
struct ConvolutionWeightGradient {
  static constexpr std::string_view kName = "convolution_weight_gradient";
  Convolution forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Convolution::Attributes(self.forward, visit);
  }
  friend bool operator==(const ConvolutionWeightGradient&,
                         const ConvolutionWeightGradient&) = default;
};

// Each dy goes to the pixel that was the maximum, or in equal shares to the window's pixels.
// Contributions to one pixel are added in ascending order of the window's (oy, ox).
struct PoolingGradient {
  static constexpr std::string_view kName = "pooling_gradient";
  Pooling forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Pooling::Attributes(self.forward, visit);
  }
  friend bool operator==(const PoolingGradient&, const PoolingGradient&) = default;
};

// dy goes to the position of the maximum, or in equal shares to the positions below the length.
struct GlobalPoolingGradient {
  static constexpr std::string_view kName = "global_pooling_gradient";
  GlobalPooling forward;
  std::int64_t positions = 1;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    GlobalPooling::Attributes(self.forward, visit);
    visit("positions", self.positions);
  }
  friend bool operator==(const GlobalPoolingGradient&, const GlobalPoolingGradient&) = default;
};

// The image of the patches: the inverse of Patches
struct PatchesGradient {
  static constexpr std::string_view kName = "patches_gradient";
  Patches forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Patches::Attributes(self.forward, visit);
  }
  friend bool operator==(const PatchesGradient&, const PatchesGradient&) = default;
};

// dy at [begin, begin + its size) of `size` positions or features, 0 elsewhere. Slices that cut a
// value exactly into parts get one Concat instead.
struct SliceGradient {
  static constexpr std::string_view kName = "slice_gradient";
  SliceAxis axis = SliceAxis::kFeatures;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("axis", self.axis);
    visit("begin", self.begin);
    visit("size", self.size);
  }
  friend bool operator==(const SliceGradient&, const SliceGradient&) = default;
};

// dx = dy x f'(x), computed from the value that ReadsFor(kind) names. f' is 0 or 1 for both relus
// (a select, so an infinite dy does not pass a closed relu), 1 - y^2 for tanh, y (1 - y) for
// sigmoid.
struct ActivationGradient {
  static constexpr std::string_view kName = "activation_gradient";
  Activation forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Activation::Attributes(self.forward, visit);
  }
  friend bool operator==(const ActivationGradient&, const ActivationGradient&) = default;
};

// With u = 1 / (1 + e^-gate): dgate = dy x up x u (1 + gate (1 - u)); dup = dy x gate u
struct SwiGluGradient {
  static constexpr std::string_view kName = "swiglu_gradient";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const SwiGluGradient&, const SwiGluGradient&) = default;
};

// dlogits[r, c] = (p[c] - (1 - t) [c = label] - t / C) / divisor; 0 in ignored rows. The divisor is
// CrossEntropy's, over the whole batch, so the manager, which knows all labels, gives each task its
// reciprocal.
struct CrossEntropyGradient {
  static constexpr std::string_view kName = "cross_entropy_gradient";
  CrossEntropy forward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    CrossEntropy::Attributes(self.forward, visit);
  }
  friend bool operator==(const CrossEntropyGradient&, const CrossEntropyGradient&) = default;
};

// dx = 2 (x - target) / (rows x features)
struct SquaredErrorGradient {
  static constexpr std::string_view kName = "squared_error_gradient";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const SquaredErrorGradient&, const SquaredErrorGradient&) = default;
};

}  // namespace acan::model
