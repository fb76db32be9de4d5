// Attention on every device, compared bit for bit with an independently written definition and with
// computations that are split at many different nodes of queries and keys.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "acan/core/range.h"
#include "attention_reference.h"

namespace acan::test {
namespace {

AttentionOperands Operands(const AttentionShape& shape, float size = 1.5f) {
  const std::int64_t queries = shape.sequences * shape.queries;
  const std::int64_t keys = shape.sequences * shape.keys;
  const std::int64_t k_cols = shape.key_value_heads * shape.width;
  return {Random(queries, k_cols * shape.shared, 1, -size, size),
          Random(keys, k_cols, 2, -size, size), Random(keys, k_cols, 3),
          Random(queries, k_cols * shape.shared, 4)};
}

OnDevice PutLengths(Device& device, const AttentionShape& shape) {
  if (shape.lengths.empty()) return {};
  Host raw(shape.sequences, 1);
  std::memcpy(raw.v.data(), shape.lengths.data(), raw.v.size() * 4);
  return Put(device, raw);
}

AttentionResults Attend(Device& device, const AttentionShape& shape, const AttentionOperands& in,
                        bool finish, std::int64_t pad = 0) {
  const OnDevice q = Put(device, in.q, pad), k = Put(device, in.k, pad), v = Put(device, in.v);
  const OnDevice lengths = PutLengths(device, shape);
  const OnDevice o = Space(device, in.q.rows, in.q.cols, pad);
  const OnDevice statistics = Space(device, in.q.rows, 2 * shape.heads());
  KernelArgs args;
  args.scalars = shape.scalars(finish);
  args.m = {o.matrix, statistics.matrix, q.matrix, k.matrix, v.matrix, lengths.matrix};
  device.Launch(Kernel::kAttention, args);
  return {Fetch(device, o), Fetch(device, statistics)};
}

AttentionGradients Differentiate(Device& device, const AttentionShape& shape,
                                 const AttentionOperands& in, const AttentionResults& whole,
                                 std::int64_t pad = 0) {
  const OnDevice q = Put(device, in.q, pad), k = Put(device, in.k, pad), v = Put(device, in.v);
  const OnDevice d_o = Put(device, in.d_o, pad), o = Put(device, whole.o);
  const OnDevice statistics = Put(device, whole.statistics, pad);
  const OnDevice lengths = PutLengths(device, shape);
  const OnDevice dq = Space(device, in.q.rows, in.q.cols, pad);
  const OnDevice dk = Space(device, in.k.rows, in.k.cols);
  const OnDevice dv = Space(device, in.k.rows, in.k.cols, pad);
  KernelArgs args;
  args.scalars = shape.scalars(false);
  args.m = {dq.matrix, dk.matrix,      dv.matrix,         q.matrix, k.matrix,
            v.matrix,  lengths.matrix, statistics.matrix, o.matrix, d_o.matrix};
  device.Launch(Kernel::kAttentionGradient, args);
  return {Fetch(device, dq), Fetch(device, dk), Fetch(device, dv)};
}

void ExpectSame(const AttentionGradients& got, const AttentionGradients& want) {
  EXPECT_EQ(Difference(got.dq, want.dq), "") << "dq";
  EXPECT_EQ(Difference(got.dk, want.dk), "") << "dk";
  EXPECT_EQ(Difference(got.dv, want.dv), "") << "dv";
}

void ExpectSame(const AttentionResults& got, const AttentionResults& want) {
  EXPECT_EQ(Difference(got.o, want.o), "") << "o";
  EXPECT_EQ(Difference(got.statistics, want.statistics), "") << "statistics";
}

class AttentionTest : public ::testing::TestWithParam<TestDevice> {
 protected:
  // Checks that the device's triple, results and gradients equal the definition's.
  static void ExpectDefined(Device& device, const AttentionShape& shape,
                            const AttentionOperands& in, std::int64_t pad = 0) {
    SCOPED_TRACE(fmt::format("{} x [{}, {}], {} x {} heads of {}, {}", shape.sequences,
                             shape.queries, shape.keys, shape.key_value_heads, shape.shared,
                             shape.width, shape.causal ? "causal" : "full"));
    ExpectSame(Attend(device, shape, in, false, pad), DefineAttention(shape, in, false));
    const AttentionResults whole = DefineAttention(shape, in, true);
    ExpectSame(Attend(device, shape, in, true, pad), whole);
    ExpectSame(Differentiate(device, shape, in, whole, pad),
               DefineAttentionGradient(shape, in, whole));
  }
};

TEST_P(AttentionTest, EveryShapeIsItsDefinition) {
  ACAN_SKIP_WITHOUT(GetParam());
  const AttentionShape shapes[] = {
      {.width = 1},
      {.sequences = 2, .queries = 63, .keys = 63, .width = 32, .causal = true},
      {.queries = 65, .keys = 65, .key_value_heads = 2, .width = 64, .causal = true},
      {.queries = 130, .keys = 70, .width = 7},
      {.queries = 200, .keys = 200, .key_value_heads = 1, .shared = 3, .width = 20, .causal = true},
      {.sequences = 3, .queries = 70, .keys = 70, .width = 80, .lengths = {1, 64, 70}},
      {.sequences = 2,
       .queries = 100,
       .keys = 100,
       .width = 96,
       .causal = true,
       .lengths = {99, 3}},
      {.queries = 64, .keys = 128, .width = 128},
      {.queries = 20, .keys = 30, .width = 200, .causal = true, .first_query = 64},
      {.queries = 70, .keys = 150, .width = 33, .causal = true, .first_query = 64, .first_key = 64},
      {.queries = 70, .keys = 150, .width = 8, .causal = true, .first_query = 37},
      {.sequences = 2,
       .queries = 70,
       .keys = 90,
       .shared = 2,
       .width = 16,
       .first_key = 64,
       .lengths = {20, 100}},
  };
  for (const int threads : GetParam().threads) {
    const auto device = GetParam().make(threads, kRoomyBytes);
    for (const AttentionShape& shape : shapes) {
      ExpectDefined(*device, shape, Operands(shape), shape.width % 3);
      if (HasFailure()) return;
    }
  }
}

TEST_P(AttentionTest, DropoutDrawsByPlace) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, kRoomyBytes);
  const AttentionShape shape{.sequences = 2,
                             .queries = 70,
                             .keys = 70,
                             .shared = 2,
                             .width = 20,
                             .causal = true,
                             .dropout = 0.25f};
  AttentionOperands in = Operands(shape);
  ExpectDefined(*device, shape, in);
  // Sums that underflow are zeros, whose sign no dropped weight may change.
  for (float& value : in.v.v) value *= 3e-45f;
  ExpectDefined(*device, shape, in);
}

// One key far above the rest, and values that are NaN, infinite, zeros of either sign or denormal.
TEST_P(AttentionTest, HardValuesAreDefined) {
  ACAN_SKIP_WITHOUT(GetParam());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto device = GetParam().make(1, kRoomyBytes);
  for (const bool causal : {false, true}) {
    const AttentionShape shape{.queries = 150, .keys = 150, .width = 24, .causal = causal};
    AttentionOperands in = Operands(shape, 30.0f);
    ExpectDefined(*device, shape, in);
    const float hard[] = {NAN, kInfinity, -kInfinity, -0.0f, 1e-41f, 1e30f, -1e30f};
    for (std::size_t i = 0; i < std::size(hard); ++i) {
      in.q.at(static_cast<std::int64_t>(10 + 9 * i), 3) = hard[i];
      in.k.at(static_cast<std::int64_t>(80 + 9 * i), 5) = hard[i];
      in.v.at(static_cast<std::int64_t>(70 + 5 * i), 7) = hard[i];
      in.d_o.at(static_cast<std::int64_t>(20 + 8 * i), 9) = hard[i];
    }
    ExpectDefined(*device, shape, in);
  }
}

// ---- cuts ----

Host RowsOf(const Host& of, const Range& rows) {
  Host out(rows.size(), of.cols);
  std::copy_n(of.v.begin() + rows.begin * of.cols, rows.size() * of.cols, out.v.begin());
  return out;
}
void SetRows(Host& to, const Range& rows, const Host& from) {
  std::copy(from.v.begin(), from.v.end(), to.v.begin() + rows.begin * to.cols);
}

// The shape of the call that covers these nodes of queries and of keys of one sequence.
AttentionShape Part(AttentionShape shape, const Range& queries, const Range& keys) {
  shape.queries = queries.size();
  shape.keys = keys.size();
  shape.first_query = queries.begin;
  shape.first_key = keys.begin;
  return shape;
}
AttentionOperands Part(const AttentionOperands& in, const Range& queries, const Range& keys) {
  return {RowsOf(in.q, queries), RowsOf(in.k, keys), RowsOf(in.v, keys), RowsOf(in.d_o, queries)};
}

AttentionResults JoinOnDevice(Device& device, const AttentionShape& shape,
                              const AttentionResults& left, const AttentionResults& right) {
  const OnDevice o = Put(device, left.o, 3), statistics = Put(device, left.statistics);
  const OnDevice right_o = Put(device, right.o), right_statistics = Put(device, right.statistics);
  KernelArgs args;
  args.scalars.i[0] = shape.heads();
  args.m = {o.matrix,          statistics.matrix, o.matrix,
            statistics.matrix, right_o.matrix,    right_statistics.matrix};
  device.Launch(Kernel::kAttentionJoin, args);
  return {Fetch(device, o), Fetch(device, statistics)};
}

Host FinishOnDevice(Device& device, const AttentionShape& shape, const AttentionResults& triple) {
  const OnDevice o = Put(device, triple.o), statistics = Put(device, triple.statistics);
  KernelArgs args;
  args.scalars.i[0] = shape.heads();
  args.m = {o.matrix, o.matrix, statistics.matrix};
  device.Launch(Kernel::kAttentionFinish, args);
  return Fetch(device, o);
}

Host AddOnDevice(Device& device, const Host& left, const Host& right) {
  const OnDevice x = Put(device, left), y = Put(device, right);
  KernelArgs args;
  args.m = {x.matrix, x.matrix, y.matrix};
  device.Launch(Kernel::kAdd, args);
  return Fetch(device, x);
}

// Computes attention node by node, as separate tasks would.
AttentionResults AttendInParts(Device& device, const AttentionShape& shape,
                               const AttentionOperands& in, int query_level, int key_level) {
  AttentionResults out{Host(in.q.rows, in.q.cols), Host(in.q.rows, 2 * shape.heads())};
  const std::vector<Range> key_nodes = NodesOfLevel(shape.keys, 64, key_level);
  for (const Range& queries : NodesOfLevel(shape.queries, 64, query_level)) {
    std::vector<AttentionResults> parts;
    for (const Range& keys : key_nodes) {
      parts.push_back(Attend(device, Part(shape, queries, keys), Part(in, queries, keys), false));
    }
    for (const Combine& each : CombineOrder(key_nodes, 64)) {
      parts[each.left] = JoinOnDevice(device, shape, parts[each.left], parts[each.right]);
    }
    SetRows(out.statistics, queries, parts[0].statistics);
    SetRows(out.o, queries, FinishOnDevice(device, shape, parts[0]));
  }
  return out;
}

AttentionGradients DifferentiateInParts(Device& device, const AttentionShape& shape,
                                        const AttentionOperands& in, const AttentionResults& whole,
                                        int query_level, int key_level) {
  const std::vector<Range> query_nodes = NodesOfLevel(shape.queries, 64, query_level);
  const std::vector<Range> key_nodes = NodesOfLevel(shape.keys, 64, key_level);
  std::vector<std::vector<AttentionGradients>> parts;  // [queries][keys]
  for (const Range& queries : query_nodes) {
    parts.emplace_back();
    const AttentionResults rows{RowsOf(whole.o, queries), RowsOf(whole.statistics, queries)};
    for (const Range& keys : key_nodes) {
      parts.back().push_back(
          Differentiate(device, Part(shape, queries, keys), Part(in, queries, keys), rows));
    }
  }
  AttentionGradients out{Host(in.q.rows, in.q.cols), Host(in.k.rows, in.k.cols),
                         Host(in.k.rows, in.k.cols)};
  for (std::size_t i = 0; i < query_nodes.size(); ++i) {
    for (const Combine& each : CombineOrder(key_nodes, 64)) {
      Host& left = parts[i][each.left].dq;
      left = AddOnDevice(device, left, parts[i][each.right].dq);
    }
    SetRows(out.dq, query_nodes[i], parts[i][0].dq);
  }
  for (std::size_t j = 0; j < key_nodes.size(); ++j) {
    for (const Combine& each : CombineOrder(query_nodes, 64)) {
      AttentionGradients& left = parts[each.left][j];
      const AttentionGradients& right = parts[each.right][j];
      left.dk = AddOnDevice(device, left.dk, right.dk);
      left.dv = AddOnDevice(device, left.dv, right.dv);
    }
    SetRows(out.dk, key_nodes[j], parts[0][j].dk);
    SetRows(out.dv, key_nodes[j], parts[0][j].dv);
  }
  return out;
}

TEST_P(AttentionTest, AnyCutAtNodesGivesTheSameBits) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(GetParam().threads.back(), kRoomyBytes);
  AttentionShape shape{.queries = 300, .keys = 300, .shared = 2, .width = 20};
  for (const bool causal : {false, true}) {
    for (const std::int32_t length : {300, 130}) {
      shape.causal = causal;
      shape.lengths = {length};
      const AttentionOperands in = Operands(shape, 4.0f);
      const AttentionResults whole = Attend(*device, shape, in, true);
      const AttentionGradients gradients = Differentiate(*device, shape, in, whole);
      for (const auto& [query_level, key_level] :
           {std::pair{0, 0}, std::pair{1, 2}, std::pair{3, 0}, std::pair{0, 3}}) {
        SCOPED_TRACE(fmt::format("{}, length {}: queries at level {}, keys at {}",
                                 causal ? "causal" : "full", length, query_level, key_level));
        ExpectSame(AttendInParts(*device, shape, in, query_level, key_level), whole);
        ExpectSame(DifferentiateInParts(*device, shape, in, whole, query_level, key_level),
                   gradients);
        if (HasFailure()) return;
      }
    }
  }
}

// Heads are column ranges and sequences are row ranges, so parts are views of the whole.
TEST_P(AttentionTest, HeadsAndSequencesAreViews) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, kRoomyBytes);
  const AttentionShape shape{.sequences = 3,
                             .queries = 70,
                             .keys = 70,
                             .key_value_heads = 3,
                             .shared = 2,
                             .width = 12,
                             .causal = true};
  const AttentionOperands in = Operands(shape);
  const AttentionResults whole = Attend(*device, shape, in, true);
  const OnDevice q = Put(*device, in.q), k = Put(*device, in.k), v = Put(*device, in.v);
  const OnDevice o = Put(*device, Host(in.q.rows, in.q.cols));
  const OnDevice statistics = Put(*device, Host(in.q.rows, 12));
  const auto view = [](const OnDevice& of, std::int64_t sequence, std::int64_t col,
                       std::int64_t cols) {
    const Matrix& m = of.matrix;
    return Matrix{m.buffer, m.offset + sequence * 70 * m.stride + col, 70, cols, m.stride};
  };
  for (std::int64_t s = 0; s < 3; ++s) {
    for (std::int64_t g = 0; g < 3; ++g) {
      AttentionShape one = shape;
      one.key_value_heads = 1;
      KernelArgs args;
      args.scalars = one.scalars(true);
      args.m = {view(o, s, 24 * g, 24), view(statistics, s, 4 * g, 4), view(q, s, 24 * g, 24),
                view(k, s, 12 * g, 12), view(v, s, 12 * g, 12)};
      device->Launch(Kernel::kAttention, args);
    }
  }
  ExpectSame({Fetch(*device, o), Fetch(*device, statistics)}, whole);
}

// A device with less memory recomputes more, but the bits stay the same.
TEST_P(AttentionTest, MemoryDoesNotMatter) {
  ACAN_SKIP_WITHOUT(GetParam());
  const AttentionShape shape{.sequences = 2,
                             .queries = 260,
                             .keys = 260,
                             .shared = 2,
                             .width = 40,
                             .causal = true,
                             .lengths = {260, 140}};
  const AttentionOperands in = Operands(shape);
  const auto roomy = GetParam().make(1, kRoomyBytes);
  const AttentionResults whole = Attend(*roomy, shape, in, true);
  const AttentionGradients gradients = Differentiate(*roomy, shape, in, whole);
  for (const std::uint64_t megabytes : {2, 5, 7, 12}) {
    SCOPED_TRACE(fmt::format("{} MiB", megabytes));
    const auto tight = GetParam().make(1, megabytes << 20);
    ExpectSame(Attend(*tight, shape, in, true), whole);
    ExpectSame(Differentiate(*tight, shape, in, whole), gradients);
  }
}

TEST_P(AttentionTest, CallsThatWouldGoAstrayAreRefused) {
  ACAN_SKIP_WITHOUT(GetParam());
  const auto device = GetParam().make(1, 1 << 20);
  const AttentionShape shape{.queries = 5, .keys = 5, .shared = 2, .width = 4};
  const OnDevice q = Space(*device, 5, 8), k = Space(*device, 5, 4), v = Space(*device, 5, 4);
  const OnDevice o = Space(*device, 5, 8), statistics = Space(*device, 5, 4);
  KernelArgs args;
  args.scalars = shape.scalars(true);
  args.m = {o.matrix, statistics.matrix, q.matrix, k.matrix, v.matrix};
  device->Launch(Kernel::kAttention, args);
  args.m[0] = q.matrix;
  EXPECT_THAT([&] { device->Launch(Kernel::kAttention, args); },
              testing::ThrowsMessage<std::invalid_argument>(
                  testing::HasSubstr("operand 0, which is written, overlaps operand 2")));
  args.m[0] = o.matrix;
  for (const std::int64_t key_value_heads : {2, 3}) {
    // The statistics have the shape for one key-value head, and 8 columns cannot hold 3 x 2 heads.
    args.scalars.i[3] = key_value_heads;
    EXPECT_THROW(device->Launch(Kernel::kAttention, args), std::invalid_argument);
  }
}

std::vector<TestDevice> AttentionTestDevices() {
  std::vector<TestDevice> devices = KernelTestDevices();
  std::erase_if(devices, DiffersByProducts);
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionTest, ::testing::ValuesIn(AttentionTestDevices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace acan::test
