/* Constants that the host and the kernels' single source share, in the subset of C that C++, OpenCL
 * C and CUDA compile: the limits of a call, and variants of kernels. The numbers of variants are
 * sent as scalars of calls and must never change. */
#ifndef ACAN_CORE_KERNEL_CONSTANTS_H
#define ACAN_CORE_KERNEL_CONSTANTS_H

/* The maximum numbers of operands, float scalars and integer scalars of one call. launch.cl names
 * each operand. */
#define ACAN_KERNEL_MATRICES 10
#define ACAN_KERNEL_FLOATS 8
#define ACAN_KERNEL_INTEGERS 16

/* The number of work-items for one tile of the iteration space TILE. */
#define ACAN_TILE_LANES 64

/* X(number, enumerator, constant of the kernels, name in job files, input of the gradient)
 *
 * The gradient of an activation is a function of its OUTPUT or of its INPUT; the manager keeps that
 * one. */
#define ACAN_ACTIVATION_TABLE(X)                                     \
  X(0, kIdentity, ACAN_IDENTITY, "identity", OUTPUT)                 \
  X(1, kRelu, ACAN_RELU, "relu", OUTPUT)                             \
  /* x if 0 < x <= bound, else 0 (FT-ClipAct, Hoang et al., 2020) */ \
  X(2, kClippedRelu, ACAN_CLIPPED_RELU, "clipped_relu", OUTPUT)      \
  X(3, kTanh, ACAN_TANH, "tanh", OUTPUT)                             \
  X(4, kSigmoid, ACAN_SIGMOID, "sigmoid", OUTPUT)                    \
  /* x * Phi(x) with the error function, as PyTorch's default */     \
  X(5, kGelu, ACAN_GELU, "gelu", INPUT)                              \
  /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */                \
  X(6, kGeluTanh, ACAN_GELU_TANH, "gelu_tanh", INPUT)                \
  /* x / (1 + e^-x) */                                               \
  X(7, kSilu, ACAN_SILU, "silu", INPUT)

#define ACAN_ACTIVATION_CONSTANT(number, enumerator, constant, word, takes) constant = number,
enum { ACAN_ACTIVATION_TABLE(ACAN_ACTIVATION_CONSTANT) ACAN_ACTIVATION_COUNT };
#undef ACAN_ACTIVATION_CONSTANT

/* The kinds of norms over rows. */
enum { ACAN_LAYER_NORM = 0, ACAN_RMS_NORM = 1 };
/* What one draw of a dropout decides about. */
enum { ACAN_DROP_ELEMENTS = 0, ACAN_DROP_SAMPLES = 1 };

#endif /* ACAN_CORE_KERNEL_CONSTANTS_H */
