// The bit-exact definition of attention, written independently of the kernels: one head, query and
// key at a time, with recursive trees from range.h and powers of two by ldexp.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/core/operators/kernels.h"
#include "reference.h"

namespace acan::test {

// A call for sequences of `queries` and `keys` positions.
struct AttentionShape {
  std::int64_t sequences = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t key_value_heads = 1;
  std::int64_t shared = 1;  // query heads per key-value head
  std::int64_t width = 1;
  bool causal = false;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::vector<std::int32_t> lengths = {};  // of each sequence; empty: no operand
  float dropout = 0.0f;

  std::int64_t heads() const { return key_value_heads * shared; }
  float scale() const;
  // The scalars of kAttention and kAttentionGradient.
  KernelScalars scalars(bool finish) const;
  // Whether the query at place i of the call sees the key at place j.
  bool Sees(std::int64_t sequence, std::int64_t i, std::int64_t j) const;
  // The weight after dropout.
  float Dropped(std::int64_t sequence, std::int64_t head, std::int64_t i, std::int64_t j,
                float weight) const;
};

struct AttentionOperands {
  Host q, k, v, d_o;
};

struct AttentionResults {
  Host o, statistics;
};
// Returns the triple or, with `finish`, o divided by the sum.
AttentionResults DefineAttention(const AttentionShape& shape, const AttentionOperands& in,
                                 bool finish);

struct AttentionGradients {
  Host dq, dk, dv;
};
// `whole`: the finished results over all keys.
AttentionGradients DefineAttentionGradient(const AttentionShape& shape, const AttentionOperands& in,
                                           const AttentionResults& whole);

}  // namespace acan::test
