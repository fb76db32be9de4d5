// Parameters: the named tensors of a model's file, and how training treats them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace acan::model {

enum class Role : std::uint8_t {
  kMatrix,     // of a linear operator or a convolution
  kBias,       // of linear operators, convolutions and norms
  kScale,      // of norms, and of a layer scale
  kEmbedding,  // rows that are looked up: tokens, positions, a class token
  kStatistic,  // a running statistic: not trained, but updated in every step
};

// ---- initial distributions. An element is a function of (seed, the parameter's number, the
// element's place row x columns + column); kernels draw it, so nothing is stored or sent. ----

struct Constant {
  float value = 0.0f;
  friend bool operator==(const Constant&, const Constant&) = default;
};
// low + (high - low) u, u in [0, 1)
struct Uniform {
  float low = 0.0f;
  float high = 1.0f;
  friend bool operator==(const Uniform&, const Uniform&) = default;
};
struct Normal {
  float mean = 0.0f;
  float deviation = 1.0f;
  friend bool operator==(const Normal&, const Normal&) = default;
};
// Normal(mean, deviation) restricted to [low, high]: nn.init.trunc_normal_. At least a quarter of
// the normal should be in the range, because the kernel draws only 64 times.
struct TruncatedNormal {
  float mean = 0.0f;
  float deviation = 1.0f;
  float low = -2.0f;
  float high = 2.0f;
  friend bool operator==(const TruncatedNormal&, const TruncatedNormal&) = default;
};
using Initial = std::variant<Constant, Uniform, Normal, TruncatedNormal>;

// +-1 / sqrt(inputs): nn.Linear's and nn.Conv2d's default, for weights and biases. Computed in
// fp32; the hashes of existing jobs depend on that.
Initial UniformByInputs(std::int64_t inputs);
// +-sqrt(6 / (inputs + outputs)): nn.init.xavier_uniform_
Initial XavierUniform(std::int64_t inputs, std::int64_t outputs);

// How a tensor in a file maps to the matrix [rows, columns] in memory.
enum class FileLayout : std::uint8_t {
  kSame,         // the elements have the same order
  kTransposed,   // the file has [columns, rows]: Hugging Face's Conv1D
  kConvolution,  // the file has [outputs, inputs, height, width], here [outputs, (h, w, inputs)]
};

struct Parameter {
  std::string name;  // as in PyTorch's state dict: "transformer.h.0.attn.c_attn.weight"
  Role role = Role::kMatrix;
  std::int64_t rows = 1;  // weight[outputs, inputs]; vectors are [1, features]
  std::int64_t columns = 1;
  Initial initial = Constant{};
  std::vector<std::int64_t> file_shape;  // of any rank
  FileLayout file_layout = FileLayout::kSame;
  bool frozen = false;  // keeps its values: no gradient, no update
  bool decayed = true;  // weight decay applies to it

  std::int64_t elements() const { return rows * columns; }
  // Whether an optimizer updates it.
  bool trained() const { return role != Role::kStatistic && !frozen; }
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

// A parameter whose tensor in the file has the same elements in the same order: [rows, columns],
// or [columns] for biases, scales and statistics.
Parameter MatrixParameter(std::string name, std::int64_t rows, std::int64_t columns,
                          Initial initial);
Parameter VectorParameter(std::string name, Role role, std::int64_t columns, Initial initial);

}  // namespace acan::model
