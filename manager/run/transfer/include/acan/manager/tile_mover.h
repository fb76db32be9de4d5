// TileMover: brings weights into the space, out of it, and from one cut to another. It holds a few
// tiles at a time, never the model.
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

// Whether `tiles` have every value of a matrix of `rows` x `cols`. They may overlap, as a handler
// may finish what it took before boxes were cut anew: what they have in common is the same.
bool AreWhole(const std::vector<TileCell>& tiles, std::int64_t rows, std::int64_t cols);

// Where values of weights and optimizer state are read from.
class TileSource {
 public:
  virtual ~TileSource() = default;
  // The values that `tile` covers, row-major.
  virtual std::vector<float> Read(const TileCell& tile) = 0;
};

// A model file or snapshot. Optimizer state that it does not have is zeros.
class FileTiles final : public TileSource {
 public:
  explicit FileTiles(const ModelReader& file);
  std::vector<float> Read(const TileCell& tile) override;

 private:
  const ModelReader& file_;
  std::map<MatrixId, std::size_t> places_;  // in the file's order
};

class TileMover {
 public:
  // `check` is called between tiles, and while a file is finished; it throws to stop. `say` is told
  // what is waited for when that takes long; it may be null.
  TileMover(tuplespace::Client& client, std::function<void()> check,
            std::function<void(const std::string&)> say = {})
      : client_(client), check_(std::move(check)), say_(std::move(say)) {}

  // Puts `tiles` with the source's values.
  void Load(TileSource& source, const std::vector<TileCell>& tiles);
  // Removes the run's tasks from `version` on, what they made, and later versions; puts `to` out of
  // the values of `from`; removes those of `from` that are not in `to`.
  void Move(const std::string& run, std::int64_t version, const std::vector<TileCell>& from,
            const std::vector<TileCell>& to);

  // The newest version of `run`, at most `newest`, of which every value is in the space; its tiles.
  struct Whole {
    std::int64_t version = 0;
    std::vector<TileCell> tiles;
  };
  std::optional<Whole> FindWhole(const std::string& run, const TrainedModel& model, int states,
                                 std::int64_t newest);

  // Streams `tiles` into a file, which is left to be finished. Whether all parameters are finite.
  bool Write(ModelWriter& writer, const std::vector<TensorInfo>& tensors,
             const std::vector<TileCell>& tiles);
  struct Written {
    std::string weights_sha256;  // empty: not written
    bool finite = true;
  };
  // Streams the parameters among `tiles` into a safetensors file. With an empty path the file is
  // only made for its hash; with `only_finite` it is not made if a value is not finite.
  // `steps` are behind it.
  Written WriteModel(const std::string& path, const TrainedModel& model, std::int64_t steps,
                     const std::vector<TileCell>& tiles, bool only_finite);
  bool AreFinite(const std::vector<TileCell>& tiles);  // the parameters among them

  // Waits for the tile's floats, where they came if those can lie there: they may be many. With a
  // `patience`, nullopt if the broker did not have it for that long.
  std::optional<tuplespace::Payload> Fetch(const TileCell& tile,
                                           std::optional<std::chrono::seconds> patience = {});

 private:
  // The tiles of one version, of all tensors.
  std::vector<TileCell> TilesIn(const std::string& run, std::int64_t version,
                                const std::vector<TensorInfo>& tensors);
  void Put(const TileCell& tile, std::vector<float> values);

  tuplespace::Client& client_;
  std::function<void()> check_;
  std::function<void(const std::string&)> say_;
};

// Tiles that are in the space, in whatever cut.
class SpaceTiles final : public TileSource {
 public:
  // `patience` (TileMover::Fetch): for those of a run that nobody keeps there any more. A run's own
  // are there, however long a slow broker takes.
  SpaceTiles(TileMover mover, std::vector<TileCell> tiles,
             std::optional<std::chrono::seconds> patience)
      : mover_(std::move(mover)), tiles_(std::move(tiles)), patience_(patience) {}
  // Throws TileGone if there is a patience.
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
