// The data that a pass gets from its samples.
#include "acan/manager/pass_data.h"

#include <gtest/gtest.h>

#include <cstring>

namespace acan {
namespace {

// Inputs of 1 and of 5 positions; each value encodes where it is from.
class CountedSamples final : public SampleSet {
 public:
  std::int64_t samples() const override { return 100; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override {
    std::size_t next = 0;
    for (std::int64_t p = part.positions.begin; p < part.positions.end; ++p) {
      for (std::int64_t f = part.features.begin; f < part.features.end; ++f) {
        out[next++] = Value(part.input == "tokens", part.epoch, part.sample, p, f);
      }
    }
    EXPECT_EQ(next, out.size());
  }
  static std::uint32_t Value(bool tokens, std::int64_t epoch, std::int64_t sample,
                             std::int64_t position, std::int64_t feature) {
    return static_cast<std::uint32_t>((tokens ? 1'000'000 : 0) + 100'000 * epoch + 1000 * sample +
                                      100 * position + feature);
  }

 private:
  std::string sha256_;
  std::vector<WantedInput> inputs_ = {{"x", model::InputRole::kNumbers, 1, 7},
                                      {"tokens", model::InputRole::kTokens, 5, 3}};
};

// Three labels for each sample; in even samples, all but the last are ignored.
class SomeLabels final : public SampleSet {
 public:
  explicit SomeLabels(std::optional<std::int64_t> none) { inputs_[0].ignored_label = none; }
  std::int64_t samples() const override { return 10; }
  const std::string& sha256() const override { return sha256_; }
  const std::vector<WantedInput>& inputs() const override { return inputs_; }
  void Copy(const SamplePart& part, std::span<std::uint32_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = part.sample % 2 == 0 && i < 2 ? static_cast<std::uint32_t>(-100) : 1;
    }
  }

 private:
  std::string sha256_;
  std::vector<WantedInput> inputs_ = {{"labels", model::InputRole::kLabels, 3, 1, 5}};
};

std::vector<std::uint32_t> Words(const tuplespace::Tuple& tuple) {
  std::vector<std::uint32_t> words(tuple.payload.size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), tuple.payload.data(), tuple.payload.size());
  return words;
}

// Row r of a batch is position r mod 5 of the batch's sample r / 5.
TEST(PassDataTest, RowsAreSamplesTimesPositions) {
  const CountedSamples set;
  const auto reversed = [](std::int64_t of_batch) { return 40 - of_batch; };
  for (const Range& rows : {Range{0, 20}, Range{5, 10}, Range{3, 4}, Range{3, 17}, Range{9, 11}}) {
    const DataCell cell{tuplespace::Key{"cell"}, "tokens", rows, {1, 3}};
    std::vector<std::uint32_t> expected;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t f = 1; f < 3; ++f) {
        expected.push_back(CountedSamples::Value(true, 2, 40 - row / 5, row % 5, f));
      }
    }
    const tuplespace::Tuple tuple = CellTuple(cell, set, 2, reversed, nullptr);
    EXPECT_EQ(Words(tuple), expected) << rows.begin << " to " << rows.end;
    EXPECT_EQ(tuple.key, cell.key);
  }
}

TEST(PassDataTest, OnePositionIsARowOfEachSample) {
  const CountedSamples set;
  const DataCell cell{tuplespace::Key{"cell"}, "x", {2, 5}, {0, 7}};
  std::vector<std::uint32_t> expected;
  for (std::int64_t sample = 2; sample < 5; ++sample) {
    for (std::int64_t f = 0; f < 7; ++f) {
      expected.push_back(CountedSamples::Value(false, 0, sample, 0, f));
    }
  }
  EXPECT_EQ(Words(CellTuple(
                cell, set, 0, [](std::int64_t i) { return i; }, nullptr)),
            expected);
}

// Small cells are not worth a block.
TEST(PassDataTest, LargeCellsAreMadeInThePool) {
  const CountedSamples set;
  const auto sample_at = [](std::int64_t of_batch) { return of_batch % 100; };
  const auto pool = tuplespace::SharedPool::Make();
  for (const std::int64_t rows : {100, 2000}) {
    const DataCell cell{tuplespace::Key{"cell"}, "x", {0, rows}, {0, 7}};
    const tuplespace::Tuple tuple = CellTuple(cell, set, 0, sample_at, pool.get());
    EXPECT_EQ(tuple.payload.region() != nullptr, rows == 2000);
    EXPECT_EQ(Words(tuple), Words(CellTuple(cell, set, 0, sample_at, nullptr)));
  }
}

TEST(PassDataTest, LabelsThatCount) {
  const auto second = [](std::int64_t of_batch) { return of_batch + 1; };
  EXPECT_TRUE(HasIgnoredLabels(SomeLabels(-100)));
  EXPECT_FALSE(HasIgnoredLabels(SomeLabels(std::nullopt)));
  EXPECT_FALSE(HasIgnoredLabels(CountedSamples()));
  EXPECT_EQ(CountLabels(SomeLabels(-100), 3, 0, second), 3 + 1 + 3);
}

}  // namespace
}  // namespace acan
