#include "attention_reference.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "acan/core/philox.h"
#include "acan/core/range.h"

namespace acan::test {
namespace {

constexpr std::int64_t kLeaf = 64;
constexpr float kBound = 1048576.0f;
constexpr std::int64_t kSeed = 77, kStream = 5, kFirstSequence = 3, kPositions = 1000;
constexpr std::int64_t kFirstHead = 1, kAllHeads = 20;

float Score(float product, float scale) {
  const float s = product * scale;
  return std::isnan(s) ? s : std::clamp(s, -kBound, kBound);
}

// The n of e^s = p * 2^n: the integer nearest to s / ln 2; their product is exact in double.
int ExponentOf(float s) {
  return static_cast<int>(std::nearbyint(static_cast<double>(s) * double{1.44269502f}));
}

// p * 2^(n - largest).
float Weight(float s, int largest) {
  if (std::isnan(s)) return NAN;
  const int n = ExponentOf(s);
  const auto n_float = static_cast<float>(n);
  const float r = std::fma(n_float, -1.42860677e-06f, std::fma(n_float, -0.693145752f, s));
  float p = 0.00138131471f;
  for (const float next : {0.00836941879f, 0.041668456f, 0.166665152f, 0.49999994f}) {
    p = std::fma(p, r, next);
  }
  p = std::fma(p * r, r, r) + 1.0f;
  return n - largest < -100 ? 0.0f : std::ldexp(p, n - largest);
}

struct Triple {
  int largest = 0;
  float sum = 0.0f;
  std::vector<float> o;
};
using Node = std::optional<Triple>;  // empty: there is no key

Node Join(const Node& left, const Node& right) {
  if (!left || !right) return left ? left : right;
  Triple out;
  out.largest = std::max(left->largest, right->largest);
  const auto factor = [&](const Triple& of) {
    return of.largest - out.largest < -100 ? 0.0f : std::ldexp(1.0f, of.largest - out.largest);
  };
  const float a = factor(*left), b = factor(*right);
  out.sum = std::fma(left->sum, a, right->sum * b);
  for (std::size_t c = 0; c < left->o.size(); ++c) {
    out.o.push_back(std::fma(left->o[c], a, right->o[c] * b));
  }
  return out;
}

template <typename Value, typename Leaf, typename Combine>
Value Tree(const Range& range, const Leaf& leaf, const Combine& combine) {
  if (LeafCount(range, kLeaf) == 1) return leaf(range);
  const auto [left, right] = Halve(range, kLeaf);
  return combine(Tree<Value>(left, leaf, combine), Tree<Value>(right, leaf, combine));
}

float Product(const Host& x, std::int64_t x_row, std::int64_t x_col, const Host& y,
              std::int64_t y_row, std::int64_t y_col, std::int64_t width) {
  return TreeSum(width, kLeaf, [&](float acc, std::int64_t c) {
    return std::fma(x.at(x_row, x_col + c), y.at(y_row, y_col + c), acc);
  });
}

// In lane order.
float RowTerm(const Host& x, const Host& y, std::int64_t row, std::int64_t col,
              std::int64_t width) {
  return Tree<float>(
      {0, width},
      [&](const Range& range) {
        std::vector<float> lanes(16);
        for (std::int64_t c = range.begin; c < range.end; ++c) {
          float& lane = lanes[static_cast<std::size_t>((c - range.begin) % 16)];
          lane = std::fma(x.at(row, col + c), y.at(row, col + c), lane);
        }
        while (lanes.size() > 1) {
          const std::size_t half = lanes.size() / 2;
          for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
          lanes.resize(half);
        }
        return lanes[0];
      },
      [](float left, float right) { return left + right; });
}

// One head of one sequence.
struct Head {
  const AttentionShape& shape;
  const AttentionOperands& in;
  std::int64_t sequence;
  std::int64_t head;

  std::int64_t query_row(std::int64_t i) const { return sequence * shape.queries + i; }
  std::int64_t key_row(std::int64_t j) const { return sequence * shape.keys + j; }
  std::int64_t q_col() const { return head * shape.width; }
  std::int64_t k_col() const { return head / shape.shared * shape.width; }
  float ScoreOf(std::int64_t i, std::int64_t j) const {
    return Score(Product(in.q, query_row(i), q_col(), in.k, key_row(j), k_col(), shape.width),
                 shape.scale());
  }
};

Node LeafOf(const Head& head, std::int64_t i, const Range& keys) {
  const AttentionShape& shape = head.shape;
  if (!shape.Sees(head.sequence, i, keys.begin)) return std::nullopt;
  std::vector<float> scores;
  float largest = -kBound;
  for (std::int64_t j = keys.begin; j < keys.end && shape.Sees(head.sequence, i, j); ++j) {
    scores.push_back(head.ScoreOf(i, j));
    if (scores.back() > largest) largest = scores.back();
  }
  Triple out{ExponentOf(largest), 0.0f, std::vector<float>(static_cast<std::size_t>(shape.width))};
  for (std::size_t x = 0; x < scores.size(); ++x) {
    const std::int64_t j = keys.begin + static_cast<std::int64_t>(x);
    const float w = Weight(scores[x], out.largest);
    const float kept = shape.Dropped(head.sequence, head.head, i, j, w);
    out.sum += w;
    for (std::int64_t c = 0; c < shape.width; ++c) {
      float& o = out.o[static_cast<std::size_t>(c)];
      o = std::fma(kept, head.in.v.at(head.key_row(j), head.k_col() + c), o);
    }
  }
  return out;
}

// For one head: weights after dropout and gradients of the products, for each query and key.
struct Pairs {
  Host weight, slope;
};

Pairs PairsOf(const Head& head, const AttentionResults& whole) {
  const AttentionShape& shape = head.shape;
  Pairs out{Host(shape.queries, shape.keys), Host(shape.queries, shape.keys)};
  for (std::int64_t i = 0; i < shape.queries; ++i) {
    const std::int64_t row = head.query_row(i);
    const auto largest = static_cast<int>(whole.statistics.at(row, 2 * head.head));
    const float inverse = 1.0f / whole.statistics.at(row, 2 * head.head + 1);
    const float term = RowTerm(whole.o, head.in.d_o, row, head.q_col(), shape.width);
    for (std::int64_t j = 0; j < shape.keys; ++j) {
      if (!shape.Sees(head.sequence, i, j)) continue;
      const auto dropped = [&](float x) {
        return shape.Dropped(head.sequence, head.head, i, j, x);
      };
      const float weight = Weight(head.ScoreOf(i, j), largest) * inverse;
      const float gradient = dropped(Product(head.in.d_o, row, head.q_col(), head.in.v,
                                             head.key_row(j), head.k_col(), shape.width));
      out.weight.at(i, j) = dropped(weight);
      out.slope.at(i, j) = weight * (gradient - term) * shape.scale();
    }
  }
  return out;
}

// Sums term(x, acc) over [0, n) by leaves. Each leaf is added to 0, so that no sum is -0.
template <typename Leaf>
float Sum(std::int64_t n, const Leaf& leaf) {
  return Tree<float>(
      {0, n}, [&](const Range& range) { return 0.0f + leaf(range); },
      [](float left, float right) { return left + right; });
}

void SetQueryGradient(const Head& head, const Pairs& pairs, Host& dq) {
  const AttentionShape& shape = head.shape;
  for (std::int64_t i = 0; i < shape.queries; ++i) {
    for (std::int64_t c = 0; c < shape.width; ++c) {
      dq.at(head.query_row(i), head.q_col() + c) =
          Canonical(Sum(shape.keys, [&](const Range& range) {
            float acc = 0.0f;
            for (std::int64_t j = range.begin; j < range.end; ++j) {
              if (!shape.Sees(head.sequence, i, j)) continue;
              acc = std::fma(pairs.slope.at(i, j), head.in.k.at(head.key_row(j), head.k_col() + c),
                             acc);
            }
            return acc;
          }));
    }
  }
}

// Element (j, c) of dk or dv of the heads that share a key-value head.
float KeyGradient(const std::vector<Head>& heads, const std::vector<Pairs>& pairs, bool of_values,
                  std::int64_t j, std::int64_t c) {
  const AttentionShape& shape = heads[0].shape;
  return Sum(shape.queries, [&](const Range& range) {
    float total = 0.0f;
    for (std::size_t h = 0; h < heads.size(); ++h) {
      const Head& head = heads[h];
      const Host& of = of_values ? pairs[h].weight : pairs[h].slope;
      const Host& with = of_values ? head.in.d_o : head.in.q;
      float acc = 0.0f;
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        if (!shape.Sees(head.sequence, i, j)) continue;
        acc = std::fma(of.at(i, j), with.at(head.query_row(i), head.q_col() + c), acc);
      }
      total += acc;
    }
    return total;
  });
}

}  // namespace

float AttentionShape::scale() const {
  return 1.0f / std::sqrt(static_cast<float>(width));
}

KernelScalars AttentionShape::scalars(bool finish) const {
  return {.f = {scale(), dropout, 1.0f / (1.0f - dropout)},
          .i = {causal ? 1 : 0, queries, keys, key_value_heads, shared, first_query, first_key,
                kSeed, kStream, kFirstSequence, kPositions, kFirstHead, kAllHeads, finish ? 1 : 0}};
}

bool AttentionShape::Sees(std::int64_t sequence, std::int64_t i, std::int64_t j) const {
  const std::int64_t key = first_key + j;
  if (!lengths.empty() && key >= lengths[static_cast<std::size_t>(sequence)]) return false;
  return !causal || key <= first_query + i;
}

float AttentionShape::Dropped(std::int64_t sequence, std::int64_t head, std::int64_t i,
                              std::int64_t j, float weight) const {
  if (dropout == 0.0f) return weight;
  const std::int64_t row = (kFirstSequence + sequence) * kPositions + first_query + i;
  const auto place = static_cast<std::uint64_t>((row * kAllHeads + kFirstHead + head) * kPositions +
                                                first_key + j);
  const acan_philox4 words = acan_philox(kSeed, place / 4, kStream);
  return acan_unit_float(words.v[place % 4]) >= dropout ? weight * (1.0f / (1.0f - dropout)) : 0.0f;
}

AttentionResults DefineAttention(const AttentionShape& shape, const AttentionOperands& in,
                                 bool finish) {
  AttentionResults out{Host(in.q.rows, in.q.cols), Host(in.q.rows, 2 * shape.heads())};
  for (std::int64_t s = 0; s < shape.sequences; ++s) {
    for (std::int64_t h = 0; h < shape.heads(); ++h) {
      const Head head{shape, in, s, h};
      for (std::int64_t i = 0; i < shape.queries; ++i) {
        const Node node = Tree<Node>(
            {0, shape.keys}, [&](const Range& keys) { return LeafOf(head, i, keys); }, Join);
        const std::int64_t row = head.query_row(i);
        out.statistics.at(row, 2 * h) = node ? static_cast<float>(node->largest) : -8388608.0f;
        out.statistics.at(row, 2 * h + 1) = Canonical(node ? node->sum : 0.0f);
        const float inverse = finish ? 1.0f / (node ? node->sum : 0.0f) : 1.0f;
        for (std::int64_t c = 0; c < shape.width; ++c) {
          const float o = node ? node->o[static_cast<std::size_t>(c)] : 0.0f;
          out.o.at(row, head.q_col() + c) = Canonical(o * inverse);
        }
      }
    }
  }
  return out;
}

AttentionGradients DefineAttentionGradient(const AttentionShape& shape, const AttentionOperands& in,
                                           const AttentionResults& whole) {
  AttentionGradients out{Host(in.q.rows, in.q.cols), Host(in.k.rows, in.k.cols),
                         Host(in.k.rows, in.k.cols)};
  for (std::int64_t s = 0; s < shape.sequences; ++s) {
    for (std::int64_t g = 0; g < shape.key_value_heads; ++g) {
      std::vector<Head> heads;
      std::vector<Pairs> pairs;
      for (std::int64_t h = 0; h < shape.shared; ++h) {
        heads.push_back({shape, in, s, g * shape.shared + h});
        pairs.push_back(PairsOf(heads.back(), whole));
        SetQueryGradient(heads.back(), pairs.back(), out.dq);
      }
      for (std::int64_t j = 0; j < shape.keys; ++j) {
        for (std::int64_t c = 0; c < shape.width; ++c) {
          const std::int64_t row = heads[0].key_row(j), col = heads[0].k_col() + c;
          out.dk.at(row, col) = Canonical(KeyGradient(heads, pairs, false, j, c));
          out.dv.at(row, col) = Canonical(KeyGradient(heads, pairs, true, j, c));
        }
      }
    }
  }
  return out;
}

}  // namespace acan::test
