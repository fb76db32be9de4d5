// TileMover: moves weights into the space, out of it, and from one cut to another. It holds a few
// tiles at a time, never the whole model.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/manager/model_file.h"
#include "acan/manager/pass_tasks.h"
#include "tuplespace/client.h"

namespace acan {

// Whether `tiles` cover a matrix of `rows` x `cols`. They may overlap, because a handler may
// complete a task that it took before the boxes were cut anew; overlapping values are the same.
bool AreWhole(const std::vector<TileCell>& tiles, std::int64_t rows, std::int64_t cols);

// A source of weights and optimizer state.
class TileSource {
 public:
  virtual ~TileSource() = default;
  // The values that `tile` covers, row-major.
  virtual std::vector<float> Read(const TileCell& tile) = 0;
};

// A model file or snapshot. Missing optimizer state is read as zeros.
class FileTiles final : public TileSource {
 public:
  explicit FileTiles(const ModelReader& file);
  std::vector<float> Read(const TileCell& tile) override;

 private:
  const ModelReader& file_;
  std::map<MatrixId, std::size_t> places_;  // indices in the file's order
};

class TileMover {
 public:
  // `check` is called between tiles, while a tile is on its way, and while a file is finished; it
  // throws to stop. `say` gets a message if something takes long; it may be null.
  TileMover(tuplespace::Client& client, std::function<void()> check,
            std::function<void(const std::string&)> say = {})
      : client_(client), check_(std::move(check)), say_(std::move(say)) {}

  // Puts `tiles` with the values of the source.
  void Load(TileSource& source, const std::vector<TileCell>& tiles);
  // Removes the run's tasks from `version` on, their results, and later versions. Then puts `to`
  // with the values of `from`, and removes the tiles of `from` that are not in `to`.
  void Move(const std::string& run, std::int64_t version, const std::vector<TileCell>& from,
            const std::vector<TileCell>& to);

  // The newest version of `run`, up to `newest`, whose every value is in the space, and its tiles.
  // Tiles of a wrong size do not count.
  struct Whole {
    std::int64_t version = 0;
    std::vector<TileCell> tiles;
  };
  std::optional<Whole> FindWhole(const std::string& run, const TrainedModel& model, int states,
                                 std::int64_t newest);

  // Streams `tiles` into a file, which the caller finishes. Returns whether all parameters are
  // finite.
  bool Write(ModelWriter& writer, const std::vector<TensorInfo>& tensors,
             const std::vector<TileCell>& tiles);
  struct Written {
    std::string weights_sha256;  // empty: not written
    bool finite = true;
  };
  // Streams the parameters among `tiles` into a safetensors file of a model after `steps` steps.
  // With `only_finite` the file is not made if a value is not finite.
  Written WriteModel(const std::string& path, const TrainedModel& model, std::int64_t steps,
                     const std::vector<TileCell>& tiles, bool only_finite);
  // The same without a file. No disk need have room for the model.
  Written HashModel(const TrainedModel& model, std::int64_t steps,
                    const std::vector<TileCell>& tiles);
  bool AreFinite(const std::vector<TileCell>& tiles);  // only the parameters are checked

  // Waits for the tile's floats, and returns them without a copy if they are aligned. With a
  // `patience`, nullopt if the broker says that it did not have them for that long. Throws
  // Error (failure) if it has another size; the text names the client that put it.
  std::optional<tuplespace::Payload> Fetch(const TileCell& tile,
                                           std::optional<std::chrono::seconds> patience = {});

 private:
  // The tiles of one version, for all tensors.
  std::vector<TileCell> TilesIn(const std::string& run, std::int64_t version,
                                const std::vector<TensorInfo>& tensors);
  void Put(const TileCell& tile, std::vector<float> values);

  tuplespace::Client& client_;
  std::function<void()> check_;
  std::function<void(const std::string&)> say_;
};

// Tiles in the space, in any cut.
class SpaceTiles final : public TileSource {
 public:
  // `patience` (see TileMover::Fetch) is for the tiles of a run that no longer maintains them. A
  // run's own tiles are there, however long a slow broker takes.
  SpaceTiles(TileMover mover, std::vector<TileCell> tiles,
             std::optional<std::chrono::seconds> patience)
      : mover_(std::move(mover)), tiles_(std::move(tiles)), patience_(patience) {}
  // Throws TileGone if a patience is set and runs out.
  std::vector<float> Read(const TileCell& tile) override;

 private:
  TileMover mover_;
  const std::vector<TileCell> tiles_;
  const std::optional<std::chrono::seconds> patience_;
};
struct TileGone {
  tuplespace::Key key;
};

}  // namespace acan
