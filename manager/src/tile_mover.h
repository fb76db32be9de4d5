// TileMover: brings weights into the space, out of it, and from one cut to another. It holds a few
// tiles at a time, never the model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "acan/manager/graph.h"
#include "acan/manager/model_file.h"
#include "tuplespace/client.h"

namespace acan {

class TileMover {
 public:
  // `check` is called between tiles; it throws to stop.
  TileMover(tuplespace::Client& client, std::function<void()> check)
      : client_(client), check_(std::move(check)) {}

  // Puts `tiles` with the file's values (optimizer state: zeros).
  // Throws Error (usage) if the file's layers are not the model's.
  void Load(const ModelReader& file, const Model& model, const std::vector<TileCell>& tiles);

  // Removes the run's tasks from `version` on, what they made, and later versions; puts `to` out of
  // the values of `from`; removes those of `from` that are not in `to`.
  void Move(const std::string& run, std::int64_t version, const std::vector<TileCell>& from,
            const std::vector<TileCell>& to);

  // Streams the parameters among `tiles` into a safetensors file; returns weights_sha256. With an
  // empty path the file is only made for its hash.
  std::string WriteModel(const std::string& path, const Model& model,
                         const std::vector<TileCell>& tiles);

 private:
  std::vector<float> Fetch(const TileCell& tile);
  void Put(const TileCell& tile, std::vector<float> values);

  tuplespace::Client& client_;
  std::function<void()> check_;
};

}  // namespace acan
