#include "acan/manager/pass_data.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

namespace acan {
namespace {

// A cell's values, written row by row by `fill_row(sample, out[columns])`.
template <class FillRow>
tuplespace::Tuple CellTuple(const DataCell& cell, const FillRow& fill_row) {
  const auto columns = static_cast<std::size_t>(cell.features.size());
  auto values =
      std::make_shared<std::vector<float>>(static_cast<std::size_t>(cell.rows.size()) * columns);
  for (std::int64_t row = cell.rows.begin; row < cell.rows.end; ++row) {
    const auto first = static_cast<std::size_t>(row - cell.rows.begin) * columns;
    fill_row(row, std::span(*values).subspan(first, columns));
  }
  const float* data = values->data();
  const std::size_t bytes = values->size() * sizeof(float);
  tuplespace::Tuple tuple;
  tuple.key = cell.key;
  tuple.payload = tuplespace::Payload(std::move(values), data, bytes);
  return tuple;
}

}  // namespace

std::vector<tuplespace::Tuple> PassTuples(
    const Graph& graph, const Pass& pass, const DataSet& set,
    const std::function<std::int64_t(std::int64_t)>& sample_at) {
  std::vector<tuplespace::Tuple> tuples;
  for (const DataCell& cell : graph.InputCells(pass)) {
    tuples.push_back(CellTuple(cell, [&](std::int64_t row, std::span<float> out) {
      set.CopyInputs(sample_at(row), cell.features.begin, out);
    }));
  }
  for (const DataCell& cell : graph.TargetCells(pass)) {
    tuples.push_back(CellTuple(cell, [&](std::int64_t row, std::span<float> out) {
      const std::int64_t sample = sample_at(row);
      if (set.targets == 0) {
        std::memcpy(out.data(), &set.labels[static_cast<std::size_t>(sample)],
                    sizeof(std::int32_t));
      } else {
        std::copy_n(set.target_values.begin() + sample * set.targets, set.targets, out.begin());
      }
    }));
  }
  return tuples;
}

}  // namespace acan
