#include "row_kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace acan::test {

float Tree(const std::vector<float>& leaves, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return leaves[begin];
  const std::size_t left = std::bit_floor(end - begin - 1);
  return Tree(leaves, begin, begin + left) + Tree(leaves, begin + left, end);
}

float LaneSum(std::int64_t n, const Fold& fold) {
  std::vector<float> leaves;
  for (std::int64_t begin = 0; begin < n; begin += 64) {
    std::vector<float> lanes(16, 0.0f);
    for (std::int64_t i = begin; i < std::min(n, begin + 64); ++i) {
      float& lane = lanes[static_cast<std::size_t>(i % 16)];
      lane = fold(lane, i);
    }
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
    }
    leaves.push_back(lanes[0]);
  }
  return Tree(leaves, 0, leaves.size());
}

float GroupSum(std::int64_t rows, std::int64_t group, std::int64_t block, const Fold& fold) {
  std::vector<float> groups;
  for (std::int64_t first = 0; first < rows; first += group) {
    std::vector<float> leaves;
    const std::int64_t last = std::min(rows, first + group);
    for (std::int64_t begin = first; begin < last; begin += block) {
      float acc = 0.0f;
      for (std::int64_t r = begin; r < std::min(last, begin + block); ++r) acc = fold(acc, r);
      leaves.push_back(acc);
    }
    groups.push_back(Tree(leaves, 0, leaves.size()));
  }
  return Tree(groups, 0, groups.size());
}

Host Integers(std::int64_t rows, const std::function<std::int64_t(std::int64_t)>& of) {
  Host host(rows, 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    host.at(r, 0) = std::bit_cast<float>(static_cast<std::int32_t>(of(r)));
  }
  return host;
}

std::int64_t IntegerAt(const Host& host, std::int64_t r) {
  return std::bit_cast<std::int32_t>(host.at(r, 0));
}

Host Hard(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float hard[] = {0.0f, -0.0f, 1e-41f, 1e30f, -90.0f, 104.0f, kInfinity, -kInfinity, NAN};
  Host host = Random(rows, cols, seed, -4.0f, 4.0f);
  for (std::size_t i = 4; i < host.v.size(); i += 5) host.v[i] = hard[i / 5 % std::size(hard)];
  return host;
}

}  // namespace acan::test
