#include "acan/manager/tile_mover.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>

#include "acan/core/error.h"
#include "acan/core/long_wait.h"
#include "acan/manager/planted.h"
#include "acan/manager/tuple_names.h"
#include "acan/manager/work_beside.h"
#include "await_reply.h"
#include "fmt/format.h"
#include "tuplespace/clock.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

namespace {

std::size_t Values(const TileCell& tile) {
  return static_cast<std::size_t>(tile.outputs.size() * tile.inputs.size());
}

std::size_t TileBytes(const TileCell& tile) {
  return Values(tile) * sizeof(float);
}

std::map<MatrixId, std::size_t> PlacesOf(const std::vector<TensorInfo>& tensors) {
  std::map<MatrixId, std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) places[tensors[i].matrix] = i;
  return places;
}

// Copies the values in which two tiles of one matrix overlap. Values are row-major.
void CopyOverlap(const TileCell& from, std::span<const float> values, const TileCell& to,
                 std::vector<float>* out) {
  const Range rows{std::max(from.outputs.begin, to.outputs.begin),
                   std::min(from.outputs.end, to.outputs.end)};
  const Range cols{std::max(from.inputs.begin, to.inputs.begin),
                   std::min(from.inputs.end, to.inputs.end)};
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t source =
        (row - from.outputs.begin) * from.inputs.size() + cols.begin - from.inputs.begin;
    const std::int64_t target =
        (row - to.outputs.begin) * to.inputs.size() + cols.begin - to.inputs.begin;
    std::copy_n(values.begin() + source, cols.size(), out->begin() + target);
  }
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

std::span<const float> Floats(const tuplespace::Payload& payload) {
  return {reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)};
}

// The boundaries of the parts into which `ends` cut an axis of `size`, ascending, including its
// end.
std::vector<std::int64_t> Ends(std::vector<std::int64_t> ends, std::int64_t size) {
  ends.push_back(0);
  ends.push_back(size);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace

bool AreWhole(const std::vector<TileCell>& tiles, std::int64_t rows, std::int64_t cols) {
  std::vector<std::int64_t> of_rows, of_cols;
  for (const TileCell& tile : tiles) {
    if (tile.outputs.end > rows || tile.inputs.end > cols) return false;
    of_rows.insert(of_rows.end(), {tile.outputs.begin, tile.outputs.end});
    of_cols.insert(of_cols.end(), {tile.inputs.begin, tile.inputs.end});
  }
  of_rows = Ends(std::move(of_rows), rows);
  of_cols = Ends(std::move(of_cols), cols);
  const auto part = [](const std::vector<std::int64_t>& ends, std::int64_t end) {
    return static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), end) - ends.begin());
  };
  const std::size_t width = of_cols.size() - 1;
  std::vector<bool> there((of_rows.size() - 1) * width, false);
  for (const TileCell& tile : tiles) {
    const std::size_t end = part(of_rows, tile.outputs.end);
    for (std::size_t row = part(of_rows, tile.outputs.begin); row < end; ++row) {
      const auto line = there.begin() + static_cast<std::ptrdiff_t>(row * width);
      std::fill(line + static_cast<std::ptrdiff_t>(part(of_cols, tile.inputs.begin)),
                line + static_cast<std::ptrdiff_t>(part(of_cols, tile.inputs.end)), true);
    }
  }
  return std::find(there.begin(), there.end(), false) == there.end();
}

// The broker says whether the tile is there. Its bytes may take minutes over a slow link.
std::optional<tuplespace::Payload> TileMover::Fetch(const TileCell& tile,
                                                    std::optional<std::chrono::seconds> patience) {
  tuplespace::Read read{{Pattern::Of(tile.key)}};
  read.wait_us = patience ? std::chrono::microseconds(*patience).count() : tuplespace::kForeverUs;
  LongWait wait(tuplespace::MonotonicUs());
  const auto found = AwaitReply<tuplespace::Found>(client_, std::move(read), [&] {
    check_();
    if (const auto seconds = wait.Due(tuplespace::MonotonicUs()); seconds && say_) {
      say_(fmt::format("waiting for {} for {} s", tile.key.ToString(), *seconds));
    }
  });
  if (found.timed_out || found.tuples.empty()) return std::nullopt;
  const tuplespace::Payload& payload = found.tuples.front().payload;
  const std::size_t bytes = TileBytes(tile);
  if (payload.size() != bytes) {
    throw FailureError(fmt::format("{} of {} has {} bytes, must have {}", tile.key.ToString(),
                                   found.tuples.front().put_by, payload.size(), bytes));
  }
  // A payload that arrived inside a control frame may be unaligned.
  const bool aligned = reinterpret_cast<std::uintptr_t>(payload.data()) % alignof(float) == 0;
  return aligned ? payload : tuplespace::Payload::Copy(payload.data(), bytes);
}

void TileMover::Put(const TileCell& tile, std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  tuplespace::Tuple tuple;
  tuple.key = tile.key;
  const float* data = owner->data();
  const std::size_t bytes = owner->size() * sizeof(float);
  tuple.payload = tuplespace::Payload(std::move(owner), data, bytes);
  check_();  // so that the lead is extended before these bytes, which an Extend cannot overtake
  AwaitReply<tuplespace::PutReply>(client_, tuplespace::Put{{std::move(tuple)}}, check_);
}

FileTiles::FileTiles(const ModelReader& file) : file_(file), places_(PlacesOf(file.Tensors())) {}

std::vector<float> FileTiles::Read(const TileCell& tile) {
  std::vector<float> values(Values(tile), 0.0f);
  const auto place = places_.find(tile.matrix);
  if (place != places_.end()) {
    file_.Read(place->second, tile.outputs.begin, tile.inputs.begin, tile.outputs.size(),
               tile.inputs.size(), values);
  }
  return values;
}

std::vector<float> SpaceTiles::Read(const TileCell& tile) {
  std::vector<float> values(Values(tile));
  for (const TileCell& old : tiles_) {
    if (old.matrix == tile.matrix && old.outputs.Overlaps(tile.outputs) &&
        old.inputs.Overlaps(tile.inputs)) {
      const auto found = mover_.Fetch(old, patience_);
      if (!found) throw TileGone{old.key};
      CopyOverlap(old, Floats(*found), tile, &values);
    }
  }
  return values;
}

void TileMover::Load(TileSource& source, const std::vector<TileCell>& tiles) {
  for (const TileCell& tile : tiles) Put(tile, source.Read(tile));
}

// Queries one tensor of one version at a time, because the broker limits the tuples of a reply.
// Nothing can read a tile of another size. Without it, an earlier version or a snapshot is the
// beginning.
std::vector<TileCell> TileMover::TilesIn(const std::string& run, std::int64_t version,
                                         const std::vector<TensorInfo>& tensors) {
  std::vector<TileCell> tiles;
  for (const TensorInfo& tensor : tensors) {
    const Pattern pattern = tensor.frozen
                                ? FrozenTilesOf(run, tensor.matrix.parameter)
                                : TilesOf(run, FieldPattern::Exact(version), tensor.matrix);
    for (const tuplespace::FoundTuple& found : client_.ListAll(pattern, true)) {
      if (found.resident) continue;  // it is with a handler, which may be lost before it is read
      auto tile = TileOfKey(found.key);
      if (!tile || found.payload_bytes != TileBytes(tile->second)) continue;
      tiles.push_back(std::move(tile->second));
    }
  }
  return tiles;
}

std::optional<TileMover::Whole> TileMover::FindWhole(const std::string& run,
                                                     const TrainedModel& model, int states,
                                                     std::int64_t newest) {
  const std::vector<TensorInfo> tensors = ModelTensors(model, states);
  // The tiles of a small tensor with few tiles show which versions exist.
  const auto smallest = std::ranges::min_element(tensors, {}, [](const TensorInfo& tensor) {
    return std::pair(tensor.frozen, tensor.rows * tensor.cols);
  });
  const Pattern few = TilesOf(run, FieldPattern::AtMost(newest), smallest->matrix);
  std::set<std::int64_t> versions;
  for (const tuplespace::FoundTuple& found : client_.ListAll(few, true)) {
    if (const auto tile = TileOfKey(found.key)) versions.insert(tile->first);
  }
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    std::vector<TileCell> tiles = TilesIn(run, *version, tensors);
    std::map<MatrixId, std::vector<TileCell>> of_matrix;
    for (const TileCell& tile : tiles) of_matrix[tile.matrix].push_back(tile);
    const bool whole = std::all_of(tensors.begin(), tensors.end(), [&](const TensorInfo& tensor) {
      return AreWhole(of_matrix[tensor.matrix], tensor.rows, tensor.cols);
    });
    if (whole || (IsPlanted(ManagerBug::kResumesFromPartialVersion) && !tiles.empty())) {
      return Whole{*version, std::move(tiles)};
    }
  }
  return std::nullopt;
}

void TileMover::Move(const std::string& run, std::int64_t version,
                     const std::vector<TileCell>& from, const std::vector<TileCell>& to) {
  // Removes tasks first, so that none finds its inputs missing.
  client_.RetireAll(TasksOf(run, FieldPattern::AtLeast(version)), false);
  for (const Pattern& pattern : AllAfter(run, version)) client_.RetireAll(pattern, false);
  for (const Pattern& pattern : StepWithoutTiles(run, version)) client_.RetireAll(pattern, false);
  std::set<Key> kept;
  std::set<Key> there;
  for (const TileCell& tile : from) there.insert(tile.key);
  SpaceTiles source(*this, from, std::nullopt);
  for (const TileCell& tile : to) {
    kept.insert(tile.key);
    if (there.count(tile.key) == 0) Put(tile, source.Read(tile));
  }
  for (const TileCell& tile : from) {
    if (kept.count(tile.key) == 0) client_.RetireAll(Pattern::Of(tile.key), false);
  }
}

TileMover::Written TileMover::WriteModel(const std::string& path, const TrainedModel& model,
                                         std::int64_t steps, const std::vector<TileCell>& tiles,
                                         bool only_finite) {
  ModelWriter writer(path, model, steps);
  std::vector<TileCell> parameters;
  for (const TileCell& tile : tiles) {
    if (tile.IsOfValue()) parameters.push_back(tile);
  }
  Written written;
  written.finite = Write(writer, ModelTensors(model), parameters);
  if (only_finite && !written.finite) return written;
  LongWait wait(tuplespace::MonotonicUs());
  const auto check = [&] {
    check_();
    if (const auto seconds = wait.Due(tuplespace::MonotonicUs()); seconds && say_) {
      say_(fmt::format("the model file has not reached the disk after {} s; continuing", *seconds));
    }
  };
  WorkBeside(client_, check, [&](const std::function<void()>& go_on) {
    written.weights_sha256 = writer.Finish(go_on);
  });
  return written;
}

TileMover::Written TileMover::HashModel(const TrainedModel& model, std::int64_t steps,
                                        const std::vector<TileCell>& tiles) {
  const std::vector<TensorInfo> tensors = ModelTensors(model);
  // A whole tile is fetched for each part of it, so a part is as large as the largest tile.
  std::int64_t part_bytes = kHashedPartBytes;
  for (const TileCell& tile : tiles) {
    part_bytes = std::max(part_bytes, static_cast<std::int64_t>(TileBytes(tile)));
  }
  SpaceTiles source(*this, tiles, std::nullopt);
  Written written;
  const auto read = [&](std::size_t index, const Range& rows, const Range& cols) {
    std::vector<float> values = source.Read({{}, tensors[index].matrix, rows, cols});
    written.finite = written.finite && AllFinite(values);
    return values;
  };
  written.weights_sha256 = acan::HashModel(model, steps, read, part_bytes);
  return written;
}

bool TileMover::AreFinite(const std::vector<TileCell>& tiles) {
  return std::all_of(tiles.begin(), tiles.end(), [this](const TileCell& tile) {
    return !tile.IsOfValue() || AllFinite(Floats(*Fetch(tile)));
  });
}

bool TileMover::Write(ModelWriter& writer, const std::vector<TensorInfo>& tensors,
                      const std::vector<TileCell>& tiles) {
  const auto places = PlacesOf(tensors);
  bool finite = true;
  for (const TileCell& tile : tiles) {
    const tuplespace::Payload payload = *Fetch(tile);
    finite = finite && (!tile.IsOfValue() || AllFinite(Floats(payload)));
    writer.Write(places.at(tile.matrix), tile.outputs.begin, tile.inputs.begin, tile.outputs.size(),
                 tile.inputs.size(), Floats(payload));
  }
  return finite;
}

}  // namespace acan
