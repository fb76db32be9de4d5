// The interface of an instruction set's translation unit. Everything here is plain data: those
// units are compiled with flags that other CPUs cannot run, so they must not instantiate shared
// inline code.
#pragma once

#include <stdint.h>

#include "acan/core/operators/kernel_constants.h"

namespace acan::cpu {

// A part of a kernel's iteration space: rows and columns [begin, end).
struct Region {
  int64_t row_begin;
  int64_t row_end;
  int64_t col_begin;
  int64_t col_end;
};

// As acan::Matrix, with the address resolved.
struct View {
  float* data;
  int64_t rows;
  int64_t cols;
  int64_t stride;
};

struct LaunchArgs {
  View m[ACAN_KERNEL_MATRICES];
  float f[ACAN_KERNEL_FLOATS];
  int64_t i[ACAN_KERNEL_INTEGERS];
};

// An operand of a product. Element k of a row is data[row * row_stride + k * k_stride].
struct Operand {
  const float* data;
  int64_t row_stride;
  int64_t k_stride;
};

// An element kernel that runs on each part of a product when that part is complete.
struct Epilogue {
  int kernel;
  LaunchArgs args;
};

struct GemmProblem {
  Operand a;  // rows: m
  Operand b;  // rows: n
  float* c;   // c[m, n]
  int64_t c_stride;
  int64_t m;
  int64_t n;
  int64_t k;
  // Of leaves: a power of two from 16 on, or any number in [kMinShortBlock, kMaxShortBlock].
  int64_t block;
  const Epilogue* epilogue;  // null: none
  int64_t row;               // position of c in the matrix that `epilogue` works on
  int64_t col;
};

constexpr int64_t kMinShortBlock = 16, kMaxShortBlock = 64;

// A convolution of images x with the windows of kUnfold or kFold, over some lines of pixels of its
// output. The output is c, or x for an input gradient, in which case c is dy.
struct ConvolutionProblem {
  View x;
  View weight;  // [outputs, taps * channels]
  View c;       // [samples * out_height * out_width, outputs]
  LaunchArgs window;
  int64_t block;
  const Epilogue* epilogue;  // null: none
  int64_t line_begin;
  int64_t line_end;
};

// The gradient of a convolution's weights. `window` is that of kUnfold.
struct WeightsProblem {
  View x;
  View dy;        // [samples * out_height * out_width, outputs]
  View d_weight;  // [outputs, taps * channels]
  LaunchArgs window;
  int64_t block;
  int64_t group_rows;  // rows of dy of a group
  int part;            // of the gradient's tiles: part `part` of `parts`
  int parts;
};

// Scratch that suffices for every problem; more only makes products faster.
constexpr int64_t kFixedScratchFloats = 20 * 1024;

// In all of these, `scratch` is aligned to 64 bytes. The bits do not depend on its size.
struct IsaTable {
  // Only kernels over tiles use scratch, and they also run without it.
  void (*launch)(int kernel, const LaunchArgs& args, const Region& region, float* scratch,
                 int64_t scratch_floats);
  // `scratch`: at least kFixedScratchFloats.
  void (*gemm)(const GemmProblem& problem, float* scratch, int64_t scratch_floats);
  // Returns false, having done nothing, if there is no driver for such a problem; the lines do not
  // matter.
  bool (*convolve)(const ConvolutionProblem& problem, float* scratch, int64_t scratch_floats);
  bool (*convolve_back)(const ConvolutionProblem& problem, float* scratch, int64_t scratch_floats);
  // Returns false if there is no driver for such a problem; then d_weight is undefined.
  bool (*convolve_weights)(const WeightsProblem& problem, float* scratch, int64_t scratch_floats);
};

extern const IsaTable kPortableTable;
// Each of these exists only in builds for its instruction set (ACAN_CPU_ISAS).
extern const IsaTable kAvx2Table;
extern const IsaTable kAvx512Table;

}  // namespace acan::cpu
