// Attention for the op matrix: values, and the definition in float64.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "operations.h"

namespace acan::test {
namespace {

using In = std::vector<Host>;
using Out = std::vector<Doubles>;
using Values = Operation::Values;

constexpr std::int64_t kFirstQuery = 64;
constexpr float kScale = 0.25f;

// The sizes that a shape of the matrix stands for here.
struct Sizes {
  std::int64_t sequences, queries, keys, key_value_heads, shared, width;
  explicit Sizes(const Shape& s)
      : sequences(1 + s.rows % 2),
        queries(std::min<std::int64_t>(s.rows, 90)),
        keys(1 + s.inner % 150),
        key_value_heads(1 + s.cols % 2),
        shared(1 + s.rows % 3),
        width(1 + s.cols % 90) {}
  std::int64_t heads() const { return key_value_heads * shared; }
};

Operation::Names Name(const Shape& s, KernelScalars& scalars) {
  const Sizes n(s);
  std::copy_n(std::array{n.queries, n.keys, n.key_value_heads, n.shared, kFirstQuery}.begin(), 5,
              scalars.i.begin() + 1);
  return {{"sequences", n.sequences},
          {"queries", n.queries},
          {"keys", n.keys},
          {"key_value_heads", n.key_value_heads},
          {"shared", n.shared},
          {"heads", n.heads()},
          {"width", n.width},
          {"first_query", kFirstQuery},
          {"first_key", 0}};
}
Operation::Names NameRows(const Shape& s, KernelScalars& scalars) {
  scalars.i[0] = 1 + s.cols % 3;
  return {{"rows", s.rows}, {"heads", scalars.i[0]}, {"width", 1 + s.cols % 90}};
}

Values Between(std::uint32_t seed, float low = -1.0f, float high = 1.0f) {
  return [=](const Shape&, std::int64_t rows, std::int64_t cols) {
    return Random(rows, cols, seed, low, high);
  };
}

// K is an integer, and the sums are positive.
Values Statistics(std::uint32_t seed) {
  return [=](const Shape&, std::int64_t rows, std::int64_t cols) {
    Host out = Random(rows, cols, seed, 20.0f, 90.0f);
    for (std::size_t i = 0; i < out.v.size(); i += 2) out.v[i] = 3.0f + static_cast<float>(i % 3);
    return out;
  };
}

Host KeyLengths(const Shape& s, std::int64_t rows, std::int64_t cols) {
  Host out(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto length = static_cast<std::int32_t>(std::max<std::int64_t>(1, Sizes(s).keys - 9 * r));
    std::memcpy(&out.at(r, 0), &length, 4);
  }
  return out;
}

Doubles Zeros(std::int64_t rows, std::int64_t cols) {
  const auto count = static_cast<std::size_t>(rows * cols);
  return {rows, cols, std::vector<double>(count), std::vector<double>(count, 1e-3)};
}
void Add(Doubles& to, std::int64_t row, std::int64_t col, double term) {
  const auto at = static_cast<std::size_t>(row * to.cols + col);
  to.v[at] += term;
  to.magnitude[at] += std::abs(term);
}

// One head of one sequence, in float64.
struct Head {
  Sizes n;
  bool causal;
  const In& in;  // q, k, v, lengths, ...
  std::int64_t sequence, head;

  std::int64_t query_row(std::int64_t i) const { return sequence * n.queries + i; }
  std::int64_t key_row(std::int64_t j) const { return sequence * n.keys + j; }
  std::int64_t q_col() const { return head * n.width; }
  std::int64_t k_col() const { return head / n.shared * n.width; }
  std::int64_t visible(std::int64_t i) const {
    std::int32_t length = 0;
    std::memcpy(&length, &in[3].v[static_cast<std::size_t>(sequence)], 4);
    const std::int64_t keys = std::min<std::int64_t>(n.keys, length);
    return causal ? std::min(keys, kFirstQuery + i + 1) : keys;
  }
  // The product of row i of x and row j of y, where x has the query heads and y the key heads.
  double Product(const Host& x, std::int64_t i, const Host& y, std::int64_t j) const {
    double sum = 0.0;
    for (std::int64_t c = 0; c < n.width; ++c) {
      sum += double{x.at(query_row(i), q_col() + c)} * y.at(key_row(j), k_col() + c);
    }
    return sum;
  }
  double Score(std::int64_t i, std::int64_t j) const {
    return kScale * Product(in[0], i, in[1], j);
  }
};

template <typename Do>
void ForEachHead(const Shape& s, bool causal, const In& in, Do each) {
  const Sizes n(s);
  for (std::int64_t sequence = 0; sequence < n.sequences; ++sequence) {
    for (std::int64_t h = 0; h < n.heads(); ++h) each(Head{n, causal, in, sequence, h});
  }
}

Out Attend(const Shape& s, bool causal, const In& in) {
  Doubles o = Zeros(in[0].rows, in[0].cols), statistics = Zeros(in[0].rows, 2 * Sizes(s).heads());
  ForEachHead(s, causal, in, [&](const Head& at) {
    for (std::int64_t i = 0; i < at.n.queries; ++i) {
      double largest = -INFINITY, sum = 0.0;
      for (std::int64_t j = 0; j < at.visible(i); ++j) largest = std::max(largest, at.Score(i, j));
      const double k = std::nearbyint(largest / std::log(2.0));
      for (std::int64_t j = 0; j < at.visible(i); ++j) {
        sum += std::exp(at.Score(i, j)) * std::exp2(-k);
      }
      for (std::int64_t j = 0; j < at.visible(i); ++j) {
        const double w = std::exp(at.Score(i, j)) * std::exp2(-k) / sum;
        for (std::int64_t c = 0; c < at.n.width; ++c) {
          Add(o, at.query_row(i), at.q_col() + c, w * in[2].at(at.key_row(j), at.k_col() + c));
        }
      }
      Add(statistics, at.query_row(i), 2 * at.head, k);
      Add(statistics, at.query_row(i), 2 * at.head + 1, sum);
    }
  });
  return {o, statistics};
}

Out Differentiate(const Shape& s, bool causal, const In& in) {
  const Host &q = in[0], &k = in[1], &statistics = in[4], &o = in[5], &d_o = in[6];
  Doubles dq = Zeros(q.rows, q.cols), dk = Zeros(k.rows, k.cols), dv = Zeros(k.rows, k.cols);
  ForEachHead(s, causal, in, [&](const Head& at) {
    for (std::int64_t i = 0; i < at.n.queries; ++i) {
      const std::int64_t row = at.query_row(i);
      double term = 0.0;
      for (std::int64_t c = 0; c < at.n.width; ++c) {
        term += double{o.at(row, at.q_col() + c)} * d_o.at(row, at.q_col() + c);
      }
      for (std::int64_t j = 0; j < at.visible(i); ++j) {
        const double w = std::exp(at.Score(i, j)) *
                         std::exp2(-double{statistics.at(row, 2 * at.head)}) /
                         statistics.at(row, 2 * at.head + 1);
        const double ds = w * (at.Product(d_o, i, in[2], j) - term) * kScale;
        for (std::int64_t c = 0; c < at.n.width; ++c) {
          Add(dq, row, at.q_col() + c, ds * k.at(at.key_row(j), at.k_col() + c));
          Add(dk, at.key_row(j), at.k_col() + c, ds * q.at(row, at.q_col() + c));
          Add(dv, at.key_row(j), at.k_col() + c, w * d_o.at(row, at.q_col() + c));
        }
      }
    }
  });
  return {dq, dk, dv};
}

Out Join(const Shape& s, const In& in) {
  KernelScalars scalars;
  NameRows(s, scalars);
  const std::int64_t width = in[0].cols / scalars.i[0];
  Doubles o = Zeros(in[0].rows, in[0].cols), statistics = Zeros(in[1].rows, in[1].cols);
  for (std::int64_t r = 0; r < o.rows; ++r) {
    for (std::int64_t h = 0; h < scalars.i[0]; ++h) {
      const double largest = std::max(in[1].at(r, 2 * h), in[3].at(r, 2 * h));
      const double a = std::exp2(in[1].at(r, 2 * h) - largest);
      const double b = std::exp2(in[3].at(r, 2 * h) - largest);
      const auto joined = [&](double left, double right) { return left * a + right * b; };
      for (std::int64_t c = h * width; c < (h + 1) * width; ++c) {
        Add(o, r, c, joined(in[0].at(r, c), in[2].at(r, c)));
      }
      Add(statistics, r, 2 * h, largest);
      Add(statistics, r, 2 * h + 1, joined(in[1].at(r, 2 * h + 1), in[3].at(r, 2 * h + 1)));
    }
  }
  return {o, statistics};
}

Out Finish(const Shape& s, const In& in) {
  KernelScalars scalars;
  NameRows(s, scalars);
  const std::int64_t width = in[0].cols / scalars.i[0];
  Doubles out = Zeros(in[0].rows, in[0].cols);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.cols; ++c) {
      Add(out, r, c, double{in[0].at(r, c)} / in[1].at(r, c / width * 2 + 1));
    }
  }
  return {out};
}

}  // namespace

void AddAttention(std::vector<Operation>& all) {
  for (const bool causal : {false, true}) {
    KernelScalars scalars{.f = {kScale, 0.0f, 1.0f}, .i = {causal ? 1 : 0}};
    scalars.i[13] = 1;
    const Values q = Between(30), k = Between(31), v = Between(32);
    all.push_back({causal ? "attention_causal" : "attention_full",
                   Kernel::kAttention,
                   scalars,
                   {q, k, v, KeyLengths},
                   [=](const Shape& s, const In& in) { return Attend(s, causal, in); },
                   Name});
    all.push_back({causal ? "attention_gradient_causal" : "attention_gradient_full",
                   Kernel::kAttentionGradient,
                   scalars,
                   {q, k, v, KeyLengths, Statistics(33), Between(34), Between(35)},
                   [=](const Shape& s, const In& in) { return Differentiate(s, causal, in); },
                   Name});
  }
  all.push_back({"attention_join",
                 Kernel::kAttentionJoin,
                 {},
                 {Between(36), Statistics(37), Between(38), Statistics(39)},
                 Join,
                 NameRows});
  all.push_back({"attention_finish",
                 Kernel::kAttentionFinish,
                 {},
                 {Between(40), Statistics(41)},
                 Finish,
                 NameRows});
}

}  // namespace acan::test
