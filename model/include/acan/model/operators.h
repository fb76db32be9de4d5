// The operators of a graph: one struct for each, whose members are its attributes. The table
// (operator_table.h) has the operands, results and cuts; the formulas below use its names.
//
// Notation: x[r, c] is an element; a row r of a value of samples is (sample s, position p). n is
// the number of samples. A REQUIRES is checked when a node is added, and the error names the node.
#pragma once

#include <cstdint>
#include <string_view>

#include "acan/model/shape.h"

namespace acan::model {

// ---- products and tables ----

// y[r, o] = sum over i of x[r, i] weight[o, i], + bias[0, o] where there is a bias.
struct Linear {
  static constexpr std::string_view kName = "linear";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const Linear&, const Linear&) = default;
};

// y[r, c] = table[ids[r], c]. REQUIRES of the data: 0 <= ids[r] < rows of the table.
struct Embedding {
  static constexpr std::string_view kName = "embedding";
  std::int64_t padding_id = -1;  // the table's row with this id gets no gradient; -1: all do
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("padding_id", self.padding_id);
  }
  friend bool operator==(const Embedding&, const Embedding&) = default;
};

// The same rows for each sample: y[(s, p), c] = table[first + p, c], 0 <= p < rows. Learned
// positions are added to another value; a class token is concatenated before it.
struct LearnedPositions {
  static constexpr std::string_view kName = "learned_positions";
  std::int64_t first = 0;
  std::int64_t rows = 1;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("first", self.first);
    visit("rows", self.rows);
  }
  friend bool operator==(const LearnedPositions&, const LearnedPositions&) = default;
};

// ---- attention ----

enum class Rotation : std::uint8_t { kForward, kBack };  // kBack: its transpose, by -angle

// Rotary positions as in Hugging Face's Llama: in each head of `head_size` = d columns, the pair
// (i, i + d/2), 0 <= i < d/2, is rotated by the angle p x base^(-2i/d) in row (s, p):
//   y[i] = x[i] cos - x[i + d/2] sin;  y[i + d/2] = x[i + d/2] cos + x[i] sin
struct Rotary {
  static constexpr std::string_view kName = "rotary";
  std::int64_t head_size = 0;  // even; divides the columns
  float base = 10000.0f;
  Rotation rotation = Rotation::kForward;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("head_size", self.head_size);
    visit("base", self.base);
    visit("rotation", self.rotation);
  }
  friend bool operator==(const Rotary&, const Rotary&) = default;
};

enum class AttentionMask : std::uint8_t {
  kFull,    // a query sees every key of its sample
  kCausal,  // the query at position p sees the keys at positions <= p
};

// q has `heads` heads of d columns, k and v have `key_value_heads`. Key-value head g serves a group
// of heads / key_value_heads heads, beginning at g times that number. For each sample and head
//   s[i, j] = scale x (q[i] . k[j]),  w[i, j] = e^s[i, j] / sum over j of e^s[i, j],
//   o[i] = sum over j of w'[i, j] v[j]
// over the keys j that the mask shows and that are below the sample's length. Hidden keys have no
// effect at all. w' is w after dropout, which draws element ((s x positions + i) x heads + head) x
// positions + j of `dropout_stream` (dropout.h). Rows of queries beyond the length are computed
// like others. REQUIRES of the data: 1 <= length <= positions.
//
// The second result has, for each row and head, what the backward pass needs to recompute the
// weights: (K, sum), where K = the largest n over the visible keys, e^s = 2^n x p with n the
// integer nearest to s / ln 2, and sum = the sum of e^s x 2^-K. Head h has columns 2h and 2h + 1.
// In fp32, values below 2^-100 of the largest count as 0.
struct Attention {
  static constexpr std::string_view kName = "attention";
  AttentionMask mask = AttentionMask::kCausal;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;  // divides heads
  float scale = 1.0f;                // usually 1 / sqrt(d), PyTorch's default
  float dropout = 0.0f;
  std::int64_t dropout_stream = 0;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("mask", self.mask);
    visit("heads", self.heads);
    visit("key_value_heads", self.key_value_heads);
    visit("scale", self.scale);
    visit("dropout", self.dropout);
    visit("dropout_stream", self.dropout_stream);
  }
  friend bool operator==(const Attention&, const Attention&) = default;
};

// ---- norms ----

// Over the features of each row: h = (x - mean) / sqrt(variance + epsilon), where the variance is
// the mean of (x - mean)^2; y = h x scale + bias. Scale and bias are optional.
struct LayerNorm {
  static constexpr std::string_view kName = "layer_norm";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const LayerNorm&, const LayerNorm&) = default;
};

// y = x / sqrt(mean of x^2 + epsilon) x scale, over the features of each row.
struct RmsNorm {
  static constexpr std::string_view kName = "rms_norm";
  float epsilon = 1e-6f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const RmsNorm&, const RmsNorm&) = default;
};

// In training: mean and variance of each column over all rows of the batch (the variance is the
// mean of (x - mean)^2), y = (x - mean) / sqrt(variance + epsilon) x scale + bias. The results mean
// and variance have no gradient; the running averages read them.
struct BatchNorm {
  static constexpr std::string_view kName = "batch_norm";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const BatchNorm&, const BatchNorm&) = default;
};

// As BatchNorm, with a given mean and variance: for evaluation, and for frozen statistics.
struct BatchNormInference {
  static constexpr std::string_view kName = "batch_norm_inference";
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const BatchNormInference&, const BatchNormInference&) = default;
};

enum class Correction : std::uint8_t {
  kNone,
  kUnbiased,  // x rows / (rows - 1), as PyTorch corrects the running variance; none for one row
};

// y = (1 - momentum) x running + momentum x corrected value. `value` comes from `positions` x n
// rows.
struct RunningAverage {
  static constexpr std::string_view kName = "running_average";
  float momentum = 0.1f;
  Correction correction = Correction::kNone;
  std::int64_t positions = 1;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("momentum", self.momentum);
    visit("correction", self.correction);
    visit("positions", self.positions);
  }
  friend bool operator==(const RunningAverage&, const RunningAverage&) = default;
};

// As a layer norm over all positions of a sample and the channels of one of `groups` equal ranges
// of channels; scale and bias have one element per channel.
struct GroupNorm {
  static constexpr std::string_view kName = "group_norm";
  std::int64_t groups = 1;  // divides the channels
  float epsilon = 1e-5f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("groups", self.groups);
    visit("epsilon", self.epsilon);
  }
  friend bool operator==(const GroupNorm&, const GroupNorm&) = default;
};

// ---- images: positions are pixels, features are channels (NHWC) ----

// A window that steps over an image: it covers rows oy x stride - padding + ky, 0 <= ky < kernel,
// of the input for row oy of the output, and columns likewise.
struct Window {
  Extent input;
  Extent kernel;
  Extent stride;
  Extent padding{0, 0};  // on each side

  // floor((input + 2 padding - kernel) / stride) + 1 in each direction.
  Extent output() const;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("input", self.input);
    visit("kernel", self.kernel);
    visit("stride", self.stride);
    visit("padding", self.padding);
  }
  friend bool operator==(const Window&, const Window&) = default;
};

// Channels form `groups` equal ranges; output channel o of group g reads the input channels of g.
//   y[(s, oy, ox), o] = bias[o] + sum over k of weight[o, k] x x[(s, iy, ix), i]
// with k = (ky x kernel.width + kx) x inputs of a group + i; pixels outside the image are 0.
struct Convolution {
  static constexpr std::string_view kName = "convolution";
  Window window;
  std::int64_t groups = 1;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    Window::Attributes(self.window, visit);
    visit("groups", self.groups);
  }
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

enum class PoolingKind : std::uint8_t { kMaximum, kAverage };

// Each channel separately. Maximum: pixels outside the image are skipped; of equal pixels the first
// in the order (ky, kx) counts. Average: divides by the kernel's area; pixels outside are 0.
struct Pooling {
  static constexpr std::string_view kName = "pooling";
  PoolingKind kind = PoolingKind::kMaximum;
  Window window;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("kind", self.kind);
    Window::Attributes(self.window, visit);
  }
  friend bool operator==(const Pooling&, const Pooling&) = default;
};

// Over the positions of a sample, or, with lengths, over those below its length: one row per
// sample. Of equal maxima the first counts.
struct GlobalPooling {
  static constexpr std::string_view kName = "global_pooling";
  PoolingKind kind = PoolingKind::kAverage;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("kind", self.kind);
  }
  friend bool operator==(const GlobalPooling&, const GlobalPooling&) = default;
};

// Cuts an image into patches that do not overlap, in scan order; a patch is a row of
// (ky x patch.width + kx) x channels + channel. REQUIRES: `patch` divides `input`.
struct Patches {
  static constexpr std::string_view kName = "patches";
  Extent input;
  Extent patch;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("input", self.input);
    visit("patch", self.patch);
  }
  friend bool operator==(const Patches&, const Patches&) = default;
};

// ---- shapes ----

// The elements of a sample, in order, as `positions` rows. REQUIRES: they fill the rows.
struct Reshape {
  static constexpr std::string_view kName = "reshape";
  std::int64_t positions = 1;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("positions", self.positions);
  }
  friend bool operator==(const Reshape&, const Reshape&) = default;
};

enum class SliceAxis : std::uint8_t { kPositions, kFeatures };

// The range [begin, end) of the positions of each sample, or of the features.
struct Slice {
  static constexpr std::string_view kName = "slice";
  SliceAxis axis = SliceAxis::kFeatures;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("axis", self.axis);
    visit("begin", self.begin);
    visit("end", self.end);
  }
  friend bool operator==(const Slice&, const Slice&) = default;
};

// Concatenates the operands along the axis.
struct Concat {
  static constexpr std::string_view kName = "concat";
  SliceAxis axis = SliceAxis::kFeatures;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("axis", self.axis);
  }
  friend bool operator==(const Concat&, const Concat&) = default;
};

// ---- element by element ----

// y = a + b
struct Add {
  static constexpr std::string_view kName = "add";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const Add&, const Add&) = default;
};

// y = a x b: a gate
struct Multiply {
  static constexpr std::string_view kName = "multiply";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const Multiply&, const Multiply&) = default;
};

// y = factor x x
struct Scale {
  static constexpr std::string_view kName = "scale";
  float factor = 1.0f;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("factor", self.factor);
  }
  friend bool operator==(const Scale&, const Scale&) = default;
};

// y[r, c] = x[r, c] x scale[0, c], as ConvNeXt's layer scale
struct ScaleColumns {
  static constexpr std::string_view kName = "scale_columns";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const ScaleColumns&, const ScaleColumns&) = default;
};

enum class ActivationKind : std::uint8_t {
  kRelu,
  kClippedRelu,  // x if 0 < x <= bound, else 0 (FT-ClipAct, Hoang et al., DATE 2020)
  kGelu,         // x Phi(x), Phi by the error function
  kGeluTanh,     // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): "gelu_new" of Hugging Face
  kSilu,         // x / (1 + e^-x)
  kTanh,
  kSigmoid,
};

// What an activation's gradient reads besides dy. If it reads the result, the operand need not be
// kept.
enum class GradientReads : std::uint8_t { kOperand, kResult };
GradientReads ReadsFor(ActivationKind kind);  // gelus and silu: their operand

struct Activation {
  static constexpr std::string_view kName = "activation";
  ActivationKind kind = ActivationKind::kRelu;
  float bound = 6.0f;  // kClippedRelu only
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("kind", self.kind);
    if (self.kind == ActivationKind::kClippedRelu) visit("bound", self.bound);
  }
  friend bool operator==(const Activation&, const Activation&) = default;
};

// y = silu(gate) x up
struct SwiGlu {
  static constexpr std::string_view kName = "swiglu";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const SwiGlu&, const SwiGlu&) = default;
};

enum class DropoutUnit : std::uint8_t {
  kElement,  // element r x features + c of the whole batch's matrix is drawn
  kSample,   // element s: all rows of a sample together ("stochastic depth")
};

// y = x / (1 - rate) where the draw keeps it, else 0 (dropout.h). `stream` numbers the dropouts of
// a graph, including attention's. The gradient is the same operator, which draws the same numbers.
struct Dropout {
  static constexpr std::string_view kName = "dropout";
  float rate = 0.0f;
  DropoutUnit unit = DropoutUnit::kElement;
  std::int64_t stream = 0;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("rate", self.rate);
    visit("unit", self.unit);
    visit("stream", self.stream);
  }
  friend bool operator==(const Dropout&, const Dropout&) = default;
};

// ---- losses: the batch's loss is the sum of their first results, over a divisor ----

// The order in which the exponentials of a row are added. The order decides the bits.
enum class ExponentialOrder : std::uint8_t {
  kLanes,   // sixteen partial sums, which a tree adds
  kLeaves,  // chains of additions over leaves, which a tree adds: what perceptrons use
};

// With t = label_smoothing and C classes, a row's loss is
//   (1 - t) x -log p[label] + t / C x sum over c of -log p[c],  p = softmax(logits[r]);
// and 0 where the label is `ignored_label`. correct = 1 if the label's logit is the first largest.
// The divisor is the number of rows whose label is not ignored.
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  float label_smoothing = 0.0f;
  std::int64_t ignored_label = -100;  // from -2^31 to -1, a label of 32 bits that is no class
  // With kLeaves there is no label smoothing, and no label is ignored.
  ExponentialOrder order = ExponentialOrder::kLanes;
  template <class Self, class Visit>
  static void Attributes(Self& self, Visit visit) {
    visit("label_smoothing", self.label_smoothing);
    visit("ignored_label", self.ignored_label);
    visit("order", self.order);
  }
  friend bool operator==(const CrossEntropy&, const CrossEntropy&) = default;
};

// A row's loss is the sum over c of (x - target)^2. The divisor is rows x features.
struct SquaredError {
  static constexpr std::string_view kName = "squared_error";
  template <class Self, class Visit>
  static void Attributes(Self&, Visit) {}
  friend bool operator==(const SquaredError&, const SquaredError&) = default;
};

}  // namespace acan::model
