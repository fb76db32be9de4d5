#include "tile_mover.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "acan/core/error.h"
#include "fmt/format.h"

namespace acan {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

namespace {

bool IsBias(const TileCell& tile) {
  return tile.tensor % 2 == 1;
}

std::size_t Values(const TileCell& tile) {
  return static_cast<std::size_t>(tile.outputs.size() * tile.inputs.size());
}

// For each tensor number (2 * layer, 2 * layer + 1) its place in the order of names.
std::vector<std::size_t> FileOrder(const Model& model) {
  const std::vector<TensorInfo> tensors = ModelTensors(model);
  std::vector<std::size_t> order;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    for (const char* what : {"weight", "bias"}) {
      const std::string name = fmt::format("layers.{}.{}", layer, what);
      const auto it = std::find_if(tensors.begin(), tensors.end(),
                                   [&](const TensorInfo& t) { return t.name == name; });
      order.push_back(static_cast<std::size_t>(it - tensors.begin()));
    }
  }
  return order;
}

// Copies the values that two tiles of one matrix have in common. Values are row-major.
void CopyOverlap(const TileCell& from, const std::vector<float>& values, const TileCell& to,
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

}  // namespace

std::vector<float> TileMover::Fetch(const TileCell& tile) {
  for (;;) {
    check_();
    const auto found = client_.ReadOne(Pattern::Of(tile.key), std::chrono::seconds(1));
    if (!found) continue;
    std::vector<float> values(Values(tile));
    if (found->payload.size() != values.size() * sizeof(float)) {
      throw FailureError(fmt::format("{} has {} bytes, must have {}", tile.key.ToString(),
                                     found->payload.size(), values.size() * sizeof(float)));
    }
    std::memcpy(values.data(), found->payload.data(), found->payload.size());
    return values;
  }
}

void TileMover::Put(const TileCell& tile, std::vector<float> values) {
  check_();
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  tuplespace::Tuple tuple;
  tuple.key = tile.key;
  const float* data = owner->data();
  const std::size_t bytes = owner->size() * sizeof(float);
  tuple.payload = tuplespace::Payload(std::move(owner), data, bytes);
  client_.Put({std::move(tuple)});
}

void TileMover::Load(const ModelReader& file, const Model& model,
                     const std::vector<TileCell>& tiles) {
  if (file.Layers() != model.layers) {
    throw UsageError(
        fmt::format("model.initial_weights: the file's layers are {}, the job's are {}",
                    fmt::join(file.Layers(), "-"), fmt::join(model.layers, "-")));
  }
  const std::vector<std::size_t> order = FileOrder(model);
  for (const TileCell& tile : tiles) {
    std::vector<float> values(Values(tile), 0.0f);
    if (tile.state < 0) {
      file.Read(order[static_cast<std::size_t>(tile.tensor)], tile.outputs.begin,
                IsBias(tile) ? 0 : tile.inputs.begin, tile.outputs.size(), tile.inputs.size(),
                values);
    }
    Put(tile, std::move(values));
  }
}

void TileMover::Move(const std::string& run, std::int64_t version,
                     const std::vector<TileCell>& from, const std::vector<TileCell>& to) {
  const auto remove = [&](FieldPattern step, std::optional<FieldPattern> what) {
    Pattern pattern{{FieldPattern::Exact(run), std::move(step)}, true};
    if (what) pattern.fields.push_back(std::move(*what));
    client_.RetireAll(pattern, false);
  };
  // Tasks first: none may find its inputs gone.
  remove(FieldPattern::AtLeast(version), FieldPattern::Exact("task"));
  remove(FieldPattern::AtLeast(version + 1), std::nullopt);
  for (const char* what : {"act", "pre", "delta", "part.", "loss", "target"}) {
    remove(FieldPattern::Exact(version), FieldPattern::Prefix(what));
  }
  std::set<Key> kept;
  std::set<Key> there;
  for (const TileCell& tile : from) there.insert(tile.key);
  for (const TileCell& tile : to) {
    kept.insert(tile.key);
    if (there.count(tile.key) != 0) continue;
    std::vector<float> values(Values(tile));
    for (const TileCell& old : from) {
      if (old.tensor == tile.tensor && old.state == tile.state &&
          old.outputs.Overlaps(tile.outputs) && old.inputs.Overlaps(tile.inputs)) {
        CopyOverlap(old, Fetch(old), tile, &values);
      }
    }
    Put(tile, std::move(values));
  }
  for (const TileCell& tile : from) {
    if (kept.count(tile.key) == 0) client_.RetireAll(Pattern::Of(tile.key), false);
  }
}

std::string TileMover::WriteModel(const std::string& path, const Model& model,
                                  const std::vector<TileCell>& tiles) {
  std::string folder;
  std::string file = path;
  if (path.empty()) {
    folder = (std::filesystem::temp_directory_path() / "acan-model-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
      throw FailureError(
          fmt::format("cannot make a temporary folder {}: {}", folder, std::strerror(errno)));
    }
    file = folder + "/model.safetensors";
  }
  struct Cleanup {
    const std::string& folder;
    ~Cleanup() {
      std::error_code ignored;
      if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
    }
  } cleanup{folder};
  ModelWriter writer(file, model);
  const std::vector<std::size_t> order = FileOrder(model);
  for (const TileCell& tile : tiles) {
    if (tile.state >= 0) continue;
    const std::vector<float> values = Fetch(tile);
    writer.Write(order[static_cast<std::size_t>(tile.tensor)], tile.outputs.begin,
                 IsBias(tile) ? 0 : tile.inputs.begin, tile.outputs.size(), tile.inputs.size(),
                 values);
  }
  return writer.Finish();
}

}  // namespace acan
