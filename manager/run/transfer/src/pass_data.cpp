#include "acan/manager/pass_data.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <span>
#include <utility>

namespace acan {
namespace {

// Memory for a payload that is not written yet.
struct Room {
  std::shared_ptr<const void> owner;
  std::span<std::uint32_t> words;
  const tuplespace::SharedRegion* region = nullptr;
};

Room RoomFor(std::size_t words, tuplespace::SharedPool* pool) {
  if (pool != nullptr) {
    if (tuplespace::SharedPool::Block block = pool->Allocate(words * sizeof(std::uint32_t))) {
      const tuplespace::SharedRegion* region = block.get();
      return {std::move(block), {reinterpret_cast<std::uint32_t*>(region->data), words}, region};
    }
  }
  auto own = std::make_shared_for_overwrite<std::uint32_t[]>(words);
  std::uint32_t* data = own.get();
  return {std::move(own), {data, words}};
}

}  // namespace

tuplespace::Tuple CellTuple(const DataCell& cell, const SampleSet& set, std::int64_t epoch,
                            const std::function<std::int64_t(std::int64_t)>& sample_at,
                            tuplespace::SharedPool* pool) {
  const WantedInput* input = FindInput(set.inputs(), cell.input);
  assert(input != nullptr);
  const std::int64_t positions = input->positions;
  const std::int64_t columns = cell.features.size();
  Room room = RoomFor(static_cast<std::size_t>(cell.rows.size() * columns), pool);
  // One sample after another; a cell may begin and end within a sample.
  for (std::int64_t row = cell.rows.begin; row < cell.rows.end;) {
    const std::int64_t of_batch = row / positions;
    const std::int64_t first = row % positions;
    const std::int64_t rows = std::min(positions - first, cell.rows.end - row);
    set.Copy({cell.input, sample_at(of_batch), epoch, {first, first + rows}, cell.features},
             room.words.subspan(static_cast<std::size_t>((row - cell.rows.begin) * columns),
                                static_cast<std::size_t>(rows * columns)));
    row += rows;
  }
  tuplespace::Tuple tuple;
  tuple.key = cell.key;
  tuple.payload = tuplespace::Payload(std::move(room.owner), room.words.data(),
                                      room.words.size_bytes(), room.region);
  return tuple;
}

bool HasIgnoredLabels(const SampleSet& set) {
  const WantedInput* labels = FindInput(set.inputs(), "labels");
  return labels != nullptr && labels->ignored_label.has_value();
}

std::int64_t CountLabels(const SampleSet& set, std::int64_t samples, std::int64_t epoch,
                         const std::function<std::int64_t(std::int64_t)>& sample_at) {
  const WantedInput* labels = FindInput(set.inputs(), "labels");
  const auto none = static_cast<std::uint32_t>(*labels->ignored_label);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(labels->positions));
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    set.Copy({labels->name, sample_at(i), epoch, {0, labels->positions}, {0, 1}}, words);
    counted += std::ranges::count_if(words, [&](std::uint32_t word) { return word != none; });
  }
  return counted;
}

std::vector<tuplespace::Tuple> PassTuples(
    const PassTasks& tasks, const Pass& pass, const SampleSet& set, std::int64_t epoch,
    const std::function<std::int64_t(std::int64_t)>& sample_at, tuplespace::SharedPool* pool) {
  std::vector<tuplespace::Tuple> tuples = tasks.Tables(pass);
  for (const DataCell& cell : tasks.DataCells(pass)) {
    tuples.push_back(CellTuple(cell, set, epoch, sample_at, pool));
  }
  return tuples;
}

}  // namespace acan
