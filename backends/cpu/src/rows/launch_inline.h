// Runs the kernels of operators.inc over a region. Included once per instruction set, inside that
// unit's own anonymous namespace, after prelude.h.

// The two have the same members in the same order. Copying one member after the other takes longer
// than a small kernel computes.
acan_args KernelArgsOf(const LaunchArgs& args) {
  static_assert(sizeof(acan_matrix) == sizeof(View) &&
                __builtin_offsetof(acan_matrix, data) == __builtin_offsetof(View, data) &&
                __builtin_offsetof(acan_matrix, rows) == __builtin_offsetof(View, rows) &&
                __builtin_offsetof(acan_matrix, cols) == __builtin_offsetof(View, cols) &&
                __builtin_offsetof(acan_matrix, stride) == __builtin_offsetof(View, stride));
  static_assert(sizeof(acan_args) == sizeof(LaunchArgs) &&
                __builtin_offsetof(acan_args, m) == __builtin_offsetof(LaunchArgs, m) &&
                __builtin_offsetof(acan_args, f) == __builtin_offsetof(LaunchArgs, f) &&
                __builtin_offsetof(acan_args, i) == __builtin_offsetof(LaunchArgs, i));
  acan_args out;
  __builtin_memcpy(&out, &args, sizeof out);
  return out;
}

// The arguments are copied to a local variable, so that the compiler knows that no store changes
// them.
template <int kVariant, typename Body>
void RunElements(const acan_args& args, const Region& region, Body body) {
  acan_args a = args;
  if (kVariant >= 0) a.i[0] = kVariant;
  for (int64_t r = region.row_begin; r < region.row_end; ++r) {
    // Elements are independent even where an output is an operand's own matrix.
    ACAN_INDEPENDENT
    for (int64_t c = region.col_begin; c < region.col_end; ++c) body(&a, r, c);
  }
}

template <int kVariant, typename Body>
void RunRows(const acan_args& args, const Region& region, Body body) {
  acan_args a = args;
  if (kVariant >= 0) a.i[0] = kVariant;
  for (int64_t r = region.row_begin; r < region.row_end; ++r) body(&a, r);
}

// Each variant is compiled separately. CheckLaunch has refused variants that do not exist.
template <int kVariants, int kVariant = 0, typename Body>
void RunElement(const acan_args& args, const Region& region, Body body) {
  if constexpr (kVariants == 1) {
    RunElements<-1>(args, region, body);
  } else if constexpr (kVariant < kVariants) {
    if (args.i[0] == kVariant) return RunElements<kVariant>(args, region, body);
    RunElement<kVariants, kVariant + 1>(args, region, body);
  }
}

template <int kVariants, int kVariant = 0, typename Body>
void RunRow(const acan_args& args, const Region& region, Body body) {
  if constexpr (kVariants == 1) {
    RunRows<-1>(args, region, body);
  } else if constexpr (kVariant < kVariants) {
    if (args.i[0] == kVariant) return RunRows<kVariant>(args, region, body);
    RunRow<kVariants, kVariant + 1>(args, region, body);
  }
}

template <int kVariants, typename Body>
void RunColumn(const acan_args& args, const Region& region, Body body) {
  int64_t c = region.col_begin;
  for (; c + ACAN_COLUMN_LANES <= region.col_end; c += ACAN_COLUMN_LANES) {
    body(&args, c, ACAN_COLUMN_LANES);
  }
  for (; c + 64 <= region.col_end; c += 64) body(&args, c, 64);
  for (; c + 16 <= region.col_end; c += 16) body(&args, c, 16);
  for (; c < region.col_end; ++c) body(&args, c, 1);
}

template <int kVariants, typename Body>
void RunTile(const acan_args& args, const Region& region, Body body) {
  for (int64_t r = region.row_begin; r < region.row_end; ++r) {
    for (int64_t c = region.col_begin; c < region.col_end; ++c) {
      for (int lane = 0; lane < ACAN_TILE_LANES; ++lane) body(&args, r, c, lane);
    }
  }
}

#define ACAN_BODY_ELEMENT(function)                                             \
  [](const acan_args* x, int64_t r, int64_t c) __attribute__((always_inline)) { \
    function(x, r, c);                                                          \
  }
#define ACAN_BODY_ROW(function)                                      \
  [](const acan_args* x, int64_t r) __attribute__((always_inline)) { \
    function(x, r);                                                  \
  }
#define ACAN_BODY_COLUMN(function)                                              \
  [](const acan_args* x, int64_t c, int lanes) __attribute__((always_inline)) { \
    function(x, c, lanes);                                                      \
  }
#define ACAN_BODY_TILE(function)                                                          \
  [](const acan_args* x, int64_t r, int64_t c, int lane) __attribute__((always_inline)) { \
    function(x, r, c, lane);                                                              \
  }
#define ACAN_RUN_ELEMENT RunElement
#define ACAN_RUN_ROW RunRow
#define ACAN_RUN_COLUMN RunColumn
#define ACAN_RUN_TILE RunTile

enum KernelNumber : int {
#define ACAN_OPERATOR(number, enumerator, ...) enumerator = number,
#include "acan/core/operators/operators.inc"
};

void Launch(int kernel, const LaunchArgs& launch, const Region& region) {
  const acan_args args = KernelArgsOf(launch);
#if defined(__AVX512F__)
  if (kernel == kActivation && args.i[0] == ACAN_GELU) return RunGelu(args, region);
#endif
  switch (kernel) {
#define ACAN_OPERATOR(number, enumerator, function, iteration, variants, ...) \
  case number:                                                                \
    return ACAN_RUN_##iteration<variants>(args, region, ACAN_BODY_##iteration(function));
#include "acan/core/operators/operators.inc"
  }
}
