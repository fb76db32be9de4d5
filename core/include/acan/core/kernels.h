// The table of kernels: every operation that is not a matrix product. The functions themselves are
// in backends/kernels/, in a subset of C that C++, OpenCL and CUDA compile.
#pragma once

#include <array>
#include <cstdint>

namespace acan {

enum class Activation : std::uint8_t {
  kIdentity,
  kRelu,
  kClippedRelu,  // x if 0 < x <= bound, else 0 (FT-ClipAct, Hoang et al., DATE 2020)
  kTanh,
  kSigmoid,
  kGelu,  // x * Phi(x) with the error function, as PyTorch's default
};

// m[], f[], i[] are KernelArgs fields. "optional" operands may have a null buffer. All are 32-bit
// floats unless said. `out` may be the same matrix as an operand of the same shape. A product that
// is added is one fma. A NaN result is stored as 0x7fc00000 whatever made it, here and by Gemm.
enum class Kernel : std::uint8_t {
  // m0 out[r,c] = m1[r,c] + m2[r,c]
  kAdd,
  // m0 out[r,c] = f0
  kFill,
  // m0 out[r,c] = f0 + (f1 - f0) * u, u in [0,1) by Philox: key i0, tensor number i1, and the
  // element's place p = (i2 + r) * i4 + (i3 + c) in the whole tensor of i4 columns: u is word 0 of
  // the counter (p, i1)
  kUniform,
  // z = m1[r,c] + m2[0,c]; m0 out = act(z); m3 (optional) = z.   i0 Activation, f0 clip bound
  kBiasActivation,
  // m0 out = m1[r,c] * act'(m2[r,c]); m2 is the activation's output, for gelu its input z.
  // i0 Activation, f0 clip bound
  kActivationGradient,
  // logits m1[r,c], labels m2[r,1] (int32). m0 (optional) out = (softmax - onehot) * f0;
  // m3[r,1] = row loss; m4[r,1] = 1 if the first largest logit is the label, else 0. i0 block.
  // A label outside [0, c) makes the row's loss NaN.
  kSoftmaxCrossEntropy,
  // outputs m1[r,c], targets m2[r,c]. m0 (optional) = (m1 - m2) * f0; m3[r,1] = sum over c of
  // squared differences, canonical order. i0 block
  kSquaredError,
  // m0[0,c] = canonical sum over r of m1[r,c].   i0 block
  kColumnSums,
  // g = m2 + f1 * m1; m0 w' = m1 - f0 * g.   f0 learning rate, f1 weight decay
  kSgd,
  // w m2, v m3, g m4: g += f2 * w; m1 v' = f1 * v + g; m0 w' = w - f0 * v'
  // f0 learning rate, f1 momentum, f2 weight decay
  kMomentum,
  // w m3, m m4, v m5, g m6 -> m0 w', m1 m', m2 v' (Loshchilov & Hutter, decoupled weight decay)
  // f0 learning rate, f1 1 - beta1, f2 1 - beta2 (rounded from double: 1 - float(0.999) would be
  // 1.3e-5 off), f3 eps, f4 weight decay, f5 1 - beta1^t, f6 sqrt(1 - beta2^t)
  kAdamW,
  kCount,
};

inline constexpr int kMaxKernelMatrices = 7;

struct KernelScalars {
  std::array<float, 8> f{};
  std::array<std::int64_t, 8> i{};
  friend bool operator==(const KernelScalars&, const KernelScalars&) = default;
};

}  // namespace acan
